"""KubeletConfiguration v1beta1 from a file and drop-ins, read as the kubelet reads them.

The file is parsed strictly; unknown and duplicate keys are then accepted with a warning that names them
(kubeletconfig/util/codec). Drop-ins (`*.conf`, lexical order, subdirectories too) are JSON merge patches over the file
with its defaults, so a null restores a key's default (cmd/kubelet/app/server.go). Every key that is set without effect
is named in a warning: a configuration must never be ignored in silence.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from proto.kubernetes.go_duration import parse_duration
from worker.documents.yaml_document import DocumentRefused, read_document
from worker.settings.kubelet.defaults import derived_defaults
from worker.settings.kubelet.schema import WrongValue, check_fields, default_values, is_duration, leaves, load_schema

API_VERSION: Final = "kubelet.config.k8s.io/v1beta1"
KIND: Final = "KubeletConfiguration"

ACTED_ON: Final = frozenset(
    {
        "apiVersion",
        "kind",
        "featureGates",  # feature_gates.py warns about each gate
        "staticPodPath",
        "fileCheckFrequency",
        "staticPodURL",
        "staticPodURLHeader",
        "httpCheckFrequency",
        "syncFrequency",
        "containerRuntimeEndpoint",
        "podLogsDir",
        "containerLogMaxSize",
        "containerLogMaxFiles",
        "containerLogMaxWorkers",
        "containerLogMonitorInterval",
        "cgroupRoot",
        "cgroupDriver",
        "failCgroupV1",
        "clusterDNS",
        "clusterDomain",
        "resolvConf",
        "localStorageCapacityIsolation",
        "podPidsLimit",
        "maxPods",
        "kubeReserved",
        "systemReserved",
        "enforceNodeAllocatable",
        "kubeReservedCgroup",
        "systemReservedCgroup",
        "kubeletCgroups",
        "systemCgroups",
        "oomScoreAdj",
        "maxOpenFiles",
        "qosReserved",
        "evictionHard",
        "mergeDefaultEvictionSettings",
        "evictionSoft",
        "evictionSoftGracePeriod",
        "evictionMinimumReclaim",
        "evictionMaxPodGracePeriod",
        "evictionPressureTransitionPeriod",
        "kernelMemcgNotification",
        "shutdownGracePeriod",
        "shutdownGracePeriodCriticalPods",
        "shutdownGracePeriodByPodPriority",
        "cpuManagerPolicy",
        "cpuManagerPolicyOptions",
        "cpuManagerReconcilePeriod",
        "reservedSystemCPUs",
        "memoryManagerPolicy",
        "reservedMemory",
        "topologyManagerPolicy",
        "topologyManagerScope",
        "topologyManagerPolicyOptions",
        "cpuCFSQuota",
        "cpuCFSQuotaPeriod",
        "memorySwap.swapBehavior",
        "failSwapOn",
        "protectKernelDefaults",
        "singleProcessOOMKill",
        "memoryThrottlingFactor",
        "memoryReservationPolicy",
        "seccompDefault",
        "allowedUnsafeSysctls",
        "userNamespaces.idsPerPod",
        "serializeImagePulls",
        "maxParallelImagePulls",
        "registryPullQPS",
        "registryBurst",
        "imageGCHighThresholdPercent",
        "imageGCLowThresholdPercent",
        "imageMinimumGCAge",
        "imageMaximumGCAge",
        "imagePullCredentialsVerificationPolicy",
        "preloadedImagesVerificationAllowlist",
        "crashLoopBackOff.maxContainerRestartPeriod",
        "healthzPort",
        "healthzBindAddress",
        "logging.format",
        "logging.verbosity",
        "tracing.endpoint",
        "tracing.samplingRatePerMillion",
    }
)
"""The keys that tempolet obeys; any other is accepted with a warning if it is not the default."""
CLUSTER_KEYS: Final = frozenset(
    {
        "registerNode",
        "registerWithTaints",
        "providerID",
        "nodeStatusUpdateFrequency",
        "nodeStatusReportFrequency",
        "nodeLeaseDurationSeconds",
        "nodeStatusMaxImages",
        "eventRecordQPS",
        "eventBurst",
        "rotateCertificates",
        "serverTLSBootstrap",
        "tlsCertFile",
        "tlsPrivateKeyFile",
        "tlsMinVersion",
        "tlsCipherSuites",
        "enableServer",
        "address",
        "port",
        "readOnlyPort",
        "enableDebuggingHandlers",
        "enableSystemLogHandler",
        "enableSystemLogQuery",
        "enableProfilingHandler",
        "enableDebugFlagsHandler",
        "streamingConnectionIdleTimeout",
        "authentication.anonymous.enabled",
        "authentication.webhook.enabled",
        "authentication.webhook.cacheTTL",
        "authentication.x509.clientCAFile",
        "authorization.mode",
        "authorization.webhook.cacheAuthorizedTTL",
        "authorization.webhook.cacheUnauthorizedTTL",
    }
)
"""The keys that only a node of a cluster obeys (`settings/cluster.py`)."""

_RELATIVE_TO_FILE: Final = (
    "staticPodPath",
    "resolvConf",
    "podLogsDir",
    "volumePluginDir",
    "tlsCertFile",
    "tlsPrivateKeyFile",
)
"""Paths relative to the file's own folder; those of a drop-in are not (the kubelet resolves the main file's only)."""


class ConfigurationRefused(Exception):
    """A configuration that cannot be obeyed; the message names file, key and valid values."""


@dataclass(frozen=True, slots=True)
class KubeletConfiguration:
    """All keys with their defaults, which keys were set, and warnings."""

    values: Mapping[str, Any]
    said: frozenset[str] = frozenset()
    """Dotted paths of the keys that a file or flag sets."""
    warnings: tuple[str, ...] = ()

    def __getitem__(self, path: str) -> Any:
        """Return a key by its dotted path; None if it is neither set nor has a default."""
        found: Any = self.values
        for key in path.split("."):
            found = found.get(key) if found is not None else None
        return parse_duration(found) if found is not None and is_duration(path) else found


@dataclass(slots=True)
class _Layers:
    """The configuration while file, drop-ins and flags are merged."""

    values: dict[str, Any]
    said: set[str] = field(default_factory=set)
    warnings: list[str] = field(default_factory=list)


def load_kubelet_configuration(
    file: Path | None, drop_ins: Path | None, flags: Mapping[str, Any] | None = None, *, cluster: bool = False
) -> KubeletConfiguration:
    """Merge file, drop-ins and flags (dotted path -> value) over the defaults; raises ConfigurationRefused.

    `cluster`: this is a node of a cluster, which obeys more keys.
    """
    layers = _Layers(default_values())
    if file is not None:
        content = _read(file.absolute(), layers)
        resolve_paths(content, file.absolute().parent)
        _lay(layers, content)
    for path in _drop_in_files(drop_ins) if drop_ins is not None else ():
        _lay(layers, _read(path, layers))
    for key, value in (flags or {}).items():
        _lay(layers, _flag(key, value))
    for key, derived in derived_defaults(layers.values, layers.said):
        layers.values = _merged(layers.values, _nested(key, derived), {})
    layers.warnings.extend(_not_acted_on(layers, ACTED_ON | CLUSTER_KEYS if cluster else ACTED_ON))
    return KubeletConfiguration(layers.values, frozenset(layers.said), tuple(layers.warnings))


def _read(path: Path, layers: _Layers) -> dict[str, Any]:
    try:
        document = read_document(path)
        checked = check_fields(document.content)
    except DocumentRefused as error:
        raise ConfigurationRefused(str(error)) from error
    except WrongValue as error:
        raise ConfigurationRefused(f"{path}: {error}") from error
    found = (document.content.get("apiVersion"), document.content.get("kind"))
    if found != (API_VERSION, KIND):
        raise ConfigurationRefused(
            f"{path}: apiVersion {found[0]!r} and kind {found[1]!r}; must be {API_VERSION} and {KIND}"
        )
    layers.warnings.extend(f"{path}: {key}: set twice, the last one is used" for key in document.duplicates)
    layers.warnings.extend(f"{path}: {key}: not a key of {KIND}, ignored" for key in checked.unknown)
    nulls = {key: None for key, value in document.content.items() if value is None and key in load_schema().fields}
    return {**checked.content, **nulls}


def _flag(key: str, value: Any) -> dict[str, Any]:
    try:
        return check_fields(_nested(key, value)).content
    except WrongValue as error:
        raise ConfigurationRefused(f"the flag of {error}") from error


def _nested(key: str, value: Any) -> dict[str, Any]:
    first, dot, rest = key.partition(".")
    return {first: _nested(rest, value) if dot else value}


def _drop_in_files(folder: Path) -> Iterator[Path]:
    try:
        entries = sorted(folder.iterdir(), key=lambda one: one.name.encode())
    except OSError as error:
        raise ConfigurationRefused(f"--config-dir {folder}: cannot be read: {error.strerror}") from error
    for entry in entries:
        if entry.is_dir():
            yield from _drop_in_files(entry)
        elif entry.name.endswith(".conf"):
            yield entry


def _lay(layers: _Layers, patch: Mapping[str, Any]) -> None:
    given = {key: value for key, value in patch.items() if value is not None}
    layers.said.update(path for path, _ in leaves(given))
    layers.said.difference_update(patch.keys() - given.keys())
    layers.values = _merged(layers.values, patch, default_values())


def _merged(base: Mapping[str, Any], patch: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Apply a JSON merge patch (RFC 7386); a deleted key gets its default back."""
    result = dict(base)
    for key, value in patch.items():
        default = defaults.get(key)
        if value is None:
            result.pop(key, None)
            if default is not None:
                result[key] = default
        elif isinstance(value, Mapping):
            old = result.get(key)
            result[key] = _merged(
                old if isinstance(old, Mapping) else {}, value, default if isinstance(default, Mapping) else {}
            )
        else:
            result[key] = value
    return result


def _not_acted_on(layers: _Layers, acted_on: frozenset[str]) -> Iterator[str]:
    defaults = dict(leaves(default_values()))
    for path, value in leaves(layers.values):
        if path in layers.said and path not in acted_on and not _same(path, value, defaults.get(path)):
            yield f"{path}: has no effect in tempolet yet"


def _same(path: str, value: Any, default: Any) -> bool:
    if is_duration(path) and default is not None:
        return parse_duration(value) == parse_duration(default)
    return bool(value == default) or (default is None and not value)


def resolve_paths(content: dict[str, Any], folder: Path) -> None:
    """Make the paths in a main file's content absolute, in place: they are relative to the file's own folder."""
    for key in _RELATIVE_TO_FILE:
        if (path := content.get(key)) and not Path(path).is_absolute():  # an absolute one stays as it is written
            content[key] = str(folder / content[key])
