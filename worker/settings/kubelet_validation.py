"""Validation of a KubeletConfiguration, for the keys that tempolet obeys.

Applied after all layers are merged. The rules and limits are the kubelet's (apis/config/validation/validation.go). All errors are reported at once, so that an operator
can fix a file in one go.
"""

import ipaddress
import posixpath
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Final
from urllib.parse import urlsplit

from proto.kubernetes.go_duration import format_duration
from worker.settings.cgroups.agent import agent_breaches
from worker.settings.cgroups.enforcement import enforcement_breaches
from worker.settings.cgroups.qos_reserved import qos_reserved_breaches
from worker.settings.eviction import eviction_breaches
from worker.settings.hardware.cpu_manager import cpu_manager_breaches
from worker.settings.hardware.memory_manager import memory_manager_breaches
from worker.settings.hardware.topology_manager import topology_manager_breaches
from worker.settings.image_verification import verification_breaches
from worker.settings.kubelet.configuration import ConfigurationRefused, KubeletConfiguration
from worker.settings.kubelet.feature_gates import FeatureGates
from worker.settings.kubelet.shutdown import shutdown_breaches
from worker.settings.log_rotation import container_logs_breaches
from worker.settings.memory import memory_breaches
from worker.settings.reserved import reserved_breaches
from worker.settings.security import security_breaches

Breaches = Iterator[str]

_NOT_NEGATIVE: Final = ("maxPods", "registryPullQPS", "registryBurst", "eventRecordQPS", "eventBurst", "kubeAPIQPS")
_ABOVE_ZERO: Final = ("syncFrequency", "fileCheckFrequency", "httpCheckFrequency", "runtimeRequestTimeout")
_BACKOFF_GATE: Final = "KubeletCrashLoopBackOffMax"
_BACKOFF_KEY: Final = "crashLoopBackOff.maxContainerRestartPeriod"
_TRACING_SCHEMES: Final = frozenset({"dns", "unix", "unix-abstract"})


def validate(kubelet: KubeletConfiguration, gates: FeatureGates) -> None:
    """Check all rules; raises ConfigurationRefused with every error, one per line."""
    gated = (breach for rule in GATED_RULES for breach in rule(kubelet, gates))
    breaches = [*gated, *(breach for rule in RULES for breach in rule(kubelet))]
    if breaches:
        raise ConfigurationRefused("invalid KubeletConfiguration: " + "\n  ".join(breaches))


def _numbers(kubelet: KubeletConfiguration) -> Breaches:
    for key in _NOT_NEGATIVE:
        if (kubelet[key] or 0) < 0:
            yield f"{key}: {kubelet[key]}, but it must not be negative"
    for key in _ABOVE_ZERO:
        if kubelet[key] <= timedelta():
            yield f"{key}: {format_duration(kubelet[key])}, but it must be above 0s"
    for key in ("healthzPort", "readOnlyPort"):
        if not 0 <= (kubelet[key] or 0) <= 65535:
            yield f"{key}: {kubelet[key]}, but a port is 1 to 65535 (0 switches it off)"
    if not 1 <= kubelet["port"] <= 65535:
        yield f"port: {kubelet['port']}, but a port is 1 to 65535"
    if kubelet["nodeLeaseDurationSeconds"] <= 0:
        yield f"nodeLeaseDurationSeconds: {kubelet['nodeLeaseDurationSeconds']}, but it must be above 0"
    if kubelet["nodeStatusMaxImages"] < -1:
        yield f"nodeStatusMaxImages: {kubelet['nodeStatusMaxImages']}, but it must be -1 (all) or more"


def _pulls(kubelet: KubeletConfiguration) -> Breaches:
    parallel = kubelet["maxParallelImagePulls"]
    if parallel is not None and parallel < 1:
        yield f"maxParallelImagePulls: {parallel}, but it must be 1 or more"
    if parallel is not None and parallel > 1 and kubelet["serializeImagePulls"]:
        yield f"maxParallelImagePulls: {parallel}, which needs serializeImagePulls: false"


def _image_collection(kubelet: KubeletConfiguration) -> Breaches:
    high, low = kubelet["imageGCHighThresholdPercent"], kubelet["imageGCLowThresholdPercent"]
    for key, value in (("imageGCHighThresholdPercent", high), ("imageGCLowThresholdPercent", low)):
        if not 0 <= value <= 100:
            yield f"{key}: {value}, but it is 0 to 100"
    if low >= high:
        yield f"imageGCLowThresholdPercent: {low}, but it must be less than imageGCHighThresholdPercent, which is {high}"
    minimum, maximum = kubelet["imageMinimumGCAge"], kubelet["imageMaximumGCAge"]
    for key, age in (("imageMinimumGCAge", minimum), ("imageMaximumGCAge", maximum)):
        if age < timedelta():
            yield f"{key}: {format_duration(age)}, but it must not be negative"
    if timedelta() < maximum <= minimum:
        yield (
            f"imageMaximumGCAge: {format_duration(maximum)}, but it must be greater than imageMinimumGCAge, "
            f"which is {format_duration(minimum)}"
        )


def _cgroups(kubelet: KubeletConfiguration) -> Breaches:
    driver = kubelet["cgroupDriver"]
    if driver not in ("cgroupfs", "systemd"):
        yield f"cgroupDriver: {driver!r}, but it is cgroupfs or systemd"


def _pod_logs(kubelet: KubeletConfiguration) -> Breaches:
    path = kubelet["podLogsDir"]
    if not posixpath.isabs(path):
        yield f"podLogsDir: {path!r}, but it must be an absolute path"
    if posixpath.normpath(path) != path:
        yield f"podLogsDir: {path!r}, but it must be written {posixpath.normpath(path)!r}"
    if not path.isascii():
        yield f"podLogsDir: {path!r}, but it must be ASCII"


def _addresses(kubelet: KubeletConfiguration) -> Breaches:
    for index, address in enumerate(kubelet["clusterDNS"] or ()):
        if not _is_address(address):
            yield f"clusterDNS[{index}]: {address!r} is not an IP address"
    if not _is_address(kubelet["healthzBindAddress"]):
        yield f"healthzBindAddress: {kubelet['healthzBindAddress']!r} is not an IP address"
    for key in ("containerRuntimeEndpoint", "imageServiceEndpoint"):
        endpoint = kubelet[key] or ""
        if endpoint and not endpoint.startswith(("unix:///", "/")):
            yield f"{key}: {endpoint!r}; must be unix:///path/to/socket"


def _logging(kubelet: KubeletConfiguration) -> Breaches:
    if kubelet["logging.format"] not in {"text", "json"}:
        yield f"logging.format: {kubelet['logging.format']!r}, but it is text or json"


def _tracing(kubelet: KubeletConfiguration) -> Breaches:
    rate = kubelet["tracing.samplingRatePerMillion"] or 0
    if not 0 <= rate <= 1_000_000:
        yield f"tracing.samplingRatePerMillion: {rate}, but it is 0 to 1000000"
    endpoint = kubelet["tracing.endpoint"] or ""
    scheme = urlsplit(endpoint).scheme if "//" in endpoint else "dns"
    if scheme not in _TRACING_SCHEMES:
        yield f"tracing.endpoint: {endpoint!r}; must be host:port (schemes: dns, unix, unix-abstract)"


def _backoff(kubelet: KubeletConfiguration, gates: FeatureGates) -> Breaches:
    period = kubelet[_BACKOFF_KEY]
    if not gates.enabled(_BACKOFF_GATE):
        if _BACKOFF_KEY in kubelet.said:
            yield f"{_BACKOFF_KEY}: needs the feature gate {_BACKOFF_GATE}, which is off"
    elif period is not None and not timedelta(seconds=1) <= period <= timedelta(seconds=300):
        yield f"{_BACKOFF_KEY}: {format_duration(period)}, but it is 1s to 300s"


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


GATED_RULES: Final[tuple[Callable[[KubeletConfiguration, FeatureGates], Breaches], ...]] = (
    _backoff,
    cpu_manager_breaches,
    verification_breaches,
    memory_breaches,
    shutdown_breaches,
)
RULES: Final[tuple[Callable[[KubeletConfiguration], Breaches], ...]] = (
    reserved_breaches,
    memory_manager_breaches,
    topology_manager_breaches,
    enforcement_breaches,
    agent_breaches,
    qos_reserved_breaches,
    eviction_breaches,
    container_logs_breaches,
    security_breaches,
    _numbers,
    _pulls,
    _image_collection,
    _cgroups,
    _pod_logs,
    _addresses,
    _logging,
    _tracing,
)
