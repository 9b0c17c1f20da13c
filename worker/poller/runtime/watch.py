"""Turns events and listings of the runtime into signals for the pods' workflows.

One per poller. The event stream is the fast path; a listing is compared with the snapshots after each opening of the
stream, every minute (syncFrequency) as a backstop, and every second while no stream flows, as in the kubelet's generic
PLEG.
"""

import asyncio
import contextlib
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Protocol

import structlog

from activities.clients.cri_error import CriError
from activities.clients.runtime import RuntimeClient
from activities.execution.one_by_one import log_bad_item
from proto.cri.v1 import api_pb2 as cri
from proto.temporal.names import PodWorkflowId
from proto.temporal.signals import RuntimeChanged
from worker.poller.calls.pod_workflows import PodWorkflows
from worker.poller.calls.runtime_signals import SignalSender
from worker.poller.runtime.event_stream import (
    OWN_START_WAITS,
    OWN_STOP_WAITS,
    EventStream,
    is_reported_by_start,
    pod_of,
    signal_for,
)
from worker.poller.runtime.health import RuntimeHealth
from worker.poller.runtime.known_pods import KnownPods, unknown_part
from worker.poller.runtime.relist import RuntimePod, differences, our_pods, workflow_id_of
from worker.telemetry.metrics import Metrics

NANOSECONDS: Final = 1_000_000_000
RELIST: Final = timedelta(seconds=1)
STREAM_REPORTS_WITHIN: Final = timedelta(seconds=2)
"""An end that a listing found counts as missed by the stream if the stream has not reported it within this time."""
SAME_HINT_AGAIN: Final = timedelta(seconds=50)
LONGEST_REPEAT: Final = timedelta(hours=1)
"""A signal that arrived is durable, so listings repeat it rarely: a worker that is down for a day must not find 1,440.
"""

_log: Final = structlog.get_logger(__name__)


class PodSources(Protocol):
    """Which pods are wanted on this node."""

    def lost(self, workflow_id: str) -> None:
        """Record that this workflow does not exist, so that it is started again if its pod is still wanted."""

    def deletion_requested(self, workflow_id: str) -> bool:
        """Report whether the poller asked this pod to terminate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchDependencies:
    """What a RuntimeWatch works with."""

    node: str
    client: RuntimeClient
    known: KnownPods
    sources: PodSources
    workflows: PodWorkflows
    health: RuntimeHealth
    metrics: Metrics


@dataclass(frozen=True, slots=True)
class _SentSignal:
    """The last signal that a listing caused for a pod, and when it is repeated."""

    hint: RuntimeChanged
    again_at: float
    pause: timedelta


class RuntimeWatch:
    """Watches one node's runtime."""

    def __init__(self, dependencies: WatchDependencies) -> None:
        self._deps = dependencies
        self._stream = EventStream(dependencies.client, self)
        self._opened = asyncio.Event()
        self._repeated: dict[str, _SentSignal] = {}
        self._hints = SignalSender(
            self._send,
            unknown_part=self._unknown_part,
            gone=dependencies.sources.lost,
            numbers=dependencies.workflows.numbers,
        )

    async def send_hints(self) -> None:
        """Send the signals; never returns."""
        await self._hints.run()

    async def follow_events(self) -> None:
        """Follow the event stream; never returns."""
        await self._stream.follow()

    async def relist(self) -> None:
        """List after each opening of the stream, and every second while none flows; never returns."""
        resync_due = False
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RELIST.total_seconds()):
                    await self._opened.wait()
            resync_due = resync_due or self._opened.is_set()
            if resync_due or not self._stream.flows:
                self._opened.clear()
                answered = await self.compare("resync" if resync_due else "relist")
                resync_due = resync_due and answered is None  # the stream opens once, and a listing may fail

    async def compare(self, source: str) -> dict[str, RuntimePod] | None:
        """List the runtime and signal every difference; None if it did not answer."""
        deps = self._deps
        snapshots = await asyncio.to_thread(
            deps.known.all
        )  # first: what starts in the meantime must not seem to be gone
        begun = time.perf_counter()
        try:
            sandboxes = await deps.client.list_pod_sandbox()
            containers = await deps.client.list_containers()
        except CriError:
            deps.health.check_soon()
            return None
        deps.metrics.relists.relisted(time.perf_counter() - begun)
        deps.health.set_end_detection("stream" if self._stream.flows else "relist")
        pods = our_pods(deps.node, sandboxes, containers, await asyncio.to_thread(deps.known.folders))
        found = differences(pods, snapshots, source)
        now = asyncio.get_running_loop().time()
        self._repeated = {one: sent for one, sent in self._repeated.items() if one in found}
        for workflow_id, hint in found.items():
            before, pause = self._repeated.get(workflow_id), SAME_HINT_AGAIN
            if before and (before.hint.exited, before.hint.sandbox_lost) == (hint.exited, hint.sandbox_lost):
                if now < before.again_at:
                    continue
                pause = min(before.pause * 2, LONGEST_REPEAT)
            self._repeated[workflow_id] = _SentSignal(hint, now + pause.total_seconds(), pause)
            self._queue_hint(workflow_id, hint)
        return pods

    async def compare_as_backstop(self) -> dict[str, RuntimePod] | None:
        """Compare once a minute; a stream that missed an end is not relied on until its next event."""
        flowed = self._stream.flows
        before = set(self._repeated)
        pods = await self.compare("resync")
        if flowed:
            missed = {one for name, sent in self._repeated.items() if name not in before for one in sent.hint.exited}
            asyncio.get_running_loop().call_later(STREAM_REPORTS_WITHIN.total_seconds(), self._check_stream, missed)
        return pods

    def tell_anew(self, workflow_ids: Iterable[str]) -> None:
        """Signal pods whose lead has changed to read the runtime."""
        for workflow_id in workflow_ids:
            self._repeated.pop(workflow_id, None)
            self._hints.queue(workflow_id, RuntimeChanged("resync"))

    def restarted(self, workflow_ids: Iterable[str], source: str = "restart") -> None:
        """Signal pods that existed before this poller, or before this boot, to read the runtime, once."""
        for workflow_id in workflow_ids:
            self._hints.queue(workflow_id, RuntimeChanged(source))

    def handle_event(self, event: cri.ContainerEventResponse) -> None:
        """Handle an event of the stream."""
        self._deps.metrics.relists.event_received(event.created_at / NANOSECONDS)
        try:
            self._handle(event, may_wait=True)
        except Exception as error:  # noqa: BLE001 - the other events must not be affected
            log_bad_item("events of the runtime", event.container_id, error)

    def _handle(self, event: cri.ContainerEventResponse, *, may_wait: bool) -> None:
        """Signal a pod about an event that it does not know; if its start will report it, look again later."""
        deps = self._deps
        found = pod_of(event, deps.node, deps.known)
        if not found:
            return
        uid, labels = found
        snapshot = deps.known.of(uid)
        hint = signal_for(event, snapshot)
        if hint is None:
            return
        if may_wait and is_reported_by_start(event, snapshot):
            loop = asyncio.get_running_loop()
            loop.call_later(OWN_START_WAITS.total_seconds(), lambda: self._handle(event, may_wait=False))
            return
        if workflow_id := snapshot.workflow_id if snapshot else workflow_id_of(deps.node, labels):
            self._queue_hint(workflow_id, hint)

    def stream_opened(self) -> None:
        """Handle that the stream is open: compare, because earlier events are not repeated."""
        self._opened.set()
        self._deps.metrics.relists.event_stream(opened=True)
        self._deps.health.check_soon()  # the runtime may have been down

    def stream_lost(self) -> None:
        """Handle that the stream broke, or did not open."""
        self._deps.metrics.relists.event_stream(opened=False)

    def _queue_hint(self, workflow_id: str, hint: RuntimeChanged) -> None:
        """Queue a hint; for a terminating pod delayed, because the activity that stops it reports first."""
        snapshot = self._deps.known.of(PodWorkflowId.parse(workflow_id).uid)
        terminating = self._deps.sources.deletion_requested(workflow_id) or bool(snapshot and snapshot.deleting)
        self._deps.metrics.hint("found")
        self._hints.queue(workflow_id, hint, after=OWN_STOP_WAITS.total_seconds() if terminating else 0.0)

    async def _send(self, workflow_id: str, hint: RuntimeChanged) -> bool:
        arrived = False
        outcome = "failed"
        try:
            arrived = await self._deps.workflows.hint(workflow_id, hint)
            outcome = "sent" if arrived else "late"
        finally:
            self._deps.metrics.hint(outcome)
        return arrived

    def _unknown_part(self, workflow_id: str, hint: RuntimeChanged) -> RuntimeChanged | None:
        snapshot = self._deps.known.of(PodWorkflowId.parse(workflow_id).uid)
        if snapshot is None:
            news = None if self._deps.sources.deletion_requested(workflow_id) else hint
        else:
            news = unknown_part(hint, snapshot)
        if news is None:
            self._deps.metrics.hint("known")
        return news

    def _check_stream(self, missed: Collection[str]) -> None:
        untold = [one for one in missed if not self._stream.reported_end_of(one)]
        if untold and self._stream.flows:
            _log.warning(
                "the runtime's event stream missed exits; listing containers every second until its next event",
                ids=untold,
            )
            self._stream.mark_unreliable()
