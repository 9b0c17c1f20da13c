"""Does the operator's configuration reach worker and poller, and do `up`'s own keys take precedence?"""

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from worker.daemon.config import load_node_config
from worker.settings.flags import Flags, node_parser, parse_node_flags
from worker.settings.kubelet.configuration import ConfigurationRefused
from worker.standalone.given_configuration import (
    KUBELET_KEYS_OF_UP,
    TEMPOLET_KEYS_OF_UP,
    GivenConfiguration,
    read_given,
)
from worker.standalone.node_config import (
    kubelet_configuration,
    node_command,
    roles,
    tempolet_configuration,
    write_configuration,
)
from worker.standalone.settings import OtherSettings, Ports, Settings, recorded

KUBELET = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
OWN = "apiVersion: tempolet.dev/v1alpha1\nkind: TempoletConfiguration\n"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Return a node's settings with nothing at its default place."""
    return Settings(state_dir=tmp_path / "state", run_dir=tmp_path / "run", hostname_override="n1", ports=Ports(1, 2))


DEFAULTS_OF_UP = {"behaviour"}
"""Set where they are not given."""


def written(folder: Path, text: str, name: str = "given.yaml") -> Path:
    """Write a file."""
    (folder / name).write_text(text)
    return folder / name


def test_both_processes_get_what_was_given(settings: Settings, tmp_path: Path) -> None:
    """By the command line that they are started with, read as they read it."""
    keys = "containerLogMaxSize: 1Mi\nimageGCHighThresholdPercent: 70\nimageGCLowThresholdPercent: 60\n"
    more = "allowedUnsafeSysctls: [net.core.somaxconn]\nfeatureGates: {MemoryQoS: true}\nresolvConf: node.conf\n"
    own = OWN + "images: {prepull: [busybox:1.37], lookEvery: 1m}\nruntime: {startLimit: 3}\n"
    flags = Flags(config=written(tmp_path, KUBELET + keys + more), tempolet_config=written(tmp_path, own, "own.yaml"))
    settings = replace(settings, given_configuration=read_given(flags)[0])
    write_configuration(settings)
    for role in roles(settings):
        words = [str(word) for word in node_command(settings, role).argv][4:]
        config = load_node_config(parse_node_flags(node_parser(role, ""), words))
        assert config.container_logs.max_size == 1024 * 1024
        assert config.image_policy.high_threshold_percent == 70
        assert config.image_policy.look_every == timedelta(minutes=1)
        assert config.allowed_unsafe_sysctls == ("net.core.somaxconn",)
        assert config.dns.resolv_conf == str(tmp_path / "node.conf")
        assert config.tempolet.images.prepull == ("busybox:1.37",)
        assert config.start_limit == 3
        assert config.static_pod_path == settings.manifests
        assert config.tempolet.temporal.address == settings.temporal.address


def test_credential_providers_are_handed_on(settings: Settings, tmp_path: Path) -> None:
    """As absolute paths, for the processes run in another folder."""
    given = GivenConfiguration({}, {}, "/etc/providers.yaml", "/opt/providers")
    for role in roles(settings):
        words = list(node_command(replace(settings, given_configuration=given), role).argv)
        assert words[words.index("--image-credential-provider-config") + 1] == "/etc/providers.yaml"
        assert words[words.index("--image-credential-provider-bin-dir") + 1] == "/opt/providers"
    with pytest.raises(ConfigurationRefused, match="image-credential-provider-bin-dir"):
        read_given(Flags(image_credential_provider_config=tmp_path))


@pytest.mark.parametrize("key", KUBELET_KEYS_OF_UP)
def test_a_kubelet_key_of_up_is_refused_by_name(tmp_path: Path, key: str) -> None:
    """Whatever its value is."""
    with pytest.raises(ConfigurationRefused, match=rf"given\.yaml: .*take them out: {key} \(it "):
        read_given(Flags(config=written(tmp_path, f"{KUBELET}{key}: null\n")))


@pytest.mark.parametrize("key", TEMPOLET_KEYS_OF_UP)
def test_a_key_of_our_own_that_is_of_up_is_refused_by_name(tmp_path: Path, key: str) -> None:
    """Whatever its section holds."""
    with pytest.raises(ConfigurationRefused, match=rf"given\.yaml: .*take them out: {key} \(it "):
        read_given(Flags(tempolet_config=written(tmp_path, f"{OWN}{key}: {{}}\n")))


def test_all_that_up_sets_is_refused_when_it_is_given(settings: Settings) -> None:
    """Else a key would be taken and not obeyed."""
    kinds = {"apiVersion", "kind"}
    assert kubelet_configuration(settings).keys() - kinds <= KUBELET_KEYS_OF_UP.keys()
    assert tempolet_configuration(settings, "worker").keys() - kinds - DEFAULTS_OF_UP <= TEMPOLET_KEYS_OF_UP.keys()


@pytest.mark.parametrize(
    ("given", "commit"),
    [
        pytest.param("", "AtStart", id="nobody-runs-the-command-on-a-node-of-up"),
        pytest.param("behaviour: {commit: ByCommand}\n", "ByCommand", id="unless-it-is-said"),
    ],
)
def test_when_a_release_is_committed(settings: Settings, tmp_path: Path, given: str, commit: str) -> None:
    """What is given counts."""
    own = Flags(tempolet_config=written(tmp_path, OWN + given))
    settings = replace(settings, given_configuration=read_given(own)[0])
    assert tempolet_configuration(settings, "worker")["behaviour"] == {"commit": commit}


@pytest.mark.parametrize(
    ("flag", "text", "message"),
    [
        pytest.param("config", KUBELET + "maxPods: x", "given.yaml: maxPods", id="a-wrong-value"),
        pytest.param("config", KUBELET + "containerLogMaxFiles: 1", "containerLogMaxFiles", id="a-broken-rule"),
        pytest.param("config", OWN, "given.yaml: apiVersion", id="the-other-kind"),
        pytest.param("config", "[", "given.yaml: not one YAML", id="no-yaml"),
        pytest.param("tempolet_config", OWN + "imags: {}", "given.yaml: imags: no such key", id="no-key-of-ours"),
        pytest.param("tempolet_config", KUBELET, "given.yaml: apiVersion", id="the-kubelets-kind"),
    ],
)
def test_a_file_that_cannot_be_obeyed(tmp_path: Path, flag: str, text: str, message: str) -> None:
    """It is named before anything is started."""
    file = written(tmp_path, text)
    flags = Flags(config=file) if flag == "config" else Flags(tempolet_config=file)
    with pytest.raises(ConfigurationRefused, match=message):
        read_given(flags)


def test_what_is_not_acted_on_is_told(tmp_path: Path) -> None:
    """With the file that sets it."""
    _, warnings = read_given(Flags(config=written(tmp_path, KUBELET + "hairpinMode: none\nmaxPod: 3\n")))
    assert any("hairpinMode: has no effect in tempolet" in warning for warning in warnings)
    assert any(f"{tmp_path}/given.yaml: maxPod: not a key" in warning for warning in warnings)


def test_what_was_given_is_remembered(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The keys, not the file's name: an edited file is another setting. A record of before there were any counts too."""
    flags = Flags(config=written(tmp_path, KUBELET + "maxPods: 5\n"))
    before = replace(settings, given_configuration=read_given(flags)[0])
    before.keep()
    assert recorded(settings.run_dir) == before
    written(tmp_path, KUBELET + "maxPods: 6\ncontainerLogMaxFiles: 3\n")
    after = replace(settings, given_configuration=read_given(flags)[0])
    monkeypatch.setattr(Settings, "is_running", lambda _: True)
    with pytest.raises(OtherSettings, match=r"\(kubelet_configuration: containerLogMaxFiles, maxPods\): run"):
        after.keep()
    content = json.loads(settings.record.read_text())
    del content["given_configuration"]
    settings.record.write_text(json.dumps(content))
    assert recorded(settings.run_dir) == settings


def test_a_node_of_a_cluster_has_a_third_process_and_all_know_the_way(settings: Settings, tmp_path: Path) -> None:
    """The same kubeconfig and address for each; a standalone node has neither process nor flag."""
    assert roles(settings) == ("worker", "poller")
    assert "--kubeconfig" not in node_command(settings, "worker").argv
    joined = replace(settings, kubeconfig=str(tmp_path / "node.kubeconfig"), node_ip="10.0.0.7")
    write_configuration(joined)
    assert roles(joined) == ("worker", "poller", "node")
    for role in roles(joined):
        words = [str(word) for word in node_command(joined, role).argv][4:]
        config = load_node_config(parse_node_flags(node_parser(role, ""), words))
        assert config.cluster is not None
        assert config.cluster.kubeconfig == tmp_path / "node.kubeconfig"
        assert words[words.index("--node-ip") + 1] == "10.0.0.7"
