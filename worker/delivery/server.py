"""The worker's socket for messages to pods: `<root-dir>/tempolet/worker.sock`, for root alone.

Poller and commands ask here when Temporal does not take a message (`deliveries.py`). One request a connection. Whoever
connects is bounded in bytes, time and number, so none of them can hold the worker's event loop, or keep others out for long.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import structlog
from temporalio.converter import PayloadConverter

from proto.temporal.node import NodeStart
from proto.temporal.pod import PodStart
from worker.delivery.frames import Body, FrameRefused, frame, packed, read_frame, seconds, shape_of, text, unpacked
from worker.delivery.frames import whole_number as number
from worker.delivery.lead import Lead, Message, Reply
from worker.endpoints.unix_sockets import peer_uid, serving

PATIENCE: Final = timedelta(seconds=5)
"""For a peer to send its request, and to read the answer."""
ANSWER_WITHIN: Final = timedelta(seconds=10)
"""For the lead."""
POLL: Final = timedelta(seconds=20)
"""How long who asks for changes is kept waiting."""
MOST_CONNECTIONS: Final = 32
_STARTS: Final[Mapping[str, type]] = {one.__name__: one for one in (PodStart, NodeStart)}

_log: Final = structlog.get_logger(__name__)


def socket_path(state_dir: Path) -> Path:
    """Return the path of the worker's socket."""
    return state_dir / "worker.sock"


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one server; tests have shorter ones."""

    patience: float = PATIENCE.total_seconds()
    answer_within: float = ANSWER_WITHIN.total_seconds()
    poll: float = POLL.total_seconds()
    connections: int = MOST_CONNECTIONS


DEFAULT_LIMITS: Final = Limits()


class LeadServer:
    """Answers the requests of one socket; used from one event loop."""

    def __init__(
        self,
        lead: Lead,
        converter: PayloadConverter,
        shapes: Mapping[str, type],
        *,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        """Take the lead, and the type of each signal's and Update's value by its name."""
        self._lead, self._converter, self._shapes, self._limits = lead, converter, shapes, limits
        self._uids = frozenset({0, os.geteuid()})
        self._open: dict[asyncio.StreamWriter, bool] = {}
        """The connections, oldest first, and whether their request is complete."""
        self._refused_logged = False
        self._requests: Mapping[str, Callable[[Body], Awaitable[Body]]] = {
            "deliver": self._deliver,
            "start": self._start,
            "update": self._update,
            "query": self._query,
            "lead": self._lead_of,
            "leads": self._leads,
        }

    async def serve(self, path: Path) -> None:
        """Serve until cancelled; raises OSError."""
        async with self.serving(path):
            await asyncio.Event().wait()

    @contextlib.asynccontextmanager
    async def serving(self, path: Path) -> AsyncIterator[None]:
        """Serve while the block runs; raises OSError."""
        async with serving(path, self._connected):
            try:
                yield
            finally:
                for writer in list(self._open):
                    writer.transport.abort()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if not self._is_admitted(writer):
                return
            with contextlib.suppress(OSError, EOFError, TimeoutError):
                try:
                    async with asyncio.timeout(self._limits.patience):
                        body = await read_frame(reader)
                except FrameRefused as refused:
                    answer = frame(_refusal(refused))
                else:
                    self._open[writer] = True
                    answer = _framed(await self._answer(body))
                async with asyncio.timeout(self._limits.patience):
                    writer.write(answer)
                    await writer.drain()
                    writer.close()
                    await writer.wait_closed()
        finally:
            self._open.pop(writer, None)
            writer.transport.abort()

    def _is_admitted(self, writer: asyncio.StreamWriter) -> bool:
        """Report whether a peer may ask; one too many takes the place of the oldest that has not asked yet."""
        try:
            uid = peer_uid(writer)
        except OSError:
            return False
        if uid not in self._uids:
            if not self._refused_logged:
                self._refused_logged = True
                _log.warning("refused a connection to the worker's socket; further ones are not logged", uid=uid)
            return False
        if len(self._open) >= self._limits.connections:
            idle = next((one for one, has_asked in self._open.items() if not has_asked), None)
            if idle is None:
                return False
            del self._open[idle]
            idle.transport.abort()
        self._open[writer] = False
        return True

    async def _answer(self, body: Body) -> Body:
        """Answer a request; what fails is described without its content."""
        try:
            async with asyncio.timeout(self._limits.answer_within + self._limits.poll):
                return await self._request(body)(body)
        except FrameRefused as refused:
            return _refusal(refused)
        except TimeoutError:
            return {"error": "the worker did not answer in time"}
        except Exception as error:  # noqa: BLE001 - a defect ends neither the server nor the worker
            _log.error("could not answer a request on the worker's socket", err=type(error).__name__)
            return {"error": f"the worker failed to answer: {type(error).__name__}"}

    # --- the requests

    def _request(self, body: Body) -> Callable[[Body], Awaitable[Body]]:
        request = self._requests.get(text(body, "do"))
        if request is None:
            raise FrameRefused("it asks for nothing that is known here")
        return request

    def _message(self, body: Body) -> Message:
        name = text(body, "name")
        shape = self._shapes.get(name)
        if shape is None:
            raise FrameRefused("its message has an unknown name")
        value = unpacked(self._converter, body, "value", shape)
        return self._addressed(body, name, value)

    def _addressed(self, body: Body, name: str, value: Any = None) -> Message:
        if not (workflow_id := text(body, "workflowId")):
            raise FrameRefused("it names no workflow")
        return Message(workflow_id, name, value, text(body, "source"), number(body, "number"), seconds(body, "dueFor"))

    async def _deliver(self, body: Body) -> Body:
        return {"answer": await self._lead.deliver(self._message(body))}

    async def _start(self, body: Body) -> Body:
        shape = _STARTS.get(shape_of(body, "start"))
        if shape is None:
            raise FrameRefused("its start names no type of a start")
        start = unpacked(self._converter, body, "start", shape)
        return {"answer": await self._lead.start(start, self._message(body))}

    async def _update(self, body: Body) -> Body:
        return self._replied(await self._lead.update(self._message(body), object))

    async def _query(self, body: Body) -> Body:
        return self._replied(await self._lead.query(self._addressed(body, text(body, "name")), object))

    async def _lead_of(self, body: Body) -> Body:
        return {"answer": await self._lead.lead(self._addressed(body, "").workflow_id)}

    async def _leads(self, body: Body) -> Body:
        known = text(body, "known")
        try:
            async with asyncio.timeout(self._limits.poll):
                found = await self._lead.leads(known)
        except TimeoutError:
            return {"version": known}
        pods = {one: [lead.by_worker, lead.epoch] for one, lead in found.pods.items()}
        name = {"nameTaken": found.name_taken, "nameUnsure": found.name_unsure}
        return {"version": found.version, "pods": pods, "settled": found.is_settled, **name}

    def _replied(self, reply: Reply) -> Body:
        said: dict[str, Any] = {"answer": reply.answer}
        if reply.refusal is not None:
            said["refusal"] = {"reason": reply.refusal.reason, "message": reply.refusal.message}
        elif reply.value is not None:
            said["value"] = packed(self._converter, reply.value)
        return said


def _refusal(refused: FrameRefused) -> Body:
    return {"error": f"the request is refused: {refused}"}


def _framed(answer: Body) -> bytes:
    """Return the bytes of an answer, or of what is wrong with it."""
    try:
        return frame(answer)
    except FrameRefused as refused:
        return frame({"error": f"the answer is refused: {refused}"})
