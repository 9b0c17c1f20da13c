"""Whether room was freed since the last look, so that resizes that wait are judged again; asked by `resizes.py`."""

from collections.abc import Callable, Mapping
from typing import Final

from proto.kubernetes.resources.overhead import requests_and_overhead
from proto.pod_snapshot import PodSnapshot, has_ended
from proto.temporal.pod import PodJson
from workflows.decide.resources.resizes import in_use

TERMINATED: Final = "pod_terminated"
RESIZED: Final = "pod_resized"


class FreedRoom:
    """What each pod used at the last look."""

    def __init__(
        self, snapshot: Callable[[str], PodSnapshot | None], present: Callable[[], Mapping[str, PodJson]]
    ) -> None:
        """Take what gives a pod's snapshot, and all pods that are listed here, by uid."""
        self._snapshot, self._present = snapshot, present
        self._used: dict[str, tuple[int, int]] = {}
        """Cpu in thousandths, memory in bytes; nothing once a pod has ended."""

    def look(self) -> None:
        """Remember what is used now."""
        self._used = self._uses()

    def trigger(self) -> str:
        """Return what has freed room since the last look; empty if nothing has."""
        before = self._used
        self.look()
        if any(uid not in self._used for uid in before):
            return TERMINATED
        shrunk = any(
            now < was
            for uid, used in self._used.items()
            if uid in before
            for now, was in zip(used, before[uid], strict=True)
        )
        return RESIZED if shrunk else ""

    def _uses(self) -> dict[str, tuple[int, int]]:
        found = {}
        for uid, pod in self._present().items():
            snapshot = self._snapshot(uid)
            if snapshot and has_ended(snapshot):
                continue
            asked = requests_and_overhead(in_use(pod, snapshot.status if snapshot else {}))
            found[uid] = (
                asked["cpu"].milli if "cpu" in asked else 0,
                asked["memory"].value if "memory" in asked else 0,
            )
        return found
