"""Kubernetes feature gates, as known to a kubelet of the schema's version.

Set by KubeletConfiguration's featureGates and `--feature-gates`; read as `gates.enabled("KubeletCrashLoopBackOffMax")`.
Unknown names are refused, locked gates keep their value (component-base/featuregate). A gate that is set to a value
which tempolet does not implement gives one warning: silence would be a promise.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from worker.settings.kubelet.schema import load_schema

ALL_ALPHA: Final = "AllAlpha"
ALL_BETA: Final = "AllBeta"
_GROUPS: Final = {ALL_ALPHA: "ALPHA", ALL_BETA: "BETA"}

STOP_SIGNALS_GATE: Final = "ContainerStopSignals"
VERIFICATION_GATE: Final = "KubeletEnsureSecretPulledImages"
MEMORY_QOS_GATE: Final = "MemoryQoS"
QOS_RESERVED_GATE: Final = "QOSReserved"
HOSTNAME_OVERRIDE_GATE: Final = "HostnameOverride"
ENV_FILES_GATE: Final = "EnvFiles"
IMAGE_DIGEST_GATE: Final = "ImageVolumeWithDigest"
WEBSOCKETS_GATE: Final = "ExtendWebSocketsToKubelet"
TRUST_BUNDLES_GATE: Final = "ClusterTrustBundleProjection"
POD_CERTIFICATES_GATE: Final = "PodCertificateRequest"
PROVIDER_TOKENS_GATE: Final = "KubeletServiceAccountTokenForCredentialProviders"
POD_RESOURCES_GATE: Final = "KubeletPodResourcesGet"
ACTIVE_PODS_GATE: Final = "KubeletPodResourcesListUseActivePods"
SPLIT_LOGS_GATE: Final = "PodLogsQuerySplitStreams"
QUOTA_GATE: Final = "LocalStorageCapacityIsolationFSQuotaMonitoring"
VOLUME_HEALTH_GATE: Final = "CSIVolumeHealth"
POD_LEVEL_RESIZES_GATE: Final = "InPlacePodLevelResourcesVerticalScaling"
RESOURCE_HEALTH_GATE: Final = "ResourceHealthStatus"
HEALTH_MESSAGE_GATE: Final = "ResourceHealthStatusMessage"
SELINUX_MOUNT_GATE: Final = "SELinuxMount"

ACTED_ON: Final[Mapping[str, frozenset[bool]]] = {
    "KubeletCrashLoopBackOffMax": frozenset({True, False}),
    STOP_SIGNALS_GATE: frozenset({True}),
    VERIFICATION_GATE: frozenset({True, False}),
    MEMORY_QOS_GATE: frozenset({True}),
    QOS_RESERVED_GATE: frozenset({True}),
    HOSTNAME_OVERRIDE_GATE: frozenset({False}),
    ENV_FILES_GATE: frozenset({False}),
    IMAGE_DIGEST_GATE: frozenset({True}),
    WEBSOCKETS_GATE: frozenset({False}),
    SPLIT_LOGS_GATE: frozenset({True}),
    QUOTA_GATE: frozenset({True}),
    VOLUME_HEALTH_GATE: frozenset({True}),
    POD_LEVEL_RESIZES_GATE: frozenset({False}),
    "CPUManagerPolicyAlphaOptions": frozenset({True}),
    "CPUManagerPolicyBetaOptions": frozenset({False}),
    "DisableCPUQuotaWithExclusiveCPUs": frozenset({False}),
    TRUST_BUNDLES_GATE: frozenset({True}),
    POD_CERTIFICATES_GATE: frozenset({True}),
    ACTIVE_PODS_GATE: frozenset({False}),
    POD_RESOURCES_GATE: frozenset({False}),
    RESOURCE_HEALTH_GATE: frozenset({False}),
    HEALTH_MESSAGE_GATE: frozenset({False}),
    SELINUX_MOUNT_GATE: frozenset({True}),
    PROVIDER_TOKENS_GATE: frozenset({False}),
    "ClusterTrustBundle": frozenset({True}),  # the API server's part of it
    "ComponentFlagz": frozenset({False}),
    "ComponentStatusz": frozenset({False}),
    "ContainerCheckpoint": frozenset({False}),
    "GracefulNodeShutdown": frozenset({False}),
    "GracefulNodeShutdownBasedOnPodPriority": frozenset({False}),
    "EventedPLEG": frozenset({True}),  # the runtime's event stream is always read
    "PLEGOnDemandRelist": frozenset({True}),  # each step acts on its own result
}
"""Gate -> the values that tempolet implements, besides the default."""


class GateRefused(Exception):
    """A gate that no kubelet of this version has, or that can no longer be changed."""


@dataclass(frozen=True, slots=True)
class FeatureGates:
    """The gates that were set; all others have their default."""

    values: Mapping[str, bool] = field(default_factory=dict)

    def enabled(self, name: str) -> bool:
        """Report whether a gate is on; raises KeyError for an unknown name, which is a bug of ours."""
        spec = load_schema().feature_gates[name]
        if name in self.values:
            return self.values[name]
        group = next((group for group, stage in _GROUPS.items() if stage == spec["stage"]), None)
        return self.values.get(group, spec["default"]) if group else bool(spec["default"])


def set_gates(values: Mapping[str, bool]) -> FeatureGates:
    """Apply the operator's gates; raises GateRefused naming the first that cannot be set."""
    for name, value in values.items():
        if name in _GROUPS:
            continue
        spec = load_schema().feature_gates.get(name)
        if spec is None:
            raise GateRefused(
                f"featureGates.{name}: Kubernetes {load_schema().version} has no such gate; remove it or fix its name"
            )
        if spec.get("locked") and spec["default"] != value:
            raise GateRefused(f"featureGates.{name}: locked to {_said(spec['default'])}; remove it")
    return FeatureGates(dict(values))


def gate_warnings(gates: FeatureGates) -> Iterator[str]:
    """Name each gate whose value is not implemented, and each that will be removed."""
    for name, value in sorted(gates.values.items()):
        if name in _GROUPS:
            if value:
                yield f"featureGates.{name}: set to true, but only {', '.join(ACTED_ON)} have an effect in tempolet"
            continue
        spec = load_schema().feature_gates[name]
        if value != spec["default"] and value not in ACTED_ON.get(name, ()):
            yield f"featureGates.{name}: set to {_said(value)}, which has no effect in tempolet yet"
        elif spec["stage"] in {"GA", "DEPRECATED"}:
            yield f"featureGates.{name}: {spec['stage']}, a later release will refuse it"


def parse_gate_flag(text: str) -> dict[str, bool]:
    """Parse `--feature-gates A=true,B=false`; raises GateRefused."""
    found = {}
    for pair in filter(None, (one.strip() for one in text.split(","))):
        name, equals, value = pair.partition("=")
        if not equals or value.strip().lower() not in {"true", "false", "t", "f", "1", "0"}:
            raise GateRefused(f"--feature-gates {pair!r}: write Name=true or Name=false")
        found[name.strip()] = value.strip().lower() in {"true", "t", "1"}
    return found


def _said(value: bool) -> str:  # noqa: FBT001 - the value to format
    return str(value).lower()
