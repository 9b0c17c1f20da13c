"""Are our own keys read from a file of their own, and nothing else?"""

from datetime import timedelta
from pathlib import Path

import pytest

from worker.daemon.config import NodeConfig, load_node_config
from worker.settings.flags import Flags
from worker.settings.kubelet.configuration import ConfigurationRefused

HEAD = "apiVersion: tempolet.dev/v1alpha1\nkind: TempoletConfiguration\n"


def load(tmp_path: Path, text: str) -> NodeConfig:
    """Read a file of our own."""
    file = tmp_path / "tempolet.yaml"
    file.write_text(text)
    return load_node_config(Flags(tempolet_config=file, root_dir=tmp_path))


def test_without_a_file_everything_has_a_place_below_root_dir(tmp_path: Path) -> None:
    """A fresh node needs no file of ours."""
    config = load_node_config(Flags(root_dir=tmp_path))
    assert config.payload_key_file == tmp_path / "tempolet" / "payload.keys"
    assert config.codec_token_file == tmp_path / "tempolet" / "codec.token"
    assert config.start_limit >= 2
    assert config.tempolet.temporal.away_after == timedelta(seconds=5)
    assert config.tempolet.behaviour.commit == "ByCommand"
    assert config.tempolet.hooks.allowed_on_api_pods is False
    assert config.objects_dir == tmp_path / "tempolet" / "objects"


def test_objects_lie_beside_the_manifests_unless_said_otherwise(tmp_path: Path) -> None:
    """A node with manifests has one place for both."""
    flags = Flags(root_dir=tmp_path, keys={"staticPodPath": "/etc/kubernetes/manifests"})
    assert load_node_config(flags).objects_dir == Path("/etc/kubernetes/objects")
    assert load(tmp_path, HEAD + "objects: {folder: /srv/objects}\n").objects_dir == Path("/srv/objects")


def test_keys_are_obeyed(tmp_path: Path) -> None:
    """Each section reaches the configuration."""
    config = load(
        tmp_path,
        HEAD + "temporal: {namespace: edge, retention: 72h, awayAfter: 20s, payloadKeyFile: /k, databaseFile: /t.db}\n"
        "codec: {address: '127.0.0.1:8088'}\nruntime: {startLimit: 3}\nmetrics: {bindAddress: '[::1]:9090'}\n"
        "logs: {legacyContainerLogsDir: /l}\nbehaviour: {commit: AtStart}\nhooks: {allowedOnApiPods: true}\n"
        "history: {databaseLimit: 1Gi, databaseSync: Full}\n",
    )
    assert config.tempolet.temporal.namespace == "edge"
    assert config.tempolet.temporal.retention == timedelta(hours=72)
    assert config.tempolet.temporal.away_after == timedelta(seconds=20)
    assert config.tempolet.logs.legacy_container_logs_dir == Path("/l")
    assert config.tempolet.behaviour.commit == "AtStart"
    assert config.tempolet.hooks.allowed_on_api_pods is True
    assert (config.tempolet.temporal.database_file, config.tempolet.history.database_limit) == (Path("/t.db"), "1Gi")
    assert config.tempolet.history.database_sync == "Full"
    assert (config.payload_key_file, config.start_limit) == (Path("/k"), 3)
    assert (config.tempolet.codec.address, config.tempolet.metrics.bind_address) == ("127.0.0.1:8088", "[::1]:9090")


def test_container_logs_have_links_where_log_agents_look(tmp_path: Path) -> None:
    """Unless the file disables them."""
    assert load(tmp_path, HEAD).tempolet.logs.legacy_container_logs_dir == Path("/var/log/containers")
    none = load(tmp_path, HEAD + "logs: {legacyContainerLogsDir: ''}\n")
    assert none.tempolet.logs.legacy_container_logs_dir is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(HEAD + "temporl: {}", "temporl: no such key", id="an-unknown-key"),
        pytest.param(HEAD + "temporal: {key_file: x}", "temporal.key_file: no such key", id="a-snake-case-key"),
        pytest.param(HEAD + "runtime: {startLimit: -1}", "runtime.startLimit", id="a-negative-limit"),
        pytest.param(HEAD + "temporal: {retention: 30d}", "temporal.retention: '30d' is no duration", id="days"),
        pytest.param(HEAD + "temporal: {awayAfter: 900ms}", "temporal.awayAfter: it is between 1s", id="away-at-once"),
        pytest.param(HEAD + "temporal: {awayAfter: 61m}", "temporal.awayAfter: it is between 1s", id="never-away"),
        pytest.param(HEAD + "codec: {address: here}", "codec.address", id="no-port"),
        pytest.param(HEAD + "behaviour: {commit: Never}", "behaviour.commit: 'Never'; it is ByCommand or", id="a-word"),
        pytest.param(HEAD + "hooks: {allowedOnApiPods: yes please}", "hooks.allowedOnApiPods", id="not-a-bool"),
        pytest.param(HEAD + "history: {databaseLimit: 1Mi}", "history.databaseLimit: 1Mi; the minimum", id="no-room"),
        pytest.param(
            HEAD + "history: {databaseLimit: big}", "history.databaseLimit: quantities must match", id="a-size"
        ),
        pytest.param(
            HEAD + "history: {databaseSync: full}", "history.databaseSync: 'full'; it is Normal or Full", id="a-sync"
        ),
        pytest.param(HEAD + "codec: {}\ncodec: {}", "codec: set twice", id="a-duplicate"),
        pytest.param(
            "apiVersion: tempolet.dev/v1alpha1\nkind: KubeletConfiguration\n",
            "pass a KubeletConfiguration by --config",
            id="the-kubelets-kind",
        ),
        pytest.param("kind: TempoletConfiguration\n", "apiVersion is None", id="no-version"),
    ],
)
def test_a_wrong_file_is_refused_by_file_and_key(tmp_path: Path, text: str, message: str) -> None:
    """Unknown keys are refused."""
    with pytest.raises(ConfigurationRefused) as refused:
        load(tmp_path, text)
    assert str(tmp_path / "tempolet.yaml") in str(refused.value)
    assert message in str(refused.value)


def test_images_to_have_in_advance(tmp_path: Path) -> None:
    """A list of names, each of which must be one; and how often images are looked at, for which no kubelet has a key."""
    config = load(tmp_path, HEAD + "images: {prepull: ['busybox:1.37', 'registry.k8s.io/pause'], lookEvery: 1m}\n")
    assert config.tempolet.images.prepull == ("busybox:1.37", "registry.k8s.io/pause")
    assert config.image_policy.look_every == timedelta(minutes=1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("images: {prepull: ['ok:1', 'No:1']}", r"images\.prepull\[1\]"),
        ('images: {prepull: ["a\\0b"]}', r"images\.prepull\[0\]"),
        (f"images: {{prepull: ['{'a' * 60}.{'b' * 900}/c']}}", r"images\.prepull\[0\]"),
        ("images: {lookEvery: 10ms}", r"images\.lookEvery: less than a second"),
    ],
)
def test_images_that_cannot_be_had_are_refused(tmp_path: Path, text: str, words: str) -> None:
    """By the place in the list."""
    with pytest.raises(ConfigurationRefused, match=words):
        load(tmp_path, HEAD + text + "\n")
