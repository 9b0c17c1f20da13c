"""Stops pods so that a critical one has room, and waits until they are gone.

Used by `node_admission.py`. Which pods are stopped is decided in `workflows/decide/eviction/preemption.py`; each is stopped by its own
workflow, or by the worker where it leads the pod. Nobody is stopped for a pod that this node would refuse for another reason.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

import structlog

from proto.kubernetes.grace_seconds import longest_end
from proto.pod_snapshot import snapshot_path
from proto.temporal.eviction.candidates import Candidate
from proto.temporal.names import PodWorkflowId
from proto.temporal.operator import GOING, EvictPod, Rejection
from proto.temporal.pod import PodJson
from proto.temporal.pod_inputs import Rejected
from worker.delivery.pod_requests import BY_THE_NODE, GONE, UNANSWERED, PodRequests
from worker.machine.inotify import FolderWatch
from worker.poller.runtime.known_pods import KnownPods
from workflows.decide.eviction.candidates import candidate
from workflows.decide.eviction.preemption import MESSAGE, REASON, Preemption, Reason, preempt, why_this_one

AT_ONCE: Final = 8
"""Pods that are asked at the same time."""
_AGAIN: Final = timedelta(seconds=1)
"""Until a pod is asked again that nobody answered for."""
_LOOK_AGAIN: Final = timedelta(seconds=5)
"""For a folder that tells of no change."""
_LONGEST_WHY: Final = 2048

_log: Final = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionParts:
    """What they work with."""

    node: str
    root_dir: Path
    known: KnownPods
    requests: PodRequests
    counted: Callable[[str], None]
    """Called for each pod that was stopped, with the resource that was lacking."""
    refuses: Callable[[PodJson], Rejected | None]
    """Returns why this node would not run a pod that it admits."""
    alone: bool
    """On a node without a cluster, every pod is static; only those of the system are critical there."""


class Preemptions:
    """Those of one node; used from one event loop."""

    def __init__(self, parts: PreemptionParts) -> None:
        self._parts = parts
        self._permits = asyncio.Semaphore(AT_ONCE)

    def decide(self, pod: PodJson, others: Sequence[PodJson], reasons: Sequence[Reason]) -> Preemption:
        """Decide who is stopped for a pod that does not fit beside `others`, or why it is rejected."""
        found = preempt(self._candidate(pod), [self._candidate(one) for one in others], reasons)
        if found.rejected is None and (why := self._parts.refuses(pod)):
            return Preemption(rejected=why)
        return found

    async def carry_out(self, pod: PodJson, found: Preemption) -> None:
        """Stop the victims, and return when they are gone, or are not gone in time."""
        preemptor = self._candidate(pod)
        async with asyncio.TaskGroup() as stops:
            for victim in found.victims:
                why = why_this_one(victim, preemptor, found)
                _log.warning(
                    "preempting a pod",
                    pod=victim.full_name,
                    podUID=victim.uid,
                    requestingPod=preemptor.full_name,
                    why=why,
                )
                asked = EvictPod(
                    BY_THE_NODE, REASON, MESSAGE, why=why[:_LONGEST_WHY], preempted_for=preemptor.full_name
                )
                stops.create_task(self._stop(victim, asked, found.signal))

    def _candidate(self, pod: Mapping[str, object]) -> Candidate:
        return candidate(pod, alone=self._parts.alone)

    async def _stop(self, victim: Candidate, asked: EvictPod, signal: str) -> None:
        within = longest_end(timedelta(seconds=victim.grace_seconds or 0))
        rejected = await self._answer(victim, asked, within)
        if rejected and rejected.reason != GOING:
            _log.info("a pod needs no preemption", pod=victim.full_name, podUID=victim.uid, reason=rejected.reason)
            return
        try:
            async with asyncio.timeout(within.total_seconds()):
                await self._until_over(victim.uid)
        except TimeoutError:
            _log.warning(
                "a preempted pod is not gone in time; going on without its room",
                pod=victim.full_name,
                podUID=victim.uid,
                seconds=within.total_seconds(),
            )
            return
        self._parts.counted(signal)
        _log.info("a preempted pod is gone", pod=victim.full_name, podUID=victim.uid)

    async def _answer(self, victim: Candidate, asked: EvictPod, within: timedelta) -> Rejection | None:
        """Ask until the pod has answered; one that was only just admitted may have no workflow yet."""
        workflow_id = str(PodWorkflowId(self._parts.node, victim.namespace, victim.name, victim.uid))
        until = asyncio.get_running_loop().time() + within.total_seconds()
        while True:
            try:
                async with self._permits:
                    rejected = await self._parts.requests.ask(workflow_id, asked)
            except UNANSWERED as error:
                _log.warning(
                    "nobody takes that a pod is preempted; trying again",
                    pod=victim.full_name,
                    podUID=victim.uid,
                    err=str(error) or type(error).__name__,
                )
            else:
                begins = rejected == GONE and self._parts.known.of(victim.uid) is None
                if not begins or asyncio.get_running_loop().time() > until:
                    return rejected
            await asyncio.sleep(_AGAIN.total_seconds())

    async def _until_over(self, uid: str) -> None:
        """Follow a pod's folder until its snapshot says that nothing of it runs, or the folder is gone again."""
        folder, seen = snapshot_path(self._parts.root_dir, uid).parent, False
        while not self._parts.known.is_over(uid):
            try:
                watch = FolderWatch(folder)
            except OSError:
                if seen and not folder.exists():
                    return
                await asyncio.sleep(_AGAIN.total_seconds())
                continue
            seen = True
            with watch:
                while folder.exists() and not self._parts.known.is_over(uid):
                    try:
                        async with asyncio.timeout(_LOOK_AGAIN.total_seconds()):
                            await watch.wait()
                    except TimeoutError:
                        pass
                    watch.read()
