"""The runtime's event stream: ends of containers and sandboxes, reported within a millisecond.

`follow` reads the CRI's event stream and passes each event to `signal_for`, which is pure. Only ends of what the pod's
snapshot shows as running become signals: creations, starts and removals are tempolet's own. An end that tempolet caused
itself is delayed a moment, because the activity that stopped the container, or a start that waits for an early exit,
usually reports it first. The stream is opened again after every error, and after five minutes without an event, because
an idle node and a dead stream look the same; `stream_opened` then requests a relist, because missed events are not repeated.
containerd before 2.0 shares one stream among all readers, so there it is not used and the relist finds the ends.
"""

import asyncio
import contextlib
from collections import deque
from datetime import timedelta
from typing import Final, Protocol

import structlog

from activities.clients.cri_error import CriError
from activities.clients.runtime import RuntimeClient
from proto.cri.labels import POD_UID
from proto.cri.ownership import HOOK_LABEL, NODE_ANNOTATION, is_of_node
from proto.cri.v1 import api_pb2 as cri
from proto.pod_snapshot import PodSnapshot
from proto.temporal.pod import ContainerState
from proto.temporal.signals import RuntimeChanged

SOURCE: Final = "event"
RETRY_FIRST: Final = timedelta(milliseconds=100)
RETRY_LONGEST: Final = timedelta(seconds=5)
SILENCE: Final = timedelta(minutes=5)
NO_STREAM_RETRY: Final = timedelta(minutes=1)
OPENING: Final = timedelta(milliseconds=200)
"""A stream reports nothing when it opens; it counts as open if it has not failed for this long."""
OWN_STOP_WAITS: Final = timedelta(seconds=2)
OWN_START_WAITS: Final = timedelta(milliseconds=250)
"""Longer than a start waits for an early exit (workflows/decide/steps/containers.py)."""

_log: Final = structlog.get_logger(__name__)


class EventHandler(Protocol):
    """Handles the events of the stream."""

    def handle_event(self, event: cri.ContainerEventResponse) -> None:
        """Handle one event."""

    def stream_opened(self) -> None:
        """Handle that the stream is open (again): earlier events are not repeated."""

    def stream_lost(self) -> None:
        """Handle that the stream broke, or did not open."""


class EventStream:
    """One node's event stream; `flows` says whether ends can be expected from it."""

    def __init__(self, client: RuntimeClient, handler: EventHandler) -> None:
        self._client = client
        self._handler = handler
        self._reported: deque[str] = deque(maxlen=2000)
        self.flows = False

    def reported_end_of(self, container_id: str) -> bool:
        """Report whether the stream reported this end."""
        return container_id in self._reported

    def mark_unreliable(self) -> None:
        """Record that the stream missed an end: it is not relied on until its next event."""
        self.flows = False

    async def follow(self) -> None:
        """Read the stream, reopening it whenever it ends, until cancelled."""
        wait = RETRY_FIRST
        while True:
            try:
                if not await self._has_stream():
                    pause = NO_STREAM_RETRY
                else:
                    await self._read()
                    pause, wait = RETRY_FIRST, RETRY_FIRST
            except CriError as error:
                if error.code.name == "UNIMPLEMENTED":
                    _log.info("the runtime has no event stream; listing containers every second")
                    pause = NO_STREAM_RETRY
                else:
                    self._handler.stream_lost()
                    pause, wait = wait, min(wait * 2, RETRY_LONGEST)
            finally:
                self.flows = False
            await asyncio.sleep(pause.total_seconds())

    async def _has_stream(self) -> bool:
        version = await self._client.version()
        if version.runtime_name == "containerd" and _major(version.runtime_version) < 2:
            _log.info(
                "this containerd shares one event stream among its readers; listing containers every second; "
                "2.0 or later is faster",
                version=version.runtime_version,
            )
            return False
        return True

    async def _read(self) -> None:
        """Read one stream until it is silent for too long; raises CriError if it breaks."""
        events = self._client.container_events()
        opening = asyncio.get_running_loop().call_later(OPENING.total_seconds(), self._open)
        try:
            with contextlib.suppress(TimeoutError):
                while True:
                    async with asyncio.timeout(SILENCE.total_seconds()):
                        event = await anext(events)
                    self.flows = True
                    if event.container_event_type in _ENDS:
                        self._reported.append(event.container_id)
                        self._handler.handle_event(event)
        except StopAsyncIteration:
            return
        finally:
            opening.cancel()
            with contextlib.suppress(CriError):
                await events.aclose()  # type: ignore[attr-defined]  # an async generator

    def _open(self) -> None:
        self.flows = True
        self._handler.stream_opened()


_ENDS: Final = (cri.CONTAINER_STOPPED_EVENT, cri.CONTAINER_DELETED_EVENT)


def signal_for(event: cri.ContainerEventResponse, snapshot: PodSnapshot | None) -> RuntimeChanged | None:
    """Return the signal for an event; None if the pod knows it already or need not know."""
    if _is_of_a_hook(event):
        return None
    one_id, stopped = event.container_id, event.container_event_type == cri.CONTAINER_STOPPED_EVENT
    is_sandbox = one_id == event.pod_sandbox_status.id
    exited, lost = RuntimeChanged(SOURCE, exited=(one_id,)), RuntimeChanged(SOURCE, sandbox_lost=True)
    if snapshot is None:
        return (lost if is_sandbox else exited) if stopped else None
    if one_id == snapshot.sandbox_id:
        return lost if snapshot.sandbox_ready else None
    for known in snapshot.containers.values():
        if known.container_id == one_id:
            return None if known.state == ContainerState.EXITED else exited
    if not stopped or is_sandbox:  # of a replaced instance, or one that its creator reports
        return None
    return None if _is_older(event, snapshot) else exited


def is_reported_by_start(event: cri.ContainerEventResponse, snapshot: PodSnapshot | None) -> bool:
    """Report whether a start in progress will report how its container ends."""
    named = {one.metadata.name for one in event.containers_statuses if one.id == event.container_id}
    return snapshot is not None and not named.isdisjoint(snapshot.ends_awaited)


class Known(Protocol):
    """The snapshots of this node's pods."""

    def of(self, uid: str) -> PodSnapshot | None:
        """Read one pod's snapshot."""

    def with_object(self, object_id: str) -> PodSnapshot | None:
        """Find the pod whose newest sandbox or container this is."""


def pod_of(event: cri.ContainerEventResponse, node: str, known: Known) -> tuple[str, dict[str, str]] | None:
    """Return a pod's UID and labels for an event; None if the pod is not ours.

    A pod that a kubelet began has no annotation of ours: if it has a snapshot, it was taken over. After a removal the
    runtime may not know the pod any more; then its ids are looked for in the snapshots.
    """
    sandbox = event.pod_sandbox_status
    if uid := sandbox.labels.get(POD_UID):
        taken_over = () if NODE_ANNOTATION in sandbox.annotations or known.of(uid) is None else (uid,)
        return (uid, dict(sandbox.labels)) if is_of_node(sandbox.annotations, uid, node, taken_over) else None
    found = known.with_object(event.container_id)
    return (found.uid, {}) if found else None


def _is_of_a_hook(event: cri.ContainerEventResponse) -> bool:
    """Report whether the container ran a hook's command: the activity that created it waits for its end."""
    return any(one.id == event.container_id and HOOK_LABEL in one.labels for one in event.containers_statuses)


def _is_older(event: cri.ContainerEventResponse, snapshot: PodSnapshot) -> bool:
    """Report whether the event is of an instance older than the snapshot's."""
    for status in event.containers_statuses:
        if status.id == event.container_id:
            newest = snapshot.containers.get(status.metadata.name)
            return newest is not None and bool(newest.container_id) and status.metadata.attempt < newest.attempt
    return False


def _major(version: str) -> int:
    digits = version.lstrip("v").partition(".")[0]
    return int(digits) if digits.isdecimal() else 2
