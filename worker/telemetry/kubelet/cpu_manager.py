"""CPUs that containers have to themselves: what was asked for, what was refused, and who has how many (pkg/kubelet/metrics).

Part of `Metrics`. The worker counts.
"""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry

from worker.telemetry.kubelet.families import Families


class CpuManagerCounts:
    """The counts; may be called from any thread."""

    def __init__(self, registry: CollectorRegistry) -> None:
        made = Families(registry)
        self._requests = made.counter(
            "kubelet_cpu_manager_pinning_requests_total", "The number of cpu core allocations which required pinning."
        )
        self._errors = made.counter(
            "kubelet_cpu_manager_pinning_errors_total",
            "The number of cpu core allocations which required pinning failed.",
        )
        self._shared = made.gauge(
            "kubelet_cpu_manager_shared_pool_size_millicores",
            "The size of the shared CPU pool for non-guaranteed QoS pods, in millicores.",
        )
        self._exclusive = made.gauge(
            "kubelet_cpu_manager_exclusive_cpu_allocation_count",
            "The total number of CPUs exclusively allocated to containers running on this node",
        )
        self._per_node = made.gauge(
            "kubelet_cpu_manager_allocation_per_numa", "Number of CPUs allocated per NUMA node", "numa_node"
        )

    def asked(self) -> None:
        """Count a container that asks for CPUs of its own."""
        self._requests().inc()

    def refused(self) -> None:
        """Count one that gets none."""
        self._errors().inc()

    def show(self, available: int, per_node: Mapping[int, int]) -> None:
        """Show how many CPUs are left to be given, and how many were given of each NUMA node."""
        self._shared.set(available * 1000)
        self._exclusive.set(sum(per_node.values()))
        for node, count in per_node.items():
            self._per_node.labels(str(node)).set(count)
