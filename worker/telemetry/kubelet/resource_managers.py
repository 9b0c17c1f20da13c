"""What containers ask to have to themselves, what was refused, and who has how much (pkg/kubelet/metrics).

The kubelet's CPU, memory, device and topology managers. Part of `Metrics`; `worker/hardware/` counts.
"""

from collections.abc import Mapping
from typing import Final

from prometheus_client import CollectorRegistry

from worker.telemetry.kubelet.devices import DeviceCounts
from worker.telemetry.kubelet.families import Families

CONTAINER: Final = "container"
POD: Final = "pod"
PHYSICAL_CPU: Final = "physical_cpu"
UNCORE_CACHE: Final = "uncore_cache"
NUMA_NODE: Final = "numa_node"
_ADMISSION_BUCKETS: Final = tuple(0.05 * 2**each for each in range(15))


class AlignedCounts:
    """Resources that lie together, or could not; may be called from any thread."""

    def __init__(self, made: Families) -> None:
        """Take what makes metrics."""
        labels = ("scope", "boundary")
        self._aligned = made.counter(
            "kubelet_container_aligned_compute_resources_count",
            "Cumulative number of aligned compute resources allocated to containers by alignment type.",
            *labels,
        )
        self._failed = made.counter(
            "kubelet_container_aligned_compute_resources_failure_count",
            "Cumulative number of failures to allocate aligned compute resources to containers by alignment type.",
            *labels,
        )

    def aligned(self, scope: str, boundary: str, by: int = 1) -> None:
        """Count a container, or a pod, whose resources lie within a boundary; 0 makes the series."""
        self._aligned(scope, boundary).inc(by)

    def failed(self, scope: str, boundary: str, by: int = 1) -> None:
        """Count one whose resources had to lie within a boundary and could not."""
        self._failed(scope, boundary).inc(by)


class CpuManagerCounts:
    """CPUs; may be called from any thread."""

    def __init__(self, made: Families, alignment: AlignedCounts) -> None:
        """Take what makes metrics, and the counts of what lies together."""
        self._alignment = alignment
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

    def begun(self) -> None:
        """Show what is 0 until then."""
        self._alignment.failed(CONTAINER, PHYSICAL_CPU, 0)
        for boundary in (PHYSICAL_CPU, UNCORE_CACHE):
            self._alignment.aligned(CONTAINER, boundary, 0)

    def asked(self) -> None:
        """Count a container that asks for CPUs of its own."""
        self._requests().inc()

    def refused(self, *, only_full_cores: bool) -> None:
        """Count one that gets none."""
        self._errors().inc()
        if only_full_cores:
            self._alignment.failed(CONTAINER, PHYSICAL_CPU)

    def given(self, *, only_full_cores: bool, is_in_one_cache: bool) -> None:
        """Count one that has them; `is_in_one_cache` is False for CPUs that it had before."""
        if only_full_cores:
            self._alignment.aligned(CONTAINER, PHYSICAL_CPU)
        if is_in_one_cache:
            self._alignment.aligned(CONTAINER, UNCORE_CACHE)

    def show(self, available: int, per_node: Mapping[int, int]) -> None:
        """Show how many CPUs are left to be given, and how many were given of each NUMA node."""
        self._shared.set(available * 1000)
        self._exclusive.set(sum(per_node.values()))
        for node, count in per_node.items():
            self._per_node.labels(str(node)).set(count)


class MemoryManagerCounts:
    """Memory of NUMA nodes; may be called from any thread."""

    def __init__(self, made: Families) -> None:
        """Take what makes metrics."""
        self._requests = made.counter(
            "kubelet_memory_manager_pinning_requests_total",
            "The number of memory pages allocations which required pinning.",
        )
        self._errors = made.counter(
            "kubelet_memory_manager_pinning_errors_total",
            "The number of memory pages allocations which required pinning that failed.",
        )

    def asked(self) -> None:
        """Count a container that asks for memory of its own."""
        self._requests().inc()

    def refused(self) -> None:
        """Count one that gets none."""
        self._errors().inc()


class TopologyManagerCounts:
    """Pods whose resources are aligned; may be called from any thread."""

    def __init__(self, made: Families, alignment: AlignedCounts) -> None:
        """Take what makes metrics, and the counts of what lies together."""
        self._alignment = alignment
        self._requests = made.counter(
            "kubelet_topology_manager_admission_requests_total",
            "The number of admission requests where resources have to be aligned.",
        )
        self._errors = made.counter(
            "kubelet_topology_manager_admission_errors_total",
            "The number of admission request failures where resources could not be aligned.",
        )
        self._milliseconds = made.histogram(
            "kubelet_topology_manager_admission_duration_ms",
            "Duration in milliseconds to serve a pod admission request.",
            buckets=_ADMISSION_BUCKETS,
        )

    def begun(self) -> None:
        """Show what is 0 until then."""
        for scope in (CONTAINER, POD):
            self._alignment.aligned(scope, NUMA_NODE, 0)
            self._alignment.failed(scope, NUMA_NODE, 0)

    def asked(self) -> None:
        """Count a pod that is given resources."""
        self._requests().inc()

    def answered(self, seconds: float) -> None:
        """Count how long that took, in whole milliseconds as the kubelet does."""
        self._milliseconds.observe(int(seconds * 1000))

    def refused(self) -> None:
        """Count a pod that a policy of alignment does not admit, or that could not be given what it asks for there."""
        self._errors().inc()

    def aligned(self, scope: str) -> None:
        """Count a container, or a pod, whose resources come from one NUMA node for certain."""
        self._alignment.aligned(scope, NUMA_NODE)

    def failed(self, scope: str) -> None:
        """Count one whose resources had to, and could not."""
        self._alignment.failed(scope, NUMA_NODE)


class ResourceManagerCounts:
    """The counts of all managers."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        """Take the registry; without one nobody reads them."""
        made = Families(registry or CollectorRegistry())
        alignment = AlignedCounts(made)
        self.cpus = CpuManagerCounts(made, alignment)
        self.memory = MemoryManagerCounts(made)
        self.topology = TopologyManagerCounts(made, alignment)
        self.devices = DeviceCounts(made)
