"""Which resizes of this node's pods are granted, and when those that wait are judged again.

Every source passes each pod that it lists through `listed`, and tells the pod's workflow what comes back: the pod with the
resources that the node grants, and what it asks for besides. A resize is judged when its pod is listed with other resources,
beside all other pods. One that is deferred is judged again whenever room may have been freed: a pod was removed, has ended or
has shrunk; and 3 minutes after the last time (pkg/kubelet/allocation/allocation_manager.go; the triggers are in
pkg/kubelet/kubelet.go). For a critical pod that only lacks resources other pods are stopped, one such resize after another;
its verdict waits until they are gone. The rules are pure (`workflows/decide/resources/resizes.py`).
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import structlog

from proto.pod_snapshot import has_ended
from proto.temporal.pod import PodJson
from proto.temporal.pod_inputs import Rejected
from proto.temporal.resources import PendingResize
from worker.poller.resizes.dependencies import ResizeDependencies, Room
from worker.poller.resizes.freed_room import FreedRoom
from worker.poller.resizes.shown_resizes import pending_shown
from workflows.decide.eviction.preemption import Preemption
from workflows.decide.manifest.validation.resize import validate_resize
from workflows.decide.record.listing import lasting
from workflows.decide.record.updates import names_of
from workflows.decide.resources import resizes
from workflows.decide.resources.resize_operations import resize_operations
from workflows.decide.resources.resizes import Allocation
from workflows.decide.resources.resources import INFEASIBLE
from workflows.decide.shutdown.words import NOT_ADMITTED

FIRST_RETRY: Final = 30.0
"""Seconds after a moment in which the sources were not complete (initialRetryDelay)."""
RETRY: Final = 180.0
"""Seconds after each other time (retryDelay)."""
LOOK: Final = 1.0
"""Seconds between looks at the other pods while a resize waits."""

_log: Final = structlog.get_logger(__name__)


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
        self._preempting: dict[str, str] = {}
        """Critical pods for whose resize others are stopped, one after the other; these are not judged meanwhile."""
        self._preempts = asyncio.Event()
        self._freed_room = FreedRoom(dependencies.snapshot, dependencies.present)
        self._shrinking: set[str] = set()
        """Pods that may still have more than they were granted."""
        self._trigger = ""
        self._due = 0.0
        self._changed = asyncio.Event()

    def listed(self, pod: PodJson, *, static: bool = False) -> Listed:
        """Take what a source lists; `settle` then judges what has changed."""
        uid = pod["metadata"]["uid"]
        known = self._pods.get(uid)
        if known and lasting(known.pod) == lasting(pod):
            pod = known.pod  # one copy is enough
        for one in resize_operations(known.pod, pod) if known else ():
            self._dependencies.counts.requested(*one)
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
        self._freed_room.look()

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
        """Judge what waits again and again; stop pods for critical ones; put on disk what was granted."""
        async with asyncio.TaskGroup() as loops:
            loops.create_task(self._judge_again())
            loops.create_task(self._preempt())

    async def _judge_again(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            await self._next_look()
            if self._dependencies.sources_ready():
                self._allocated.keep_only(self._dependencies.present().keys())
            await asyncio.to_thread(self._allocated.write)
            if self._waiting and clock() >= self._due:
                self.retry("periodic_retry")
            elif self._waiting and (trigger := self._freed_room.trigger()):
                self.retry(trigger)

    async def _next_look(self) -> None:
        try:
            async with asyncio.timeout(LOOK if self._waiting else None):
                await self._changed.wait()
        except TimeoutError:
            return
        await asyncio.sleep(LOOK)  # many pods are started together, and are written together
        self._changed.clear()

    async def _preempt(self) -> None:
        """Grant resizes of critical pods once pods were stopped for them (CriticalPodAdmissionHandler)."""
        while True:
            await self._preempts.wait()
            self._preempts.clear()
            while uid := next(iter(self._preempting), ""):
                try:
                    await self._preempt_for(uid)
                except Exception:  # noqa: BLE001 - other pods must not be affected
                    _log.exception("could not stop pods for a resize; please report this", podUID=uid)
                    del self._preempting[uid]
                else:
                    del self._preempting[uid]
                    self.retry("pod_updated")

    async def _preempt_for(self, uid: str) -> None:
        """Stop pods for a resize if it still needs that, and grant it; one that was changed meanwhile is judged again."""
        if self.room is None:
            return
        async with self.room.preempting:
            asked = self._pods.get(uid)
            if asked is None or uid not in self._waiting or self.is_over(uid):
                return
            found = self._why_not(asked)
            if not isinstance(found, Preemption):
                return
            self._shrinking.add(uid)
            await self.room.preempt_for_resize(asked.pod, found)
            latest = self._pods.get(uid)
            if latest and uid in self._waiting and not resizes.is_judged_anew(asked.pod, latest.pod):
                self._decided(uid, None, "critical_pod_preempted")

    def _judge(self, uid: str, trigger: str) -> None:
        if uid in self._preempting:
            return
        if self.is_over(uid):
            self._waiting.pop(uid)
            return
        found = self._why_not(self._pods[uid])
        if isinstance(found, Preemption):
            self._preempting[uid] = trigger
            self._preempts.set()
        else:
            self._decided(uid, found, trigger)

    def _decided(self, uid: str, why: Rejected | None, trigger: str) -> None:
        """Grant a resize, or defer it for this reason."""
        asked = self._pods[uid]
        before = (asked.granted, asked.pending)
        if why is None:
            if asked.pending and asked.pending.reason == resizes.DEFERRED:
                self._dependencies.counts.accepted(self._preempting.get(uid, trigger))
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
                self._dependencies.counts.infeasible(resizes.INFEASIBLE_DETAILS[why.message])
        if before != (asked.granted, asked.pending):
            self._tell(uid)

    def _why_not(self, asked: Asked) -> Rejected | Preemption | None:
        if why := resizes.why_infeasible(asked.pod, asked.granted, self._dependencies.settings):
            return Rejected(INFEASIBLE, why)
        found = self.room.judge_resize(asked.pod, static=asked.static) if self.room else None
        return found or (NOT_ADMITTED if self._dependencies.shuts_down() else None)

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


def _is_another_pod(pod: PodJson, allocation: Allocation) -> bool:
    """Report whether an edit of a manifest is no resize, but replaces the pod."""
    before = resizes.with_allocation(pod, allocation)
    listed = {name for names in names_of(pod) for name in names}
    return listed != allocation.containers.keys() or bool(validate_resize(pod, before))
