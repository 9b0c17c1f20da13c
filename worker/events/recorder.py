"""Sends events to the API server in order, without ever blocking the caller.

Used by the worker for pods and by the node process for the node; `record` may be called from any thread. Events that cannot be
sent in time are lost, as with the kubelet: they are hints for people, and the status has the facts (client-go
tools/record/event.go).
"""

import asyncio
import contextlib
import random
import threading
from collections import deque
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final

import structlog

from activities.clients.api_server.api_server import ApiAway, ApiRefused, ApiServer
from activities.clients.api_server.resources import EVENTS
from worker.daemon.background import in_background
from worker.events.correlation import Correlation, EventToSend
from worker.events.event import ObjectReference, Occurrence

LONGEST_QUEUE: Final = 1000
TRIES: Final = 12
PAUSE: Final = 10.0
"""Seconds between tries; the first pause is random, so that not all nodes retry at once."""

_log: Final = structlog.get_logger(__name__)


class EventRecorder:
    """The events of one process."""

    def __init__(self, api: ApiServer, node_name: str, *, qps: int, burst: int) -> None:
        """`qps`, `burst`: eventRecordQPS (0: no limit) and eventBurst of KubeletConfiguration."""
        self._api = api
        self._correlation = Correlation(node_name)
        self._qps, self._burst = qps, burst
        self._tokens, self._filled_at = float(burst), 0.0
        self._queue: deque[tuple[Occurrence, datetime]] = deque()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._some = asyncio.Event()
        self._lost = 0

    def record(self, about: ObjectReference, kind: str, reason: str, message: str) -> None:
        """Record an event; returns at once."""
        self.take(Occurrence(about, kind, reason, message))

    def take(self, happened: Occurrence) -> None:
        """Record an event; returns at once."""
        with self._lock:
            if len(self._queue) >= LONGEST_QUEUE:
                self._lost += 1
                return
            self._queue.append((happened, datetime.now(UTC)))
            if len(self._queue) == 1 and self._loop is not None:
                with contextlib.suppress(RuntimeError):  # the loop has ended, and with it this process
                    self._loop.call_soon_threadsafe(self._some.set)

    @property
    def is_idle(self) -> bool:
        """Whether no event waits to be sent."""
        with self._lock:
            return not self._queue

    async def send(self) -> None:
        """Send until cancelled."""
        with self._lock:
            self._loop = asyncio.get_running_loop()
            self._filled_at = self._loop.time()
            self._some.set()
        while True:
            await self._some.wait()
            while (next_one := self._next()) is not None:
                try:
                    if (outgoing := self._correlation.take(*next_one)) is not None:
                        await self._may_send()
                        await self._send(outgoing)
                except Exception:  # noqa: BLE001 - a defect loses one event, not all that follow
                    _log.exception("a defect of tempolet, please report it: an event was not sent")

    def _next(self) -> tuple[Occurrence, datetime] | None:
        with self._lock:
            lost, self._lost = self._lost, 0
            if not self._queue:
                self._some.clear()
            found = self._queue.popleft() if self._queue else None
        if lost:
            _log.warning("events were lost because the API server accepted them too slowly", lost=lost)
        return found

    async def _may_send(self) -> None:
        """Wait for the rate limit."""
        if not self._qps:
            return
        loop = asyncio.get_running_loop()
        while True:
            now = loop.time()
            self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._qps)
            self._filled_at = now
            if self._tokens >= 1:
                self._tokens -= 1
                return
            await asyncio.sleep((1 - self._tokens) / self._qps)

    async def _send(self, outgoing: EventToSend) -> None:
        """Send one event; dropped when it is refused, when the server fails, or after two minutes without an API server."""
        for tried in range(TRIES):
            try:
                await self._write(outgoing)
            except ApiAway as error:
                # a webhook may fail for this event only, and others wait behind it
                if error.status == HTTPStatus.INTERNAL_SERVER_ERROR and not error.retry_after:
                    _log.warning("the API server fails on an event", err=str(error), reason=outgoing.event["reason"])
                    return
                if tried == TRIES - 1:
                    _log.warning(
                        "an event was dropped, the API server is unavailable",
                        err=str(error),
                        reason=outgoing.event["reason"],
                    )
                    return
                await asyncio.sleep(PAUSE if tried else random.uniform(0, PAUSE))  # noqa: S311 - no secret
            except ApiRefused as error:
                if error.reason != "AlreadyExists":  # an earlier try succeeded after all
                    _log.info("the API server refused an event", err=str(error), reason=outgoing.event["reason"])
                return
            else:
                return

    async def _write(self, outgoing: EventToSend) -> None:
        namespace = outgoing.event["metadata"]["namespace"]
        if outgoing.again:
            try:
                await self._api.patch(
                    EVENTS.path(outgoing.event["metadata"]["name"], namespace=namespace), outgoing.patch()
                )
            except ApiRefused as error:
                if not error.not_found:
                    raise
                outgoing = self._correlation.recreated(outgoing, datetime.now(UTC))
            else:
                return
        await self._api.create(EVENTS.path(namespace=namespace), outgoing.event)


def sending_events(recorder: EventRecorder) -> AbstractAsyncContextManager[None]:
    """Send events while the block runs."""
    return in_background("events", recorder.send)
