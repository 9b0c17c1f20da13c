"""Counts and durations of probes for /metrics/probes (pkg/kubelet/prober/prober_manager.go).

Plain numbers, counted in the loops: hundreds of outcomes a second must cost nothing. A restarted container keeps its
numbers; they are dropped with the pod, whether or not metrics are exported.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from proto.temporal.pod import PodKey, ProbeKind

BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Seconds; Prometheus's defaults, which the kubelet uses."""


class ProbedContainer(NamedTuple):
    """One probe of one container of one pod."""

    pod: PodKey
    container: str
    kind: ProbeKind


@dataclass(slots=True)
class ProbeCounts:
    """The counts of one probe; as in the kubelet, probes that could not run are not counted."""

    successful: int = 0
    failed: int = 0
    seconds: float = 0.0
    """Of successful ones."""
    within: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    """How many successful probes took up to each of BOUNDS, and longer than all."""

    def count(self, seconds: float, *, success: bool) -> None:
        """Count one outcome."""
        if not success:
            self.failed += 1
            return
        self.successful += 1
        self.seconds += seconds
        self.within[bisect_left(BOUNDS, seconds)] += 1


class ProbeResultCounts:
    """The counts of all probes of this process; written on its event loop, read anywhere."""

    def __init__(self) -> None:
        self._counts: dict[ProbedContainer, ProbeCounts] = {}

    def of(self, pod: PodKey, container: str, kind: ProbeKind) -> ProbeCounts:
        """Return the counts of one probe, created if there are none."""
        return self._counts.setdefault(ProbedContainer(pod, container, kind), ProbeCounts())

    def forget(self, pod_uid: str) -> None:
        """Drop the probes of one pod; may be called in any thread."""
        for probed in [one for one in list(self._counts) if one.pod.uid == pod_uid]:
            self._counts.pop(probed, None)

    def keep(self, pod_uids: Collection[str]) -> None:
        """Drop the probes of all other pods."""
        for probed in list(self._counts):
            if probed.pod.uid not in pod_uids:
                self._counts.pop(probed, None)

    def all(self) -> Iterator[tuple[ProbedContainer, ProbeCounts]]:
        """Return each probe with outcomes."""
        for probed, counts in list(self._counts.items()):
            if counts.successful or counts.failed:
                yield probed, counts
