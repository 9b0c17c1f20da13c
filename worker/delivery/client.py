"""Asks the worker through its socket (`server.py`): used by the poller and the commands.

The other side is bounded in bytes and time. Whatever goes wrong is `LeadUnavailable`.
"""

import asyncio
import contextlib
import os
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from temporalio.converter import PayloadConverter

from proto.temporal.node import NodeStart
from proto.temporal.operator import Rejection
from proto.temporal.pod import PodStart
from worker.delivery.frames import Body, FrameRefused, frame, packed, read_frame, text, unpacked
from worker.delivery.lead import Answer, Lead, Leads, LeadUnavailable, Message, PodLead, Reply
from worker.delivery.server import ANSWER_WITHIN, PATIENCE, POLL
from worker.endpoints.unix_sockets import connected, peer_uid

AT_ONCE: Final = 8
"""Concurrent requests of one process, of those that the server takes."""
_LONGEST_ERROR: Final = 300


class SocketLead(Lead):
    """The worker, asked through its socket."""

    def __init__(
        self, path: Path, converter: PayloadConverter, *, within: timedelta = ANSWER_WITHIN + 2 * PATIENCE
    ) -> None:
        self._path, self._converter, self._within = path, converter, within.total_seconds()
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def deliver(self, message: Message) -> Answer:
        """Tell the worker a signal."""
        return _answer(await self._ask({"do": "deliver", **self._said(message)}))

    async def start(self, start: PodStart | NodeStart, said: Message) -> Answer:
        """Ask the worker to start a pod."""
        packet = self._packed(start)
        return _answer(await self._ask({"do": "start", "start": packet, **self._said(said)}))

    async def update(self, asked: Message, answer: type) -> Reply:
        """Pass on an operator's request."""
        return self._reply(await self._ask({"do": "update", **self._said(asked)}), answer)

    async def query(self, asked: Message, answer: type) -> Reply:
        """Ask a pod that the worker leads."""
        body = {"do": "query", "workflowId": asked.workflow_id, "name": asked.name}
        return self._reply(await self._ask(body), answer)

    async def lead(self, workflow_id: str) -> Answer:
        """Ask who leads a pod."""
        return _answer(await self._ask({"do": "lead", "workflowId": workflow_id}))

    async def leads(self, known: str) -> Leads:
        """Wait for a change; returns also without one, after a while."""
        found = await self._exchange({"do": "leads", "known": known}, self._within + POLL.total_seconds())
        try:
            pods = {str(one): PodLead(bool(by), int(epoch)) for one, (by, epoch) in found.get("pods", {}).items()}
            taken, unsure = (found.get(one) is True for one in ("nameTaken", "nameUnsure"))
            return Leads(text(found, "version"), pods, taken, unsure, found.get("settled") is not False)
        except (FrameRefused, AttributeError, TypeError, ValueError):
            raise LeadUnavailable("the worker's answer cannot be read") from None

    async def _ask(self, body: Body) -> Body:
        async with self._turns:
            return await self._exchange(body, self._within)

    async def _exchange(self, body: Body, within: float) -> Body:
        try:
            asked = frame(body)
            async with asyncio.timeout(within):
                reader, writer = await connected(self._path)
                try:
                    if peer_uid(writer) not in {0, os.geteuid()}:
                        raise LeadUnavailable(f"{self._path} belongs to somebody else")
                    writer.write(asked)
                    await writer.drain()
                    answer = await read_frame(reader)
                finally:
                    with contextlib.suppress(OSError):
                        writer.transport.abort()
        except TimeoutError:
            raise LeadUnavailable(f"the worker does not answer within {within:.0f} s") from None
        except (OSError, EOFError, FrameRefused) as error:
            raise LeadUnavailable(f"the worker does not answer: {error}") from error
        if "error" in answer:
            raise LeadUnavailable(str(answer["error"])[:_LONGEST_ERROR])
        return answer

    def _said(self, message: Message) -> dict[str, Any]:
        return {
            "workflowId": message.workflow_id,
            "name": message.name,
            "value": self._packed(message.value),
            "source": message.source,
            "number": message.number,
            "dueFor": message.due_for,
        }

    def _packed(self, value: Any) -> Body:
        try:
            return packed(self._converter, value)
        except FrameRefused as refused:
            raise LeadUnavailable(str(refused)) from None

    def _reply(self, body: Body, shape: type) -> Reply:
        answer, refusal, value = _answer(body), body.get("refusal"), None
        try:
            if isinstance(refusal, dict):
                return Reply(answer, refusal=Rejection(str(refusal["reason"]), str(refusal["message"])))
            if "value" in body:
                value = unpacked(self._converter, body, "value", shape)
        except (FrameRefused, KeyError):
            raise LeadUnavailable("the worker's answer cannot be read") from None
        return Reply(answer, value)


def _answer(body: Body) -> Answer:
    try:
        return Answer(body.get("answer", ""))
    except ValueError:
        raise LeadUnavailable("the worker's answer cannot be read") from None
