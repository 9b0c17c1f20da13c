"""The activity that reports the results of one container's probes to its pod's workflow.

It lasts as long as the container and signals only when a result changes, so a healthy pod adds nothing to its history.
What is known is stored in heartbeats, which are sent only with a change: the next try, in another worker, continues
from there. A change is first stored in a heartbeat, then signalled, so that after a crash in between it is still marked
as unreported; it may be reported twice, but is never lost.

Startup and liveness are signalled at once: the workflow acts on them, and each changes once in a container's life.
Readiness may change each second for ever, so its changes are signalled at growing intervals, with their number. What the
history does not have yet, the node's status has: the readiness listener is called at each change.

Without regular heartbeats a cancel or a pause does not reach an attempt of Temporal's. The activity ends with its
container, when a newer one takes over, or when its workflow turns out to be gone; an operator's pause ends nothing.

A container may end before its loop exists. If the worker is lost as well, the workflow may learn of the end before the
next worker gets this activity, and then nothing ends the new loop. So each try asks the runtime once for the container's
state, after its loop is registered.
"""

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, fields
from functools import partial
from typing import Any, Final

import grpc
from temporalio import activity

from activities.clients.cri_error import CriError
from activities.execution.attempt import NotDelivered, WorkflowGone, current_attempt
from activities.execution.errors import WORKER_STOPPING, non_retryable_failure, retryable_failure
from activities.execution.growing_intervals import RecentRecords
from activities.probes.loop import ProbeLoop
from activities.probes.outcome import ReadinessListener, TellVerdict
from activities.probes.services import ProbeServices
from proto.cri.v1 import api_pb2 as cri
from proto.temporal import names
from proto.temporal.activities.heartbeats import ProbeProgress
from proto.temporal.activities.requests import ProbeContainer
from proto.temporal.failure_types import CONTAINER_ENDED
from proto.temporal.pod import ProbeKind
from proto.temporal.signals import ProbeVerdict

_SHARE: Final = 3
"""Heartbeats in one heartbeat timeout: two may be lost."""
_PAUSE_SECONDS: Final = 1.0
"""Between two tries to reach whoever asked, or the runtime."""


class ProbeActivities:
    """Startup, liveness and readiness of a container."""

    def __init__(self, services: ProbeServices) -> None:
        self._services = services

    @activity.defn(name=names.PROBE_CONTAINER)
    async def probe_container(self, request: ProbeContainer) -> None:
        """Probe a container until it has ended, or another activity takes over.

        Raises WorkerStopping, which Temporal retries in the next worker, and ContainerEnded if it has ended before: the
        workflow then reads the runtime instead of asking again at once (a reset workflow does not know the end).
        """
        loops, uid, attempt = self._services.probes, request.pod.uid, current_attempt()
        progress = initial_progress(request, attempt.earlier)
        loop = loops.attach(
            request.container_id,
            lambda: ProbeLoop(
                request,
                self._services.runtime,
                progress,
                lambda: self._services.terminating.has(uid),
                on_outcome=self._services.probe_listener,
                result_counts=loops.result_counts,
            ),
        )
        if loop is None:
            message = f"container {request.name} of {request.pod} ({request.container_id}) has ended"
            raise non_retryable_failure(CONTAINER_ENDED, message)
        if attempt.number == 1:  # later tries have the first try's request, which is outdated
            loop.mark_unreported({kind: found.sequence for kind, found in request.known.items()})
        recent = loops.recent_signals.of((uid, request.name))
        listener = _Listener(loop, loops.tell_verdict, recent, self._services.readiness_listener)
        stop = asyncio.create_task(listener.end_with_worker())
        ended_before = asyncio.create_task(self._end_if_over(request.container_id))
        try:
            if not await listener.listen() and listener.is_newest():
                loops.abandon(request.container_id)
        except asyncio.CancelledError:
            if await attempt.ends_work() and listener.is_newest():
                loops.abandon(request.container_id)
            raise
        finally:
            stop.cancel()
            ended_before.cancel()

    async def _end_if_over(self, container_id: str) -> None:
        """End the loop if the container has ended; asks until the runtime answers."""
        while (over := await self._is_over(container_id)) is None:  # noqa: ASYNC110 - no event says when it does
            await asyncio.sleep(_PAUSE_SECONDS)
        if over:
            self._services.probes.ended(container_id)

    async def _is_over(self, container_id: str) -> bool | None:
        """Ask the runtime whether a container has ended or is gone; None if it does not answer."""
        try:
            status = await self._services.runtime.container_status(container_id)
        except CriError as error:
            return True if error.code is grpc.StatusCode.NOT_FOUND else None
        return status.state == cri.CONTAINER_EXITED


class _Listener:
    """One try of the activity: reports a loop's changes to whoever asked until a newer try takes over."""

    def __init__(self, loop: ProbeLoop, tell: TellVerdict, recent: RecentRecords, show: ReadinessListener) -> None:
        self._loop, self._news, self._recent, self._show = loop, asyncio.Event(), recent, show
        self._tell, self._attempt = tell, current_attempt()
        if (left := loop.progress.get(ProbeKind.READINESS)) and left.signalled_at > recent.at:
            recent.count, recent.at = left.recent_signals, left.signalled_at  # another worker sent them
        self._show_readiness()
        before, loop.listener = loop.listener, self._news
        before.set()
        self._news.set()  # something may be unreported already
        timeout = self._attempt.heartbeat_timeout
        self._pause = timeout.total_seconds() / _SHARE if timeout else None

    def is_newest(self) -> bool:
        """Report whether no newer listener has taken over."""
        return self._loop.listener is self._news

    async def end_with_worker(self) -> None:
        """Wake up when the worker begins to stop."""
        await self._attempt.stopping()
        self._news.set()

    async def listen(self) -> bool:
        """Report changes until the container has ended; False if the workflow needs no more of them."""
        while self.is_newest() and not self._loop.has_ended:
            self._news.clear()
            if self._attempt.is_stopping():
                await self._hand_over()
            if not await self._report():
                return False
            try:
                async with asyncio.timeout(self._longest_wait()):
                    await self._news.wait()
            except TimeoutError:
                self._attempt.say(self._details())
        return True

    def _longest_wait(self) -> float | None:
        """Return the seconds until the next heartbeat, or until a change of readiness may be signalled."""
        if not self._loop.unreported():
            return self._pause
        now = time.time()
        held_back = self._recent.due_at(now) - now
        return min(held_back, self._pause) if self._pause else held_back

    async def _hand_over(self) -> None:
        """Store what is known for the next worker."""
        with suppress(NotDelivered, WorkflowGone):
            await self._keep()
        raise retryable_failure(WORKER_STOPPING, f"the worker stops; the next one continues to probe {self._loop.name}")

    async def _report(self) -> bool:
        """Signal each changed result that is due; False if the workflow, or its interest in this activity, is gone."""
        while kinds := self._due():
            try:
                for kind in kinds:
                    await self._signal(kind)
                await self._keep()
            except WorkflowGone:
                return False
            except NotDelivered:
                self._show_readiness()
                await asyncio.sleep(_PAUSE_SECONDS)  # who asked cannot be reached; probing continues
            if not self.is_newest() or self._loop.has_ended:
                break
        return True

    def _due(self) -> list[ProbeKind]:
        """List the changed results to signal now; a readiness that has to wait is shown without a signal."""
        kinds, now = self._loop.unreported(), time.time()
        if ProbeKind.READINESS in kinds and self._recent.due_at(now) > now:
            self._show_readiness()
            kinds.remove(ProbeKind.READINESS)
        return kinds

    def _show_readiness(self, *, signalled: bool = False) -> None:
        found = self._loop.progress.get(ProbeKind.READINESS)
        if found is not None and found.verdict is not None:
            self._show(self._loop.pod, self._loop.container_id, ready=found.verdict, signalled=signalled)

    async def _signal(self, kind: ProbeKind) -> None:
        found = self._loop.progress[kind]
        verdict = ProbeVerdict(
            container=self._loop.name,
            container_id=self._loop.container_id,
            probe=kind,
            success=bool(found.verdict),
            message=found.message,
            sequence=found.sequence,
            turns=max(found.turns, 1),
        )
        if kind is ProbeKind.READINESS:
            self._show_readiness(signalled=True)
        await self._tell(self._attempt.workflow_id, verdict, partial(self._keep_and_tell, verdict))
        found.told, found.turns = found.sequence == verdict.sequence, found.turns - verdict.turns
        if kind is ProbeKind.READINESS:
            self._recent.add(time.time())
            found.recent_signals, found.signalled_at = self._recent.count, self._recent.at

    async def _keep_and_tell(self, verdict: ProbeVerdict) -> None:
        await self._keep()
        await self._attempt.tell(names.PROBE_VERDICT, verdict)

    async def _keep(self) -> None:
        """Store what is known at once."""
        await self._attempt.keep(self._details())

    def _details(self) -> dict[str, Any]:
        return {kind.value: asdict(found) for kind, found in self._loop.progress.items()}


def initial_progress(request: ProbeContainer, heartbeats: Any) -> dict[ProbeKind, ProbeProgress]:
    """Return what a new loop starts with: the heartbeat of an earlier try, or what the workflow knew in its request."""
    left: Mapping[str, Any] = heartbeats[0] if heartbeats and isinstance(heartbeats[0], Mapping) else {}
    names = {field.name for field in fields(ProbeProgress)}
    progress = {}
    for kind in ProbeKind:
        if not request.container.get(kind.field):
            continue
        known = request.known.get(kind)
        if kind.value in left:
            found = ProbeProgress(**{name: value for name, value in left[kind.value].items() if name in names})
        elif known is not None:
            found = ProbeProgress(verdict=known.success, last=known.success, run=1, sequence=known.sequence)
        else:
            found = ProbeProgress(verdict=True if kind is ProbeKind.LIVENESS else None)
        progress[kind] = found
    return progress
