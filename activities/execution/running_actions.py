"""The registry of the actions that run in this process: attempts of one action share one run of it.

Temporal may begin an attempt while an earlier one still runs here: after an outage of its own, after a worker was
suspended, after continue-as-new or a reset. The new attempt then attaches to the work that runs, or gets the answer that
no run has had yet. README.md in this folder says how long an answer is kept, and why.

Use it from one event loop, except `received`, `state_kept` and `settled`.
"""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final

from temporalio.exceptions import ApplicationError

UNHEARD_SECONDS: Final = 24 * 3600.0
"""How long work goes on, and an answer is kept, while no attempt asks for it: longer than any outage that pods survive."""
ANSWERS: Final = 4096
"""Kept answers. A node has far fewer actions under way at once."""

Subject = tuple[str, str]
"""A workflow's id and the key of an action."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What one attempt asks for."""

    workflow_id: str
    key: str
    """The action's key: at most one action of a workflow has it at a time."""
    instance: Hashable
    """Distinguishes pieces of work with one key: the request, without what may differ between two runs of a workflow."""
    asker: tuple[str, Hashable]
    """The run, and what distinguishes its actions with one key. Attempts of one action have the same."""
    keeps: bool = True
    """False: the answer is a state that may have changed since, so it is looked up again instead of kept."""

    @property
    def subject(self) -> Subject:
        """Return what the registry finds it by."""
        return self.workflow_id, self.key


class Work:
    """One run of an action; any number of attempts wait for it."""

    def __init__(self, asked: Asked, earlier: Any = None) -> None:
        self.asked = asked
        """By the newest attempt."""
        self.details = self.earlier = earlier
        """What its heartbeats say; None: nothing yet. `earlier` is from the try before, if that was in this process."""
        self.listeners: list[Callable[[], None]] = []
        """Called when the details are to be sent at once."""
        self.unheard_since = monotonic()
        self.is_answered = False
        """An attempt has ended with its end."""
        self.received_by: set[str] = set()
        """The runs that have its answer, while no state that was kept is known to have it."""
        self.task: asyncio.Task[Any]

    def is_final(self) -> bool:
        """Report whether it has ended with an answer, or a failure that Temporal does not retry."""
        if not self.task.done() or self.task.cancelled():
            return False
        error = self.task.exception()
        return error is None or (isinstance(error, ApplicationError) and error.non_retryable)

    def answers(self, asked: Asked) -> bool:
        """Report whether an attempt may have this work's answer.

        A run that asks again, in another action, has folded the first one's answer.
        """
        if self.asked.instance != asked.instance:
            return False
        if not self.task.done():
            return True
        is_new = self.asked.asker[0] == asked.asker[0] and self.asked.asker != asked.asker
        return asked.keeps and self.is_final() and not is_new


class RunningActions:
    """The works of this process, by workflow and key."""

    def __init__(self) -> None:
        self._works: dict[Subject, Work] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    async def attend(
        self, asked: Asked, begin: Callable[[], Coroutine[Any, Any, Any]], listen: Callable[[Work], Callable[[], None]]
    ) -> Any:
        """Return or raise what the action does; `begin` runs it unless it runs already.

        `listen` is given the work, and returns what sends its details. A cancelled caller leaves the work running. Work
        with the same key for something else is cancelled first: two actions with one key never run side by side.
        """
        self._loop = asyncio.get_running_loop()
        self._sweep()
        work = await self._work_for(asked, begin)
        work.asked = asked
        send = listen(work)
        work.listeners.append(send)
        try:
            return await asyncio.shield(work.task)
        finally:
            work.is_answered = work.task.done()
            work.listeners.remove(send)
            work.unheard_since = monotonic()

    async def _work_for(self, asked: Asked, begin: Callable[[], Coroutine[Any, Any, Any]]) -> Work:
        while (work := self._works.get(asked.subject)) is not None and not work.answers(asked):
            if work.task.done():
                break
            await end(work)
        else:
            if work is not None:
                return work
        same = work is not None and work.asked.instance == asked.instance and work.asked.asker == asked.asker
        new = Work(asked, work.details if work and same else None)
        context = copy_context()
        context.run(_current.set, new)
        new.task = asyncio.create_task(begin(), name=f"{asked.key} of {asked.workflow_id}", context=context)
        new.task.add_done_callback(_read)
        self._works[asked.subject] = new
        return new

    async def give_up(self, asked: Asked) -> None:
        """Cancel the work that this attempt asked for, unless a newer attempt has asked for it; wait for its end."""
        work = self._works.get(asked.subject)
        if work is not None and work.asked is asked:
            await end(work)
            if self._works.get(asked.subject) is work:
                del self._works[asked.subject]

    def received(self, workflow_id: str, run_id: str, key: str) -> None:
        """Note that a run has an answer: it is in the history. May be called in any thread."""
        self._soon(self._receive, (workflow_id, key), run_id)

    def state_kept(self, workflow_id: str, run_id: str) -> None:
        """Drop the answers that a run has received: whoever leads on has them. May be called in any thread."""
        self._soon(self._drop_received, workflow_id, run_id)

    def settled(self, workflow_id: str, key: str) -> None:
        """Drop a kept answer: whoever leads on has it. May be called in any thread."""
        self._soon(self._drop, (workflow_id, key))

    def unsettled(self) -> list[Subject]:
        """Return the answers that attempts have given, and that no history is known to have."""
        works = self._works.values()
        return [one.asked.subject for one in works if one.is_answered and one.is_final() and not one.received_by]

    def details(self, workflow_id: str, key: str) -> Any:
        """Return what the work of an action says of itself; None if there is none."""
        work = self._works.get((workflow_id, key))
        return None if work is None else work.details

    def _soon(self, change: Callable[..., None], *about: Any) -> None:
        """Call it on the event loop, in the order of the calls, and before the loop hears of what the caller does next."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(change, *about)

    def _receive(self, subject: Subject, run_id: str) -> None:
        work = self._works.get(subject)
        if work is not None and work.task.done():
            work.received_by.add(run_id)

    def _drop_received(self, workflow_id: str, run_id: str) -> None:
        for subject, work in list(self._works.items()):
            if subject[0] == workflow_id and run_id in work.received_by:
                del self._works[subject]

    def _drop(self, subject: Subject) -> None:
        work = self._works.get(subject)
        if work is not None and work.task.done():
            del self._works[subject]

    def _sweep(self) -> None:
        """End what nobody has asked for in a day, and drop the oldest answers beyond the limit."""
        unheard = sorted((one for one in self._works.values() if not one.listeners), key=lambda one: one.unheard_since)
        too_many = len(unheard) - ANSWERS
        for number, work in enumerate(unheard):
            if work.unheard_since > monotonic() - UNHEARD_SECONDS and number >= too_many:
                break
            if not work.task.done():
                work.task.cancel()
            del self._works[work.asked.subject]

    def __len__(self) -> int:
        return len(self._works)


async def end(work: Work) -> None:
    """Cancel a work and wait until it has ended; how does not matter."""
    work.task.cancel()
    await asyncio.wait([work.task])


def current_work() -> Work | None:
    """Return the work that the caller is part of; None outside the registry: in tests, and for reads."""
    return _current.get()


def _read(task: asyncio.Task[Any]) -> None:
    """Read a task's error, so that asyncio does not log one that no attempt waits for."""
    if not task.cancelled():
        task.exception()


_current: Final[ContextVar[Work | None]] = ContextVar("work", default=None)
