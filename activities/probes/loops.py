"""All probe loops of this process, by container ID.

An activity attaches to a container's loop, which may be running already, started by another run or try. A loop ends
when the runtime reports that the container has ended, through whichever activity receives that, or when nobody will ask
for it again. It waits for the next attempt when one is lost.
"""

from collections.abc import Callable, Collection
from typing import Final

from activities.execution.growing_intervals import RecentRecordsByName
from activities.probes.loop import ProbeLoop
from activities.probes.outcome import TellVerdict, tell_workflow
from activities.probes.result_counts import ProbeResultCounts

_REMEMBERED: Final = 4096
"""IDs of ended containers: more than late activities can ask for."""


class ProbeLoops:
    """The registry of loops; use it from the worker's event loop only."""

    def __init__(self) -> None:
        self.result_counts = ProbeResultCounts()
        """Counts the outcomes of all probes."""
        self.tell_verdict: TellVerdict = tell_workflow
        """How verdicts are told; set by the process, which may lead the pods itself."""
        self.recent_signals = RecentRecordsByName()
        """Of readiness, by pod UID and container: restarts of a container do not reset them."""
        self._loops: dict[str, ProbeLoop] = {}
        self._stopping: set[str] = set()
        self._ended: dict[str, None] = {}

    def attach(self, container_id: str, make: Callable[[], ProbeLoop]) -> ProbeLoop | None:
        """Return a container's loop, created if there is none; None for a container that has ended."""
        if container_id in self._ended:
            return None
        if container_id not in self._loops:
            self._loops[container_id] = make()
            if container_id in self._stopping:
                self._loops[container_id].stopping()
        return self._loops[container_id]

    def stopping(self, container_id: str) -> None:
        """Note that a container is being stopped."""
        self._stopping.add(container_id)
        if loop := self._loops.get(container_id):
            loop.stopping()

    def ended(self, container_id: str) -> None:
        """Note that a container has ended, and end its loop."""
        self._stopping.discard(container_id)
        self._ended[container_id] = None
        if len(self._ended) > _REMEMBERED:
            del self._ended[next(iter(self._ended))]
        self.abandon(container_id)

    def abandon(self, container_id: str) -> None:
        """End a container's loop although it may be running: no activity listens to it any more."""
        if loop := self._loops.pop(container_id, None):
            loop.end()

    def only(self, pod_uid: str, alive: Collection[str]) -> None:
        """Note that these are the pod's only containers that have not ended."""
        gone = [one.container_id for one in self._loops.values() if one.pod.uid == pod_uid]
        for container_id in set(gone).difference(alive):
            self.ended(container_id)
