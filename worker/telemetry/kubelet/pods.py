"""How many pods there are, how they end, and how long their starts took (pkg/kubelet/metrics).

Part of `Metrics`. `worker/host/pod_metrics.py` finds out what is counted here, from the snapshots of pods.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry

from proto.temporal.pod import Lifecycle
from worker.telemetry.kubelet.families import INTERNAL, Families

START_BUCKETS: Final = (0.5, 1, 2, 3, 4, 5, 6, 8, 10, 20, 30, 45, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600)  # fmt: skip
PER_POD: Final = (1, 2, 4, 8, 16)
SYNC_BUCKETS: Final = (0.01, 0.05, 0.1, 0.5, 1, 5, 10, 20, 30, 45, 60)
STATIC: Final = {True: "true", False: ""}
DESIRED: Final = "desired"
ORPHAN: Final = "orphan"
REASONS: Final = frozenset(
    {
        "AppArmor",
        "PodOSSelectorNodeLabelDoesNotMatch",
        "PodOSNotSupported",
        "InvalidNodeInfo",
        "InitContainerRestartPolicyForbidden",
        "SupplementalGroupsPolicyNotSupported",
        "UnexpectedAdmissionError",
        "UnknownReason",
        "UnexpectedPredicateFailureType",
        "OutOfcpu",
        "OutOfmemory",
        "OutOfephemeral-storage",
        "OutOfpods",
        "PodLevelResourcesNotSupported",
        "PodFeatureUnsupported",
        "node(s) had taints that the pod didn't tolerate",
        "Evicted",
        "SysctlForbidden",
        "TopologyAffinityError",
        "NodeShutdown",
        "VolumeAttachmentLimitExceeded",
    }
)
"""The reasons of rejections that are told apart (pkg/kubelet/kubelet.go admissionRejectionReasons)."""
_EXTENDED: Final = "OutOf"


@dataclass(frozen=True, slots=True)
class KnownPod:
    """A pod as it is counted."""

    static: bool
    lifecycle: Lifecycle
    desired: bool
    """Its source still lists it."""
    active: bool
    """It counts when others are admitted."""
    resize_pending: str = ""
    """Why its resize is not granted."""
    resizes: bool = False
    """A resize is being carried out."""


@dataclass(frozen=True, slots=True)
class Start:
    """How long a pod's start took, in seconds since its creation."""

    total: float
    without_pulls: float
    """Less image pulls and init containers."""
    stateful: bool
    """It mounts other volumes than those that come with a pod: the SLI is not about such pods."""
    host_network: bool


class PodCounts:
    """The counts; may be called from any thread."""

    def __init__(self, registry: CollectorRegistry) -> None:
        made = Families(registry)
        kind = "static is true if the pod is not from the apiserver."
        self._desired = made.gauge(
            "kubelet_desired_pods", f"The number of pods the kubelet is being instructed to run. {kind}", "static"
        )
        self._active = made.gauge(
            "kubelet_active_pods",
            "The number of pods the kubelet considers active and which are being considered when admitting new pods. "
            f"{kind}",
            "static",
        )
        self._working = made.gauge(
            "kubelet_working_pods",
            "Number of pods the kubelet is actually running, broken down by lifecycle phase, whether the pod is desired, "
            "orphaned, or runtime only (also orphaned), and whether the pod is static. An orphaned pod has been removed "
            "from local configuration or force deleted in the API and consumes resources that are not otherwise visible.",
            *("lifecycle", "config", "static"),
        )
        self._pending_resizes = made.gauge(
            "kubelet_pod_pending_resizes", "Number of pending resizes for pods.", "reason"
        )
        self._resizes = made.gauge("kubelet_pod_in_progress_resizes", "Number of in-progress resizes for pods.")
        self._restarted = made.counter(
            "kubelet_restarted_pods_total",
            "Number of pods that have been restarted because they were deleted and recreated with the same UID while the "
            "kubelet was watching them (common for static pods, extremely uncommon for API pods)",
            "static",
        )
        self._rejected = made.counter(
            "kubelet_admission_rejections_total", "Cumulative number pod admission rejections by the Kubelet.", "reason"
        )
        self._terminated = made.counter(
            "kubelet_terminated_containers_total",
            "Cumulative number of container terminations.",
            *("container_type", "exit_code", "reason"),
        )
        self._per_pod = made.histogram(
            "kubelet_containers_per_pod_count", "The number of containers per pod.", buckets=PER_POD
        )
        for static in STATIC.values():
            self._restarted(static)
        self._make_starts(registry)

    def _make_starts(self, registry: CollectorRegistry) -> None:
        made = Families(registry)
        self._worker_start = made.histogram(
            "kubelet_pod_worker_start_duration_seconds",
            "Duration in seconds from kubelet seeing a pod to starting a worker.",
        )
        seen = "measured from pod creation timestamp to when all its containers are reported as started and observed via watch"
        self._sli = made.histogram(
            "kubelet_pod_start_sli_duration_seconds",
            f"Duration in seconds to start a pod, excluding time to pull images and run init containers, {seen}",
            buckets=START_BUCKETS,
        )
        self._total = made.histogram(
            "kubelet_pod_start_total_duration_seconds",
            f"Duration in seconds to start a pod since creation, including time to pull images and run init containers, {seen}",
            buckets=START_BUCKETS,
        )
        self._first_network_pod = Families(registry, INTERNAL).gauge(
            "kubelet_first_network_pod_start_sli_duration_seconds",
            f"Duration in seconds to start the first network pod, excluding time to pull images and run init containers, {seen}",
        )
        self._has_first = False
        self._status_sync = made.histogram(
            "kubelet_pod_status_sync_duration_seconds",
            "Duration in seconds to sync a pod status update. Measures time from detection of a change to pod status until "
            "the API is successfully updated for that pod, even if multiple intevening changes to pod status occur.",
            buckets=SYNC_BUCKETS,
        )

    def present(self, pods: Iterable[KnownPod]) -> None:
        """Set the numbers of pods."""
        every = list(pods)
        self._resizes.set(sum(one.resizes for one in every))
        self._pending_resizes.clear()
        for reason in {one.resize_pending for one in every} - {""}:
            self._pending_resizes.labels(reason).set(sum(one.resize_pending == reason for one in every))
        for static, label in STATIC.items():
            of_kind = [one for one in every if one.static is static]
            self._desired.labels(label).set(sum(one.desired for one in of_kind))
            self._active.labels(label).set(sum(one.active for one in of_kind))
            for config in (DESIRED, ORPHAN):
                found = [one for one in of_kind if one.desired is (config == DESIRED)]
                for state in Lifecycle:
                    self._working.labels(state.value, config, label).set(sum(one.lifecycle == state for one in found))

    def met(self, containers: int, seconds: float | None) -> None:
        """Count a pod that is new: its containers, and how long ago it was first seen."""
        self._per_pod.observe(containers)
        if seconds is not None:
            self._worker_start.observe(seconds)

    def restarted(self, *, static: bool) -> None:
        """Count a pod that came back with the UID of one that was over."""
        self._restarted(STATIC[static]).inc()

    def rejected(self, reason: str) -> None:
        """Count a pod that was not admitted (recordAdmissionRejection)."""
        if reason not in REASONS:
            reason = "OutOfExtendedResources" if reason.startswith(_EXTENDED) else "Other"
        self._rejected(reason).inc()

    def terminated(self, kind: str, exit_code: int, reason: str) -> None:
        """Count a container that has ended."""
        self._terminated(kind, str(exit_code), reason).inc()

    def started(self, start: Start) -> None:
        """Count a pod of the API whose containers all run for the first time."""
        self._total.observe(start.total)
        if start.stateful:
            return
        self._sli.observe(start.without_pulls)
        if not start.host_network and not self._has_first:
            self._has_first = True
            self._first_network_pod.set(start.without_pulls)

    def status_synced(self, seconds: float) -> None:
        """Count a status that the API has, and how long ago it changed."""
        self._status_sync.observe(seconds)
