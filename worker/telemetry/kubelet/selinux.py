"""What was found about SELinux labels of volumes (volumemanager/cache/desired_state_of_wold_selinux_metrics.go). Part of `Metrics`; activities count.

Without SELinux nothing is found, and there are no series. The kubelet has gauges that only grow.
"""

import threading
from collections.abc import Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Gauge

from worker.telemetry.kubelet.families import Families

_LATER: Final = (
    "will become real errors when SELinuxMountReadWriteOncePod feature is expanded to all volume access modes."
)
_RETRIED: Final = "and it will retry, therefore value of this metric may not represent the actual nr. of"
_MODE: Final = ("access_mode",)
_BOTH: Final = ("volume_plugin", "access_mode")
FAMILIES: Final[Mapping[tuple[str, bool], tuple[str, str, tuple[str, ...]]]] = {
    ("container", True): (
        "container_errors_total",
        (
            f"Number of errors when kubelet cannot compute SELinux context for a container. Kubelet can't start such a Pod then {_RETRIED} "
            f"containers."
        ),
        _MODE,
    ),
    ("container", False): (
        "container_warnings_total",
        f"Number of errors when kubelet cannot compute SELinux context for a container that are ignored. They {_LATER}",
        _MODE,
    ),
    ("pod_context_mismatch", True): (
        "pod_context_mismatch_errors_total",
        (
            f"Number of errors when a Pod defines different SELinux contexts for its containers that use the same volume. Kubelet can't start "
            f"such a Pod then {_RETRIED} Pods."
        ),
        _MODE,
    ),
    ("pod_context_mismatch", False): (
        "pod_context_mismatch_warnings_total",
        (
            f"Number of errors when a Pod defines different SELinux contexts for its containers that use the same volume. They are not errors "
            f"yet, but they {_LATER}"
        ),
        _MODE,
    ),
    ("volume_context_mismatch", True): (
        "volume_context_mismatch_errors_total",
        (
            f"Number of errors when a Pod uses a volume that is already mounted with a different SELinux context than the Pod needs. Kubelet "
            f"can't start such a Pod then {_RETRIED} Pods."
        ),
        _BOTH,
    ),
    ("volume_context_mismatch", False): (
        "volume_context_mismatch_warnings_total",
        (
            f"Number of errors when a Pod uses a volume that is already mounted with a different SELinux context than the Pod needs. They are "
            f"not errors yet, but they {_LATER}"
        ),
        _BOTH,
    ),
    ("volumes_admitted", False): (
        "volumes_admitted_total",
        "Number of volumes whose SELinux context was fine and will be mounted with mount -o context option.",
        _BOTH,
    ),
}
"""By what was found (`LabelFinding` of the activities) and whether it is an error."""


class LabelCounts:
    """The counts; may be called from any thread."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._made = Families(registry)
        self._gauges: dict[tuple[str, bool], Gauge] = {}
        self._making = threading.Lock()

    def labelled(self, finding: str, plugin: str, mode: str, failed: bool) -> None:  # noqa: FBT001 - Timings' signature
        """Count a finding; as in a kubelet, a family appears with its first one."""
        key = (finding, failed)
        name, text, labels = FAMILIES[key]
        with self._making:
            if key not in self._gauges:
                self._gauges[key] = self._made.gauge(f"volume_manager_selinux_{name}", text, *labels)
        self._gauges[key].labels(*((plugin, mode) if labels is _BOTH else (mode,))).inc()
