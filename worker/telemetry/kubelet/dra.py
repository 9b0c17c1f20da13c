"""Dynamic resource allocation: claims in use, and how long drivers took (pkg/kubelet/metrics). Part of `Metrics`; `worker/dra/` counts."""

from collections.abc import Mapping
from typing import Final

from prometheus_client import CollectorRegistry

from worker.telemetry.kubelet.families import Families

_BUCKETS: Final = (
    *(0.1, 0.1534127404634391, 0.23535468936502524, 0.36106407876409946, 0.5539182980610752),
    *(0.849781240983936, 1.303672689737678, 1.9999999999999993, 3.0682548092687805, 4.7070937873005025),
    *(7.221281575281985, 11.078365961221499, 16.995624819678714, 26.07345379475354, 39.99999999999997),
)
"""15 from 0.1 to 40 s, each the same factor above the one before, as Go computes them: the last digits are others elsewhere."""


class DraCounts:
    """The counts; may be called from any thread."""

    def __init__(self, registry: CollectorRegistry) -> None:
        made = Families(registry)
        self._in_use = made.gauge(
            "dra_resource_claims_in_use",
            "The number of ResourceClaims that are currently in use on the node, by driver name (driver_name label value) and across "
            "all drivers (special value <any> for driver_name). Note that the sum of all by-driver counts is not the total number of "
            "in-use ResourceClaims because the same ResourceClaim might use devices from different drivers. Instead, use the count "
            "for the <any> driver_name.",
            "driver_name",
        )
        self._operations = made.histogram(
            "dra_operations_duration_seconds",
            "Latency histogram in seconds for the duration of handling all ResourceClaims referenced by a pod when the pod starts or "
            "stops. Identified by the name of the operation (PrepareResources or UnprepareResources) and separated by the success of "
            "the operation. The number of failed operations is provided through the histogram's overall count.",
            *("operation_name", "is_error"),
            buckets=_BUCKETS,
        )
        for operation in ("PrepareResources", "UnprepareResources"):  # a kubelet counts pods without claims, too
            self._operations.labels(operation, "false")
        self._calls = made.histogram(
            "dra_grpc_operations_duration_seconds",
            "Duration in seconds of the DRA gRPC operations",
            *("driver_name", "method_name", "grpc_status_code"),
            buckets=_BUCKETS,
        )

    def operated(self, operation: str, failed: bool, seconds: float) -> None:  # noqa: FBT001 - a fact, as the others
        """Count that all claims of a pod were prepared or undone, or could not be."""
        self._operations.labels(operation, "true" if failed else "false").observe(seconds)

    def called(self, driver: str, method: str, code: str, seconds: float) -> None:
        """Count a call of a driver."""
        self._calls.labels(driver, method, code).observe(seconds)

    def in_use(self, counts: Mapping[str, int]) -> None:
        """Take how many claims are prepared, by driver; a driver without any is not shown."""
        self._in_use.clear()
        for driver, count in counts.items():
            self._in_use.labels(driver).set(count)
