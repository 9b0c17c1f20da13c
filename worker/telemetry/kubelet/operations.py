"""How long operations on volumes, CSI drivers and cgroups took (pkg/volume/util/metrics.go, pkg/kubelet/metrics).

Part of `Metrics`.
"""

from typing import Final

from prometheus_client import CollectorRegistry

from worker.telemetry.kubelet.families import Families

VOLUME_BUCKETS: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600)
NOT_MIGRATED: Final = "false"
"""Not told apart: a PersistentVolume of a cloud's type is a CSI volume here before anything is timed."""
_MOST_PLUGINS: Final = 100
"""Names of plugins with a series; a pod's spec may name any driver, and those of more count without the driver."""


class OperationTimes:
    """The times; may be called from any thread."""

    def __init__(self, registry: CollectorRegistry) -> None:
        made = Families(registry)
        self._volumes = made.histogram(
            "storage_operation_duration_seconds",
            "Storage operation duration",
            *("volume_plugin", "operation_name", "status", "migrated"),
            buckets=VOLUME_BUCKETS,
        )
        self._volume_errors = made.counter(
            "storage_operation_errors_total",
            "Storage operation errors (a kubelet had this until 1.21)",
            *("volume_plugin", "operation_name"),
        )
        self._plugins: set[str] = set()
        self._csi = made.histogram(
            "csi_operations_seconds",
            "Container Storage Interface operation duration with gRPC error code status total",
            *("driver_name", "method_name", "grpc_status_code", "migrated"),
            buckets=VOLUME_BUCKETS,
        )
        self._cgroups = made.histogram(
            "kubelet_cgroup_manager_duration_seconds",
            "Duration in seconds for cgroup manager operations. Broken down by method.",
            "operation_type",
        )

        self._orphans = made.gauge(
            "kubelet_orphan_pod_cleaned_volumes",
            "The total number of orphaned Pods whose volumes were cleaned in the last periodic sweep.",
        )
        self._orphans_failed = made.gauge(
            "kubelet_orphan_pod_cleaned_volumes_errors",
            "The number of orphaned Pods whose volumes failed to be cleaned in the last periodic sweep.",
        )

    def orphans_cleaned(self, pods: int, failed: int) -> None:
        """Set how many orphaned pods the last round found, and of how many volumes are left."""
        self._orphans.set(pods)
        self._orphans_failed.set(failed)

    def volume(self, plugin: str, operation: str, seconds: float, failed: bool) -> None:  # noqa: FBT001 - Timings' signature
        """Count an operation on a volume."""
        if len(self._plugins) >= _MOST_PLUGINS and plugin not in self._plugins:
            plugin = plugin.partition(":")[0]
        self._plugins.add(plugin)
        status = "fail-unknown" if failed else "success"
        self._volumes.labels(plugin, operation, status, NOT_MIGRATED).observe(seconds)
        if failed:
            self._volume_errors(plugin, operation).inc()

    def csi(self, driver: str, method: str, code: str, seconds: float) -> None:
        """Count a call of a CSI driver, by gRPC's names of method and code."""
        self._csi.labels(driver, method, code, NOT_MIGRATED).observe(seconds)

    def cgroup(self, operation: str, seconds: float) -> None:
        """Count an operation on the cgroup of a pod."""
        self._cgroups.labels(operation).observe(seconds)
