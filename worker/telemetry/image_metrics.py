"""Metrics of image pulls, under the kubelet's names (pkg/kubelet/metrics, pkg/credentialprovider/plugin).

Part of `Metrics`, which provides the registry. A provider's series exists from its first run, as in the kubelet.
"""

from typing import Final

from prometheus_client import CollectorRegistry

from worker.telemetry.kubelet.families import Families

_MIB: Final = 1 << 20
_GIB: Final = 1 << 30
_PULL_BUCKETS: Final = (1, 5, 10, 20, 30, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600)
SIZES: Final = (
    (10 * _MIB, "0-10MB"),
    (100 * _MIB, "10MB-100MB"),
    (500 * _MIB, "100MB-500MB"),
    (_GIB, "500MB-1GB"),
    (5 * _GIB, "1GB-5GB"),
    (10 * _GIB, "5GB-10GB"),
    (20 * _GIB, "10GB-20GB"),
    (30 * _GIB, "20GB-30GB"),
    (40 * _GIB, "30GB-40GB"),
    (60 * _GIB, "40GB-60GB"),
    (100 * _GIB, "60GB-100GB"),
)
"""Maximum size in bytes of each label."""
LARGER: Final = "GT100GB"
UNKNOWN: Final = "N/A"
CONFIG_INFO: Final = "Information about the last applied credential provider configuration with hash as label"


class ImageMetrics:
    """Durations of pulls and of credential providers, and failures of the latter."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._made = made = Families(registry)
        self._pull_seconds = made.histogram(
            "kubelet_image_pull_duration_seconds",
            "Duration in seconds to pull an image.",
            "image_size_in_bytes",
            buckets=_PULL_BUCKETS,
        )
        self._provider_seconds = made.histogram(
            "kubelet_credential_provider_plugin_duration",
            "Duration of execution in seconds for credential provider plugin",
            "plugin_name",
        )
        self._provider_errors = made.counter(
            "kubelet_credential_provider_plugin_errors_total",
            "Number of errors from credential provider plugin",
            "plugin_name",
        )

    def pulled(self, seconds: float, size_bytes: int) -> None:
        """Count one successful pull; size 0: not known."""
        self._pull_seconds.labels(size_label(size_bytes)).observe(seconds)

    def provider_ran(self, provider: str, seconds: float, *, failed: bool) -> None:
        """Count one run of a credential provider."""
        self._provider_seconds.labels(provider).observe(seconds)
        if failed:
            self._provider_errors(provider).inc()

    def providers_configured(self, hash_: str) -> None:
        """Export a hash of the providers' configuration, if there is one."""
        if hash_:
            info = self._made.gauge("kubelet_credential_provider_config_info", CONFIG_INFO, "hash")
            info.labels(hash_).set(1)


def size_label(size_bytes: int) -> str:
    """Return the kubelet's label for an image's size (GetImageSizeBucket)."""
    if size_bytes <= 0:
        return UNKNOWN
    return next((label for most, label in SIZES if size_bytes <= most), LARGER)
