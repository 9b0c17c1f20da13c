"""Defaults of a KubeletConfiguration that depend on other keys, and keys whose zero value means the default.

Applied after all layers are merged; the rules are those of config/v1beta1/defaults.go. Installers write such zeros:
kubeadm's file has `0s` for a dozen keys and means the default of each.
"""

from collections.abc import Collection, Iterator, Mapping
from datetime import timedelta
from typing import Any, Final

from proto.kubernetes.go_duration import parse_duration
from worker.settings.kubelet.schema import default_values, is_duration, leaves

_REPORT: Final = "nodeStatusReportFrequency"
_UPDATE: Final = "nodeStatusUpdateFrequency"
ZERO_MEANS_DEFAULT: Final = frozenset(
    {
        "address",
        "authentication.webhook.cacheTTL",
        "authorization.mode",
        "authorization.webhook.cacheAuthorizedTTL",
        "authorization.webhook.cacheUnauthorizedTTL",
        "cgroupDriver",
        "configMapAndSecretChangeDetectionStrategy",
        "containerLogMaxSize",
        "containerRuntimeEndpoint",
        "contentType",
        "cpuManagerPolicy",
        "cpuManagerReconcilePeriod",
        "eventBurst",
        "evictionPressureTransitionPeriod",
        "fileCheckFrequency",
        "hairpinMode",
        "healthzBindAddress",
        "httpCheckFrequency",
        "imageMinimumGCAge",
        "kubeAPIBurst",
        "logging.flushFrequency",
        "logging.format",
        "maxOpenFiles",
        "maxPods",
        "memoryManagerPolicy",
        "memoryReservationPolicy",
        "nodeLeaseDurationSeconds",
        _REPORT,
        _UPDATE,
        "podLogsDir",
        "port",
        "registryBurst",
        "runtimeRequestTimeout",
        "streamingConnectionIdleTimeout",
        "syncFrequency",
        "topologyManagerPolicy",
        "topologyManagerScope",
        "volumePluginDir",
        "volumeStatsAggPeriod",
    }
)
"""Keys with a default that are no pointer in the kubelet's type."""


def derived_defaults(values: Mapping[str, Any], said: Collection[str]) -> Iterator[tuple[str, Any]]:
    """Return the keys, by dotted path, whose value differs from that of the merged layers."""
    there, defaults = dict(leaves(values)), dict(leaves(default_values()))
    zeros = {path for path in ZERO_MEANS_DEFAULT if path in there and _is_zero(path, there[path])}
    yield from ((path, defaults[path]) for path in sorted(zeros))
    if _UPDATE in said and _UPDATE not in zeros and (_REPORT not in said or _REPORT in zeros):
        yield _REPORT, there[_UPDATE]
    if "serializeImagePulls" not in said and (there.get("maxParallelImagePulls") or 0) > 1:
        yield "serializeImagePulls", False
    if there.get("podPidsLimit", -1) < 0:
        yield "podPidsLimit", -1


def _is_zero(path: str, value: Any) -> bool:
    return parse_duration(value) == timedelta() if is_duration(path) else value in {"", 0}
