"""How often each probe was answered how, and how long that took: for /metrics/probes (pkg/kubelet/prober/prober_manager.go).

Plain numbers, counted in the loops themselves: hundreds of answers a second must cost nothing. A container that is started again
goes on with its numbers; they go with the pod, when whoever shows them says which pods there are.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from proto.temporal.pod import PodKey, ProbeKind

BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Seconds; Prometheus's own defaults, which the kubelet takes."""


class Probed(NamedTuple):
    """One probe of one container of one pod."""

    pod: PodKey
    container: str
    kind: ProbeKind


@dataclass(slots=True)
class Tally:
    """The numbers of one probe; what could not be asked is not among them, as with the kubelet."""

    successful: int = 0
    failed: int = 0
    seconds: float = 0.0
    """Of successful ones."""
    within: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    """How many successful ones took up to which of BOUNDS, and longer than all."""

    def count(self, seconds: float, *, success: bool) -> None:
        """Count one answer."""
        if not success:
            self.failed += 1
            return
        self.successful += 1
        self.seconds += seconds
        self.within[bisect_left(BOUNDS, seconds)] += 1


class ProbeResultCounts:
    """The numbers of all probes of this process; written on its event loop, read anywhere."""

    def __init__(self) -> None:
        self._tallies: dict[Probed, Tally] = {}

    def of(self, pod: PodKey, container: str, kind: ProbeKind) -> Tally:
        """Give the numbers of one probe, to count on."""
        return self._tallies.setdefault(Probed(pod, container, kind), Tally())

    def keep(self, pod_uids: Collection[str]) -> None:
        """Forget the probes of all other pods."""
        for probed in list(self._tallies):
            if probed.pod.uid not in pod_uids:
                self._tallies.pop(probed, None)

    def all(self) -> Iterator[tuple[Probed, Tally]]:
        """Give each probe that was answered."""
        for probed, tally in list(self._tallies.items()):
            if tally.successful or tally.failed:
                yield probed, tally
