"""Device plugins: how often they registered, and how long they took to prepare devices (pkg/kubelet/metrics).

Part of `ResourceManagerCounts`; `worker/devices/` counts.
"""

from worker.telemetry.kubelet.families import Families


class DeviceCounts:
    """The counts; may be called from any thread."""

    def __init__(self, made: Families) -> None:
        """Take what makes metrics."""
        self._registrations = made.counter(
            "kubelet_device_plugin_registration_total",
            "Cumulative number of device plugin registrations. Broken down by resource name.",
            "resource_name",
        )
        self._allocations = made.histogram(
            "kubelet_device_plugin_alloc_duration_seconds",
            "Duration in seconds to serve a device plugin Allocation request. Broken down by resource name.",
            "resource_name",
        )

    def registered(self, resource: str) -> None:
        """Count a registration."""
        self._registrations(resource).inc()

    def allocated(self, resource: str, seconds: float) -> None:
        """Count how long a plugin took for Allocate."""
        self._allocations.labels(resource).observe(seconds)
