"""Does a node obey its KubeletConfiguration as a kubelet would, and warn where it does not?"""

import socket
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from worker.daemon.config import ManifestUrlSettings, NodeConfig, load_node_config, node_ips, node_name
from worker.settings.flags import Flags
from worker.settings.images import DEFAULT_PARALLEL_PULLS
from worker.settings.kubelet.configuration import ConfigurationRefused

HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"


def load(tmp_path: Path, text: str, flags: Flags | None = None, **keys: Any) -> NodeConfig:
    """Read a configuration whose file says `text` below its head."""
    file = tmp_path / "kubelet.yaml"
    file.write_text(HEAD + text)
    return load_node_config(replace(flags or Flags(), config=file, keys=keys))


@pytest.mark.parametrize(
    ("text", "field", "expected"),
    [
        pytest.param("", "pod_pids_limit", -1, id="the-kubelets-default"),
        pytest.param("podPidsLimit: 20", "pod_pids_limit", 20, id="a-key-is-obeyed"),
        pytest.param("", "local_storage_limits", True, id="disks-are-watched"),
        pytest.param("localStorageCapacityIsolation: false", "local_storage_limits", False, id="or-not"),
        pytest.param("podLogsDir: ''", "pod_logs_dir", Path("/var/log/pods"), id="empty-is-absent"),
        pytest.param("syncFrequency: 0s", "sync_frequency", timedelta(minutes=1), id="a-zero-duration-is-absent"),
        pytest.param("podPidsLimit: null", "pod_pids_limit", -1, id="null-is-absent"),
        pytest.param("healthzPort: 0", "healthz_port", 0, id="zero-is-zero-where-the-kubelet-can-tell"),
        pytest.param("fileCheckFrequency: 1m30s", "file_check_frequency", timedelta(seconds=90), id="a-duration"),
        pytest.param("staticPodPath: m", "static_pod_path", Path("{tmp}/m"), id="a-path-counts-from-the-file"),
        pytest.param("staticPodPath: /m", "static_pod_path", Path("/m"), id="an-absolute-path-stays"),
        pytest.param(
            "staticPodURL: http://h/p\nstaticPodURLHeader: {A: [b, c]}\nhttpCheckFrequency: 5s",
            "manifest_url",
            ManifestUrlSettings("http://h/p", (("A", "b"), ("A", "c")), timedelta(seconds=5)),
            id="a-url-with-its-headers",
        ),
        pytest.param("podPidsLimit: -7", "pod_pids_limit", -1, id="a-negative-pid-limit-is-none"),
        pytest.param(
            "crashLoopBackOff: {maxContainerRestartPeriod: 20s}",
            "max_container_restart_period",
            timedelta(seconds=20),
            id="the-crash-loop-limit",
        ),
        pytest.param(
            "featureGates: {KubeletCrashLoopBackOffMax: false}",
            "max_container_restart_period",
            timedelta(seconds=300),
            id="no-crash-loop-limit-without-its-gate",
        ),
    ],
)
def test_a_key_is_obeyed(tmp_path: Path, text: str, field: str, expected: Any) -> None:
    """Each key reaches the field that the rest of tempolet reads."""
    if isinstance(expected, Path):
        expected = Path(str(expected).replace("{tmp}", str(tmp_path)))
    config = load(tmp_path, text)
    assert getattr(config, field) == expected
    assert config.warnings == ()


@pytest.mark.parametrize(
    ("text", "parallel"),
    [
        pytest.param("", DEFAULT_PARALLEL_PULLS, id="bounded-when-nothing-is-said"),
        pytest.param("serializeImagePulls: true", 1, id="one-at-a-time-when-asked"),
        pytest.param("serializeImagePulls: false", None, id="unbounded-when-asked"),
        pytest.param("maxParallelImagePulls: 3", 3, id="a-limit-alone-is-not-serial"),
        pytest.param("maxParallelImagePulls: 1", 1, id="a-limit-of-one-is-serial"),
    ],
)
def test_parallel_image_pulls(tmp_path: Path, text: str, parallel: int | None) -> None:
    """SerializeImagePulls and maxParallelImagePulls hang together (v1beta1/defaults.go)."""
    assert load(tmp_path, text).pulls.parallel == parallel


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        pytest.param("podPidLimit: 3", "podPidLimit: not a key of KubeletConfiguration, ignored", id="an-unknown-key"),
        pytest.param(
            "authentication: {anon: 1}",
            "authentication.anon: not a key of KubeletConfiguration, ignored",
            id="an-unknown-key-inside",
        ),
        pytest.param(
            "podPidsLimit: 3\npodPidsLimit: 4", "podPidsLimit: set twice, the last one is used", id="a-duplicate-key"
        ),
        pytest.param(
            "hairpinMode: none",
            "hairpinMode: has no effect in tempolet yet",
            id="a-key-without-effect",
        ),
        pytest.param(
            "authentication: {anonymous: {enabled: true}}",
            "authentication.anonymous.enabled: has no effect in tempolet yet",
            id="a-nested-key-without-effect",
        ),
        pytest.param(
            "featureGates: {ReduceDefaultCrashLoopBackOffDecay: true}",
            "featureGates.ReduceDefaultCrashLoopBackOffDecay: set to true, which has no effect in tempolet yet",
            id="a-gate-without-effect",
        ),
        pytest.param(
            "featureGates: {AllAlpha: true}",
            "featureGates.AllAlpha: set to true, but only",
            id="a-group-of-gates",
        ),
    ],
)
def test_what_has_no_effect_is_named_once(tmp_path: Path, text: str, warning: str) -> None:
    """A lenient reading must not be a silent one."""
    warnings = load(tmp_path, text).warnings
    assert len(warnings) == 1
    assert warning in warnings[0]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("evictionPressureTransitionPeriod: 300s", id="a-default-written-otherwise"),
        pytest.param("authentication: {anonymous: {enabled: false}}", id="a-default-inside"),
        pytest.param("featureGates: {EventedPLEG: true}", id="a-gate-that-is-acted-on"),
        pytest.param("featureGates: {ContainerStopSignals: true}", id="the-gate-of-stop-signals"),
        pytest.param("featureGates: {ImageVolumeWithDigest: true}", id="the-gate-of-image-volumes-digests"),
        pytest.param("imageMaximumGCAge: 0s", id="a-zero-that-is-the-default"),
        pytest.param("evictionHard: {}", id="an-empty-map"),
    ],
)
def test_a_default_is_no_warning(tmp_path: Path, text: str) -> None:
    """Files that installers write are full of defaults."""
    assert load(tmp_path, text).warnings == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            "maxPods: many", "maxPods: 'many' is text; must be a whole number (int32)", id="text-for-a-number"
        ),
        pytest.param("maxPods: 1.0", "maxPods: 1.0 is a number; must be a whole number", id="a-fraction-for-a-number"),
        pytest.param("maxPods: 9999999999", "maxPods: 9999999999", id="beyond-int32"),
        pytest.param("clusterDomain: yes", "clusterDomain: true is true or false; must be text", id="yaml-1.1-yes"),
        pytest.param("clusterDNS: 10.0.0.10", "clusterDNS: '10.0.0.10' is text; must be a list", id="text-for-a-list"),
        pytest.param(
            "syncFrequency: 60", "syncFrequency: 60 is a number; must be a duration", id="number-for-duration"
        ),
        pytest.param("syncFrequency: 1min", "syncFrequency: '1min' is no duration", id="a-wrong-duration"),
        pytest.param(
            "authentication: true", "authentication: true is true or false; must be a mapping", id="no-mapping"
        ),
        pytest.param("logging: {verbosity: -1}", "logging.verbosity: -1 is a number; must be", id="a-negative-uint"),
        pytest.param(
            "featureGates: {X: 1}", "featureGates.X: 1 is a number; must be true or false", id="a-gates-value"
        ),
        pytest.param("featureGates: {Nope: true}", "featureGates.Nope: Kubernetes 1.36.3 has no such", id="no-gate"),
        pytest.param("featureGates: {APIServerTracing: false}", "locked to true", id="a-locked-gate"),
        pytest.param("cgroupDriver: openrc", "cgroupDriver: 'openrc', but it is cgroupfs or", id="no-cgroup-driver"),
        pytest.param("podLogsDir: /a/../b", "must be written '/b'", id="a-log-path-that-is-not-normal"),
        pytest.param("clusterDNS: [x]", "clusterDNS[0]: 'x' is not an IP address", id="a-dns-name-as-dns-server"),
        pytest.param("healthzPort: 70000", "healthzPort: 70000", id="a-port-beyond"),
        pytest.param("port: 70000", "port: 70000, but a port is", id="the-apis-port-beyond"),
        pytest.param("readOnlyPort: -1", "readOnlyPort: -1, but a port is", id="the-read-only-port-below"),
        pytest.param("nodeLeaseDurationSeconds: -1", "Seconds: -1, but it must be above 0", id="a-lease-of-no-time"),
        pytest.param(
            "nodeStatusMaxImages: -2", "nodeStatusMaxImages: -2, but it must be -1", id="fewer-than-no-images"
        ),
        pytest.param("logging: {format: xml}", "logging.format: 'xml'", id="a-log-format"),
        pytest.param(
            "allowedUnsafeSysctls: [kernel.msg*, kernel.hostname]",
            "allowedUnsafeSysctls[1]: 'kernel.hostname' is not known to be in a namespace: it would be set for the whole node",
            id="sysctl-of-the-whole-node",
        ),
        pytest.param(
            "allowedUnsafeSysctls: ['net.*.x']",
            "allowedUnsafeSysctls[0]: 'net.*.x' must have at most 253 characters and match",
            id="no-list-of-sysctls",
        ),
        pytest.param(
            "userNamespaces: {idsPerPod: 65535}",
            "userNamespaces.idsPerPod: 65535, but it must not be less than 65536",
            id="too-few-ids-of-its-own",
        ),
        pytest.param(
            "userNamespaces: {idsPerPod: 65537}",
            "userNamespaces.idsPerPod: 65537, but it must be a multiple of 65536",
            id="ids-that-are-no-multiple",
        ),
        pytest.param("registryPullQPS: -1", "registryPullQPS: -1, but it must not be negative", id="negative-qps"),
        pytest.param("maxParallelImagePulls: 0", "maxParallelImagePulls: 0", id="no-pulls-at-all"),
        pytest.param("imageGCHighThresholdPercent: 101", "101, but it is 0 to 100", id="more-than-full"),
        pytest.param("imageGCLowThresholdPercent: 85", "85, but it must be less than", id="thresholds-that-meet"),
        pytest.param(
            "imageMinimumGCAge: -1s", "imageMinimumGCAge: -1s, but it must not be negative", id="negative-age"
        ),
        pytest.param("imageMaximumGCAge: 2m", "must be greater than imageMinimumGCAge", id="ages-that-meet"),
        pytest.param(
            "maxParallelImagePulls: 2\nserializeImagePulls: true",
            "maxParallelImagePulls: 2, which needs serializeImagePulls: false",
            id="parallel-and-serial",
        ),
        pytest.param(
            "crashLoopBackOff: {maxContainerRestartPeriod: 301s}", "5m1s, but it is 1s to 300s", id="a-long-back-off"
        ),
        pytest.param(
            "featureGates: {KubeletCrashLoopBackOffMax: false}\ncrashLoopBackOff: {maxContainerRestartPeriod: 9s}",
            "needs the feature gate KubeletCrashLoopBackOffMax",
            id="a-key-without-its-gate",
        ),
        pytest.param("tracing: {endpoint: 'http://x'}", "tracing.endpoint: 'http://x'", id="a-tracing-scheme"),
        pytest.param("containerRuntimeEndpoint: tcp://x", "containerRuntimeEndpoint: 'tcp://x'", id="a-tcp-runtime"),
        pytest.param("a: [", "not one YAML or JSON document", id="broken-yaml"),
        pytest.param("---\na: 1", "not one YAML or JSON document", id="two-documents"),
        pytest.param("? [a]\n: 1", "a key must be plain text", id="a-list-as-key"),
        pytest.param("a: !!python/name:os.system x", "is not allowed here", id="a-python-tag"),
        pytest.param("a: " + "[" * 60, "nested deeper than", id="nested-too-deep"),
        pytest.param("a: " + "[" * 200_000, "nested deeper than", id="nested-so-deep-that-libyaml-would-crash"),
        pytest.param(
            "a: &a [1,1,1,1,1,1,1,1,1,1]\n"
            + "".join(
                f"{new}: &{new} [{','.join([f'*{old}'] * 10)}]\n" for old, new in zip("abcde", "bcdef", strict=True)
            ),
            "expands to more than",
            id="a-bomb-of-aliases",
        ),
    ],
)
def test_what_cannot_be_obeyed_is_refused_in_words(tmp_path: Path, text: str, message: str) -> None:
    """The message names the key and what belongs there."""
    with pytest.raises(ConfigurationRefused) as refused:
        load(tmp_path, text)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(None, "cannot be read", id="no-such-file"),
        pytest.param("", "empty", id="an-empty-file"),
        pytest.param("kind: Pod\napiVersion: v1\n", "apiVersion 'v1' and kind 'Pod'", id="another-kind"),
        pytest.param("podPidsLimit: 1\n", "apiVersion None and kind None", id="no-kind"),
        pytest.param("- a\n", "not a mapping", id="a-list"),
        pytest.param("x" * 2_000_000, "larger than", id="a-file-that-is-no-configuration"),
    ],
)
def test_a_file_that_is_no_configuration_is_refused_by_name(tmp_path: Path, content: str | None, message: str) -> None:
    """The message has the file's path."""
    file = tmp_path / "k.yaml"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ConfigurationRefused) as refused:
        load_node_config(Flags(config=file))
    assert str(file) in str(refused.value)
    assert message in str(refused.value)


def test_all_breaches_are_told_at_once(tmp_path: Path) -> None:
    """An operator can fix a file in one go."""
    with pytest.raises(ConfigurationRefused, match=r"(?s)healthzPort: 70000.*cgroupDriver"):
        load(tmp_path, "healthzPort: 70000\ncgroupDriver: x")


def test_a_flag_wins_over_file_and_drop_in(tmp_path: Path) -> None:
    """Flags are the last layer; gates are merged one by one, as the kubelet does."""
    (tmp_path / "drop").mkdir()
    (tmp_path / "drop" / "1.conf").write_text(HEAD + "podPidsLimit: 2\nlogging: {verbosity: 1}")
    config = load(
        tmp_path,
        "podPidsLimit: 1\nfeatureGates: {EventedPLEG: true, KubeletCrashLoopBackOffMax: true}",
        Flags(config_dir=tmp_path / "drop", feature_gates="KubeletCrashLoopBackOffMax=false"),
        **{"podPidsLimit": 3, "logging.verbosity": 5},
    )
    assert (config.pod_pids_limit, config.logging.verbosity) == (3, 5)
    assert config.feature_gates.enabled("EventedPLEG")
    assert not config.feature_gates.enabled("KubeletCrashLoopBackOffMax")


def test_a_flags_own_value_is_checked(tmp_path: Path) -> None:
    """A flag is a key like any other."""
    with pytest.raises(ConfigurationRefused, match=r"syncFrequency: '5' is no duration"):
        load(tmp_path, "", syncFrequency="5")


def test_the_nodes_name_is_the_hostname_in_lower_case(monkeypatch: pytest.MonkeyPatch) -> None:
    """Node names are DNS names (component-helpers/node/util/hostname.go)."""
    monkeypatch.setattr(socket, "gethostname", lambda: " Node-A\n")
    assert node_name(None) == "node-a"
    assert node_name("Other") == "other"


@pytest.mark.parametrize("name", [pytest.param(" ", id="blank"), pytest.param("a/b", id="a-slash-breaks-workflow-ids")])
def test_a_node_needs_a_usable_name(name: str) -> None:
    """The name is part of every workflow id."""
    with pytest.raises(ConfigurationRefused, match="--hostname-override"):
        node_name(name)


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        pytest.param(None, (), id="none"),
        pytest.param("10.0.0.1", ("10.0.0.1",), id="one"),
        pytest.param("10.0.0.1, fd00::1", ("10.0.0.1", "fd00::1"), id="dual-stack"),
        pytest.param("::", ("::",), id="prefer-v6"),
        pytest.param("10.0.0.1,10.0.0.2", None, id="two-of-one-family"),
        pytest.param("10.0.0.1,::", None, id="an-unspecified-one-of-two"),
        pytest.param("node", None, id="a-name"),
    ],
)
def test_node_ip(text: str | None, addresses: tuple[str, ...] | None) -> None:
    """One address, or one of each family."""
    if addresses is None:
        with pytest.raises(ConfigurationRefused, match="--node-ip"):
            node_ips(text)
    else:
        assert node_ips(text) == addresses
