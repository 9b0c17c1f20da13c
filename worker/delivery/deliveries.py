"""Delivers each message of one process to whoever leads its pod: Temporal first, or the worker.

Used by the poller, the worker's own loops and the commands. The caller makes the call to Temporal and repeats what fails; here is
decided whom it is told, by `side.py`. A message may reach both sides: its number tells them that it is one.

After each change of a pod's lead its senders tell everything anew (`on_change`): what one side was told, the other may not know.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace
from datetime import timedelta
from time import monotonic
from typing import Any, Final, TypeVar

import structlog

from worker.delivery.lead import Answer, Lead, Leads, LeadUnavailable, Message, NameTaken, Reply
from worker.delivery.side import NOTHING_SEEN, Seen, Side, Step, Temporal, Worker, changed, next_step

PATIENCE: Final = timedelta(seconds=5)
"""How long Temporal may take before the worker is told."""
SURE_WITHIN: Final = timedelta(seconds=10)
"""How long a call waits until it is known whose this node's name is: as long as a call to Temporal may take."""
ASK_AGAIN: Final = timedelta(seconds=2)
"""Until the worker is asked again for the leads, if it did not answer."""

_log: Final = structlog.get_logger(__name__)
Taken = TypeVar("Taken")
Ask = Callable[[Message], Awaitable[Answer]]
Changed = Callable[[Collection[str]], None]
"""Called with workflow ids."""


class Deliveries:
    """The messages of one process; used from one event loop."""

    def __init__(self, lead: Lead, is_away: Callable[[Exception], bool], *, patience: timedelta | None = None) -> None:
        """Take the worker, and which errors of a call mean that Temporal is unavailable."""
        self.lead, self._is_away = lead, is_away
        self._patience = (PATIENCE if patience is None else patience).total_seconds()
        self._seen: Seen = NOTHING_SEEN
        self._version = ""
        self._sides: dict[str, Side] = {}
        """By workflow id, where the worker leads."""
        self._due_since: dict[str, float] = {}
        """By workflow id: since when Temporal has not taken a message, in seconds of the monotonic clock."""
        self._name_taken = self._name_unsure = False
        self._name_told = asyncio.Event()
        self._settled = asyncio.Event()
        """The worker has compared what Temporal has with what the node has."""
        self._turned = asyncio.Event()
        self._listeners: list[Changed] = []

    def on_change(self, tell_anew: Changed) -> None:
        """Call this for the pods whose lead has changed: what was told of them is told anew."""
        self._listeners.append(tell_anew)

    @property
    def led_by_worker(self) -> frozenset[str]:
        """The workflow ids of the pods that the worker leads."""
        return frozenset(self._sides)

    @property
    def is_settled(self) -> bool:
        """Whether it is known which pods the worker leads, of all that this node has."""
        return self._settled.is_set()

    async def settled(self, within: float) -> bool:
        """Wait until that is known, or for so many seconds; returns whether it is."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._settled.wait()
        return self.is_settled

    async def send(
        self, message: Message, call: Callable[[], Awaitable[Taken]], *, taken: Taken, ask: Ask | None = None
    ) -> Taken:
        """Send a message by `call` to Temporal, or by `ask` (by default `Lead.deliver`) to the worker, which gives `taken`.

        Raises what the call raises, LeadUnavailable, or NameTaken.
        """
        asking, calling = ask or self.lead.deliver, None
        workflow_id, begun = message.workflow_id, monotonic()
        self._due_since.setdefault(workflow_id, begun)
        temporal, worker, asked_on = Temporal.NOT_CALLED, Worker.NOT_ASKED, Side.TEMPORAL
        silence: LeadUnavailable | None = None
        try:
            while True:
                side = self._sides.get(workflow_id, Side.TEMPORAL)
                if (worker, asked_on, side) == (Worker.NOT_TAKEN, Side.TEMPORAL, Side.WORKER):
                    worker = Worker.NOT_ASKED  # it has taken the lead since
                step, after = next_step(side, temporal, worker)
                self._turn(workflow_id, after)
                match step:
                    case Step.CALL_TEMPORAL:
                        calling, temporal = asyncio.ensure_future(self._called(call)), Temporal.PENDING
                    case Step.AWAIT_TEMPORAL:
                        assert calling is not None
                        left = self._patience - (monotonic() - begun) if temporal is Temporal.PENDING else None
                        await self._wait(calling, left)
                        temporal = self._state_of(calling, is_slow=monotonic() - begun >= self._patience)
                    case Step.ASK_WORKER:
                        asked_on = side
                        worker, silence = await self._asked(asking, message, begun)
                    case Step.DONE:
                        self._due_since.pop(workflow_id, None)
                        return calling.result() if calling and temporal is Temporal.ANSWERED else taken
                    case Step.FAIL:
                        raise (calling.exception() if calling and calling.done() else silence) or LeadUnavailable
        finally:
            if calling is not None:
                await _ended(calling)

    async def ask(
        self, message: Message, call: Callable[[], Awaitable[Taken]], request: Callable[[Message], Awaitable[Reply]]
    ) -> Taken | Reply:
        """Send a message as `send` does; returns what the call returns, or the worker's reply if it has taken the message."""
        replies = list[Reply]()

        async def answer_of(said: Message) -> Answer:
            replies.append(await request(said))
            return replies[-1].answer

        taken = await self.send(message, call, taken=None, ask=answer_of)
        if replies and replies[-1].answer is Answer.TAKEN:
            return replies[-1]
        return taken  # type: ignore[return-value]  # None only if the worker has taken it

    async def require_name(self) -> None:
        """Wait until it is known whose this node's name is; raises NameTaken if it is not ours, or not known in time."""
        if not (self._name_taken or self._name_unsure):
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SURE_WITHIN.total_seconds()):
                while self._name_unsure and not self._name_taken:
                    await self._name_told.wait()
        if self._name_taken:
            raise NameTaken("another machine has this node's name; the log of this node's worker says which")
        if self._name_unsure:
            raise NameTaken("Temporal has not answered whether another machine has this node's name")

    async def follow(self) -> None:
        """Follow the leads until cancelled."""
        while True:
            try:
                self.take(await self.lead.leads(self._version))
            except LeadUnavailable as error:
                _log.debug("the worker does not say which pods it leads", err=str(error))
                self._settled.clear()
                self._version = ""  # all of the next answer is news
                await asyncio.sleep(ASK_AGAIN.total_seconds())

    def take(self, leads: Leads) -> None:
        """Take who leads which pod, and have everything told anew to the pods whose lead has changed."""
        if leads.version == self._version:
            return
        turned, self._version = changed(self._seen, leads), leads.version
        self._name_taken, self._name_unsure = leads.name_taken, leads.name_unsure
        self._name_told.set()
        self._name_told = asyncio.Event()
        self._seen = Seen(leads.pods)
        (self._settled.set if leads.is_settled else self._settled.clear)()
        self._sides = {one: Side.WORKER for one, lead in leads.pods.items() if lead.by_worker}
        self._due_since = {one: since for one, since in self._due_since.items() if one not in turned}
        if turned:
            _log.info("the lead of pods has changed", pods=len(turned), led_by_worker=len(self._sides))
            self._turned.set()
            self._turned = asyncio.Event()
        for tell_anew in self._listeners if turned else ():
            try:
                tell_anew(turned)
            except Exception as error:  # noqa: BLE001 - the other senders must tell theirs
                _log.error("could not tell pods anew", err=f"{type(error).__name__}: {error}"[:200])

    def _turn(self, workflow_id: str, side: Side) -> None:
        if side is Side.WORKER:
            self._sides[workflow_id] = side
        else:
            self._sides.pop(workflow_id, None)

    async def _called(self, call: Callable[[], Awaitable[Taken]]) -> Taken:
        await self.require_name()
        return await call()

    async def _asked(self, ask: Ask, message: Message, begun: float) -> tuple[Worker, LeadUnavailable | None]:
        due_since = min(begun, self._due_since.get(message.workflow_id, begun))
        try:
            answer = await ask(replace(message, due_for=monotonic() - due_since))
        except LeadUnavailable as error:
            return Worker.SILENT, error
        except Exception as error:  # noqa: BLE001 - a defect of the lead, in this process, ends no sender
            _log.exception("the lead of a pod failed to take a message", workflow=message.workflow_id)
            return Worker.SILENT, LeadUnavailable(type(error).__name__)
        return (Worker.TAKEN if answer is Answer.TAKEN else Worker.NOT_TAKEN), None

    async def _wait(self, calling: "asyncio.Future[Taken]", seconds: float | None) -> None:
        """Wait for the call, for a change of leads, or for so long."""
        turned = asyncio.ensure_future(self._turned.wait())
        either: set[asyncio.Future[Any]] = {calling, turned}
        try:
            left = None if seconds is None else max(0.0, seconds)
            await asyncio.wait(either, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        finally:
            turned.cancel()

    def _state_of(self, calling: "asyncio.Future[Taken]", *, is_slow: bool) -> Temporal:
        if not calling.done():
            return Temporal.SLOW if is_slow else Temporal.PENDING
        error = calling.exception()
        is_away = isinstance(error, NameTaken) or (isinstance(error, Exception) and self._is_away(error))
        return Temporal.AWAY if is_away else Temporal.ANSWERED


async def _ended(calling: "asyncio.Future[Taken]") -> None:
    """Cancel a call that the worker's answer has made superfluous; what it raises is nobody's any more."""
    if not calling.done():
        calling.cancel()
        await asyncio.wait({calling})
    if not calling.cancelled():
        calling.exception()
