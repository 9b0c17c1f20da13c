"""All probe loops of this process, by container id (design §4.6).

An activity attaches to a container's loop and finds it running when another run or another try of the activity began it.
A loop ends when the runtime says, through whichever activity hears it, that the container has ended; never by a cancel.
"""

from collections.abc import Callable, Collection
from typing import Final

from activities.probes.loop import ProbeLoop
from activities.probes.result_counts import ProbeResultCounts

_REMEMBERED: Final = 4096
"""Ids of ended containers: more than can be asked for by an activity that comes too late."""


class ProbeLoops:
    """The registry; used from the worker's event loop only."""

    def __init__(self) -> None:
        self.tallies = ProbeResultCounts()
        """How often each probe was answered how."""
        self._loops: dict[str, ProbeLoop] = {}
        self._stopping: set[str] = set()
        self._ended: dict[str, None] = {}

    def attach(self, container_id: str, make: Callable[[], ProbeLoop]) -> ProbeLoop | None:
        """Give a container's loop, made if there is none; None for a container that has ended."""
        if container_id in self._ended:
            return None
        if container_id not in self._loops:
            self._loops[container_id] = make()
            if container_id in self._stopping:
                self._loops[container_id].stopping()
        return self._loops[container_id]

    def stopping(self, container_id: str) -> None:
        """Take that a container is being stopped."""
        self._stopping.add(container_id)
        if loop := self._loops.get(container_id):
            loop.stopping()

    def ended(self, container_id: str) -> None:
        """Take that a container has ended; its loop ends with it."""
        self._stopping.discard(container_id)
        self._ended[container_id] = None
        if len(self._ended) > _REMEMBERED:
            del self._ended[next(iter(self._ended))]
        self.give_up(container_id)

    def give_up(self, container_id: str) -> None:
        """End a container's loop, whatever becomes of the container: nobody listens to it any more."""
        if loop := self._loops.pop(container_id, None):
            loop.end()

    def only(self, pod_uid: str, alive: Collection[str]) -> None:
        """Take that these are the containers of a pod that have not ended."""
        gone = [one.container_id for one in self._loops.values() if one.pod.uid == pod_uid]
        for container_id in set(gone).difference(alive):
            self.ended(container_id)
