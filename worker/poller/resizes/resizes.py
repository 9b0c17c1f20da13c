"""Which resizes of this node's pods are granted, and when those that wait are judged again.

Every source passes each pod that it lists through `listed`, and tells the pod's workflow what comes back: the pod with the
resources that the node grants, and what it asks for besides. A resize is judged when its pod is listed with other resources,
beside all other pods. One that is deferred is judged again whenever room may have been freed: a pod was removed, has ended or
has shrunk; and 3 minutes after the last time (pkg/kubelet/allocation/allocation_manager.go; the triggers are in
pkg/kubelet/kubelet.go). The rules are pure (`workflows/decide/resources/resizes.py`).
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Protocol

import structlog

from proto.kubernetes.resources.overhead import requests_and_overhead
from proto.pod_snapshot import PodSnapshot, has_ended
from proto.temporal.pod import PodJson
from proto.temporal.pod_inputs import Rejected
from proto.temporal.resources import PendingResize
from worker.poller.resizes.allocated_pods import AllocatedPods
from worker.poller.resizes.shown_resizes import pending_shown
from workflows.decide.manifest.validation.resize import validate_resize
from workflows.decide.record.listing import lasting
from workflows.decide.record.updates import names_of
from workflows.decide.resources import resizes
from workflows.decide.resources.resizes import Allocation, ResizeSettings
from workflows.decide.resources.resources import INFEASIBLE
from workflows.decide.shutdown.words import NOT_ADMITTED

FIRST_RETRY: Final = 30.0
"""Seconds after a moment in which the sources were not complete (initialRetryDelay)."""
RETRY: Final = 180.0
"""Seconds after each other time (retryDelay)."""
LOOK: Final = 1.0
"""Seconds between looks at the other pods while a resize waits."""

_log: Final = structlog.get_logger(__name__)


class Room(Protocol):
    """Knows what this node has, and what its pods use."""

    def why_not_resized(self, pod: PodJson, allocated: PodJson, *, static: bool) -> Rejected | None:
        """Return why a pod cannot have what it asks for beside the others; None if it can."""


@dataclass(frozen=True, slots=True)
class ResizeDependencies:
    """What Resizes works with."""

    allocated: AllocatedPods
    settings: ResizeSettings
    snapshot: Callable[[str], PodSnapshot | None]
    """What the workflow of a pod last showed, by uid."""
    present: Callable[[], Mapping[str, PodJson]]
    """All pods that are listed here, by uid."""
    sources_ready: Callable[[], bool]
    """Whether every source has listed its pods; before, a resize would be granted what an unknown pod has."""
    shuts_down: Callable[[], bool]
    """Whether the machine is going down."""


@dataclass(slots=True)
class Asked:
    """One pod as its source lists it, and what it is granted."""

    pod: PodJson
    granted: PodJson
    static: bool
    pending: PendingResize | None = None
    since: datetime | None = None
    """When its resize was first deferred."""


@dataclass(frozen=True, slots=True)
class Listed:
    """What a pod's workflow is told."""

    pod: PodJson
    """With the resources that the node grants."""
    pending: PendingResize | None = None
    """What its source asks for besides."""


class Resizes:
    """The resizes of one node's pods."""

    def __init__(self, dependencies: ResizeDependencies) -> None:
        self._dependencies, self._allocated = dependencies, dependencies.allocated
        self.room: Room | None = None
        """None grants whatever is feasible."""
        self.on_change: Callable[[str], None] | None = None
        """Called with the uid of a pod of which `of` has changed."""
        self._pods: dict[str, Asked] = {}
        self._waiting: dict[str, None] = {}
        self._shrinking: set[str] = set()
        """Pods that may still have more than they were granted."""
        self._used: dict[str, tuple[int, int]] = {}
        """What each pod used at the last look: cpu in thousandths, memory in bytes; nothing once it has ended."""
        self._trigger = ""
        self._due = 0.0
        self._changed = asyncio.Event()

    def listed(self, pod: PodJson, *, static: bool = False) -> Listed:
        """Take what a source lists; `settle` then judges what has changed."""
        uid = pod["metadata"]["uid"]
        known = self._pods.get(uid)
        if known and lasting(known.pod) == lasting(pod):
            pod = known.pod  # one copy is enough
        allocation = self._allocated.of(uid)
        if static and allocation and _is_another_pod(pod, allocation):
            allocation = resizes.allocation_of(pod)
            self._allocated.set(uid, allocation)
        granted = resizes.with_allocation(pod, allocation) if allocation else pod
        asked = Asked(pod, granted, static, *(known.pending, known.since) if known else self._shown(uid))
        if granted is pod:
            asked.pending = asked.since = None
            self._waiting.pop(uid, None)
        elif known is None or resizes.is_judged_anew(known.pod, pod):
            self._waiting[uid] = None
            self._trigger = "pod_updated" if known else "pods_added"
        self._pods[uid] = asked
        return self.of(uid)

    def of(self, uid: str) -> Listed:
        """Return what the workflow of a listed pod is told."""
        asked = self._pods[uid]
        return Listed(asked.granted, asked.pending)

    def admitted(self, pod: PodJson) -> None:
        """Record that a pod is started with these resources; what it was granted before stays."""
        uid = pod["metadata"]["uid"]
        if self._allocated.of(uid) is not None:
            return
        self._allocated.set(uid, resizes.allocation_of(pod))
        self._changed.set()
        asked = self._pods.get(uid)
        if asked and resizes.is_judged_anew(pod, asked.pod):  # edited while it was admitted
            asked.granted = resizes.with_allocation(asked.pod, resizes.allocation_of(pod))
            self._waiting[uid], self._trigger = None, "pod_updated"
            self._tell(uid)
            self.settle()

    def removed(self, uid: str) -> None:
        """Forget a pod that is not listed any more; `settle` then judges what waits for its room."""
        self._pods.pop(uid, None)
        self._waiting.pop(uid, None)
        self._shrinking.discard(uid)
        self._allocated.remove(uid)
        self._trigger = "pods_removed"

    def settle(self) -> None:
        """Judge what waits, if something was listed or removed that matters to it."""
        trigger, self._trigger = self._trigger, ""
        if trigger and self._waiting:
            self.retry(trigger)

    def retry(self, trigger: str) -> None:
        """Judge all resizes that wait, in their order (retryPendingResizes)."""
        now = asyncio.get_running_loop().time()
        self._changed.set()
        if not self._dependencies.sources_ready():
            self._due = now + FIRST_RETRY
            return
        self._due = now + RETRY
        found = [self._pods[uid] for uid in self._waiting]
        for uid in resizes.in_order(resizes.waiting(one.pod, one.granted, one.since) for one in found):
            try:
                self._judge(uid, trigger)
            except Exception:  # noqa: BLE001 - other pods must not be affected
                _log.exception("could not judge a resize; please report this", podUID=uid)
        self._used = self._uses()

    def in_use(self, uid: str, pod: PodJson) -> PodJson:
        """Return a pod with the resources that count as used while its resize is carried out."""
        if uid not in self._shrinking:
            return pod
        snapshot = self._dependencies.snapshot(uid)
        found = resizes.in_use(pod, snapshot.status) if snapshot else pod
        if found is pod:
            self._shrinking.discard(uid)
        return found

    def is_over(self, uid: str) -> bool:
        """Report whether a pod has ended, so that it uses nothing."""
        snapshot = self._dependencies.snapshot(uid)
        return snapshot is not None and has_ended(snapshot)

    async def run(self) -> None:
        """Judge what waits again and again; put on disk what was granted."""
        clock = asyncio.get_running_loop().time
        while True:
            await self._next_look()
            if self._dependencies.sources_ready():
                self._allocated.keep_only(self._dependencies.present().keys())
            await asyncio.to_thread(self._allocated.write)
            if self._waiting and clock() >= self._due:
                self.retry("periodic_retry")
            elif self._waiting and (trigger := self._freed()):
                self.retry(trigger)

    async def _next_look(self) -> None:
        try:
            async with asyncio.timeout(LOOK if self._waiting else None):
                await self._changed.wait()
        except TimeoutError:
            return
        await asyncio.sleep(LOOK)  # many pods are started together, and are written together
        self._changed.clear()

    def _judge(self, uid: str, trigger: str) -> None:
        asked = self._pods[uid]
        if self.is_over(uid):
            self._waiting.pop(uid)
            return
        before = (asked.granted, asked.pending)
        why = self._why_not(asked)
        if why is None:
            self._grant(uid, asked)
            name = f"{asked.pod['metadata']['namespace']}/{asked.pod['metadata']['name']}"
            _log.info("a resize is granted", pod=name, podUID=uid, trigger=trigger)
        else:
            reason = asked.pending.reason if asked.pending else ""
            asked.pending = resizes.pending(asked.pod, why)
            if asked.pending.reason != reason or asked.since is None:
                asked.since = datetime.now(UTC)
            if asked.pending.reason == INFEASIBLE:
                self._waiting.pop(uid)
        if before != (asked.granted, asked.pending):
            self._tell(uid)

    def _why_not(self, asked: Asked) -> Rejected | None:
        if why := resizes.why_infeasible(asked.pod, asked.granted, self._dependencies.settings):
            return Rejected(INFEASIBLE, why)
        why_not = self.room.why_not_resized(asked.pod, asked.granted, static=asked.static) if self.room else None
        return why_not or (NOT_ADMITTED if self._dependencies.shuts_down() else None)

    def _grant(self, uid: str, asked: Asked) -> None:
        self._waiting.pop(uid)
        self._allocated.set(uid, resizes.allocation_of(asked.pod))
        self._allocated.write()
        self._shrinking.add(uid)
        asked.granted, asked.pending, asked.since = asked.pod, None, None

    def _tell(self, uid: str) -> None:
        if self.on_change:
            self.on_change(uid)

    def _shown(self, uid: str) -> tuple[PendingResize | None, datetime | None]:
        """Return what the pod's status says of a resize that waited before this poller started (BackfillPodResizeConditions)."""
        snapshot = self._dependencies.snapshot(uid)
        if snapshot is None:
            return None, None
        self._shrinking.add(uid)
        return pending_shown(snapshot)

    def _freed(self) -> str:
        """Return what has freed room since the last look; empty if nothing has."""
        before, self._used = self._used, self._uses()
        if any(uid not in self._used for uid in before):
            return "pod_terminated"
        shrunk = any(
            now < was
            for uid, used in self._used.items()
            if uid in before
            for now, was in zip(used, before[uid], strict=True)
        )
        return "pod_resized" if shrunk else ""

    def _uses(self) -> dict[str, tuple[int, int]]:
        """Return what each pod uses that has not ended."""
        found = {}
        for uid, pod in self._dependencies.present().items():
            snapshot = self._dependencies.snapshot(uid)
            if self.is_over(uid):
                continue
            asked = requests_and_overhead(resizes.in_use(pod, snapshot.status if snapshot else {}))
            found[uid] = (
                asked["cpu"].milli if "cpu" in asked else 0,
                asked["memory"].value if "memory" in asked else 0,
            )
        return found


def _is_another_pod(pod: PodJson, allocation: Allocation) -> bool:
    """Report whether an edit of a manifest is no resize, but replaces the pod."""
    before = resizes.with_allocation(pod, allocation)
    listed = {name for names in names_of(pod) for name in names}
    return listed != allocation.containers.keys() or bool(validate_resize(pod, before))
