"""Drives a loop (`workflows/loops/`) in this process: the same activities, limits and retries as under Temporal.

An activity is retried here as Temporal would retry it, and a timer runs by the machine's clock. The history's part is the
journal's: the answer of an action is on disk before the loop gets it.
"""

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NoReturn

from temporalio.api.common.v1 import Payload

from activities.execution.attempt import Cancellation
from activities.execution.in_process import InProcessAttempt
from proto.pod_snapshot import PodSnapshot
from proto.temporal.away import EntryKind, StoryEntry
from proto.temporal.node import NodeStart
from proto.temporal.pod import PodStart
from worker.stand_in.performing import CONVERTER, Activities, Performed, converted, tried
from worker.stand_in.pod_journal import PodJournal
from workflows.decide.actions import Action, Wake
from workflows.decide.node.actions import NodeAction
from workflows.decide.status.status import PodSummary, announced_summary
from workflows.loops.calls import action_type, time_limit

LOOK_AGAIN: Final = timedelta(seconds=10)
"""How long a timer waits at once: so soon it notices that the clock was set forward."""


class NextRun(Exception):
    """The loop has continued as new with this start."""

    def __init__(self, start: Any) -> None:
        super().__init__()
        self.start = start


class Left(Exception):
    """The loop is not driven any more."""


@dataclass(frozen=True, slots=True)
class Targets:
    """Where a loop's messages go: to what a workflow's extern functions call, too (`workflows/extern.py`)."""

    publish: Callable[[PodSnapshot], None]
    settled: Callable[[str, str], None]
    deliver: Callable[[str, str, Any], Awaitable[None]]
    """(workflow id, name, value): takes an activity's signal to whoever leads the pod by then."""
    headers: Callable[[str, str], Mapping[str, Payload]] = lambda _workflow_id, _key: {}
    """(workflow id, key): the headers of an activity."""


@dataclass(slots=True, eq=False)
class InProcessDriver:
    """The driver of one run of a loop; use it from one event loop."""

    workflow_id: str
    run_id: str
    """Distinguishes the runs of a workflow, Temporal's included."""
    activities: Activities
    journal: PodJournal
    targets: Targets
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    logger: "logging.Logger | logging.LoggerAdapter[Any]" = field(default=logging.getLogger(__name__))
    is_frozen: bool = False
    """No action begins."""
    _announced: dict[str, Any] = field(default_factory=dict)
    _kept: tuple[list[Payload], type] | None = None
    _is_left: bool = False
    _performed: dict["asyncio.Task[Any]", Performed] = field(default_factory=dict)
    _sleeping: set["asyncio.Task[Any]"] = field(default_factory=set)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    # --- what the loop asks

    def now(self) -> datetime:
        """Return the machine's time."""
        return self.clock()

    async def perform(self, action: Action | NodeAction) -> Any:
        """Carry out an action, once it may begin; returns its answer or `Failed`, which is in the journal by then."""
        with self._performing(action) as performed:
            await self._until(lambda: not self.is_frozen)
            row, key = action_type(action), action_type(action).key(action)
            if row.at_once is None:
                self._note(EntryKind.SCHEDULED, row.name, key, action)
            attempt = InProcessAttempt(
                name=row.name,
                workflow_id=self.workflow_id,
                key=key,
                asker=(self.run_id, next(self._numbers)),
                limit=time_limit(action),
                heartbeat_timeout=row.heartbeat,
                deliver=self._deliver,
                headers=self.targets.headers(self.workflow_id, key),
            )
            try:
                ended = await tried(performed, attempt, self.activities, self._pause)
            except asyncio.CancelledError:
                if not self._is_left:
                    self._note(EntryKind.CANCELLED, row.name, key)
                raise
            await self.journal.record(ended.entry(self.now()))
            self.targets.settled(self.workflow_id, key)
            return ended.answer

    async def sleep(self, wait: Wake) -> None:
        """Wait until its time has come, or for as long as it seemed to take if the clock is set back meanwhile."""
        left = max(wait.at - self.now(), timedelta(milliseconds=1))
        self._note(EntryKind.WAITED, wait.summary, value=left.total_seconds())
        task = asyncio.current_task()
        assert task is not None
        self._sleeping.add(task)
        try:
            await self._pass(wait.at, left)
        finally:
            self._sleeping.discard(task)

    async def wait(self, condition: Callable[[], bool], until: Wake | None = None) -> None:
        """Wait for a condition; raises Left, also if the caller is cancelled: no operator cancels this run."""
        try:
            if until is None:
                await self._until(condition)
            else:
                left = max(until.at - self.now(), timedelta(milliseconds=1))
                async with asyncio.timeout(left.total_seconds()):
                    await self._until(condition)
        except asyncio.CancelledError:
            raise Left from None

    def notify(self) -> None:
        """Wake whoever waits for a condition."""
        self._changed.set()
        self._changed = asyncio.Event()

    def is_history_long(self, signals: int) -> bool:  # noqa: ARG002 - nothing is replayed here
        """Report False: there is no history."""
        return False

    def continue_as_new(self, start: PodStart | NodeStart) -> NoReturn:
        """Raise NextRun."""
        raise NextRun(start)

    def show(self, card: str) -> None:
        """Do nothing: the Temporal UI does not ask this process."""

    def converted(self, value: Any, kind: type) -> Any:
        """Convert a value by the converter that reads all payloads."""
        return converted(value, kind)

    def publish(self, line: PodSummary, snapshot: Callable[[], PodSnapshot]) -> None:
        """Write the snapshot to the node's cache; what the search attributes would say goes into the story."""
        self.targets.publish(snapshot())
        told = announced_summary(line)
        said = {
            "PodPhase": told.phase,
            "PodReady": str(told.ready),
            "PodReason": told.reason,
            "PodRestarts": told.restarts,
        }
        changed = {name: value for name, value in said.items() if self._announced.get(name) != value}
        if changed:
            self._note(EntryKind.PUBLISHED, value=changed)
        self._announced = said

    def keep(self, state: Callable[[], PodStart | NodeStart], waits: Iterable[Wake], under_way: Iterable[str]) -> None:  # noqa: ARG002 - this driver owes nothing
        """Keep the state: in the journal, and as a copy for a run that begins anew."""
        start = state()
        self._kept = CONVERTER.to_payloads([start]), type(start)
        self.journal.keep(start)
        self.notify()

    # --- what whoever leads asks

    def kept(self) -> Any:
        """Return a copy of the loop's state at its last decision; None before the first."""
        return CONVERTER.from_payloads(self._kept[0], [self._kept[1]])[0] if self._kept else None

    async def decided(self, condition: Callable[[], bool]) -> None:
        """Return once a condition holds that the loop's decisions change; raises Left."""
        await self._until(condition)

    async def freeze(self, within: timedelta, is_recorded: Callable[[], bool]) -> bool:
        """Begin nothing more, and wait for the end of what another driver cannot attach to; False: it goes on, since that did not end.

        `is_recorded`: the loop has recorded everything that has arrived.
        """
        self.is_frozen = True
        try:
            async with asyncio.timeout(within.total_seconds()):
                await self.decided(
                    lambda: is_recorded() and not any(one.must_end() for one in self._performed.values())
                )
        except TimeoutError:
            self.thaw()
            return False
        return True

    def thaw(self) -> None:
        """Let actions begin again."""
        self.is_frozen = False
        self.notify()

    def leave(self) -> None:
        """End all that this driver does for its loop; work that runs goes on, and the next driver's attempts attach to it."""
        self._is_left = True
        for task, performed in list(self._performed.items()):
            if performed.attempt is not None:
                performed.attempt.cancel(Cancellation.NOT_FOUND)
            task.cancel()
        for task in list(self._sleeping):
            task.cancel()
        self.notify()

    # --- parts

    @contextmanager
    def _performing(self, action: Action | NodeAction) -> Iterator[Performed]:
        task = asyncio.current_task()
        if self._is_left or task is None:
            raise asyncio.CancelledError
        performed = self._performed[task] = Performed(action)
        try:
            yield performed
        finally:
            del self._performed[task]
            self.notify()

    async def _pause(self, at_least: timedelta) -> None:
        """Wait until the next try of an action may begin; whoever freezes need not wait for an end of it."""
        self.notify()
        await asyncio.sleep(at_least.total_seconds())
        await self._until(lambda: not self.is_frozen)

    async def _pass(self, at: datetime, left: timedelta) -> None:
        """Let time pass until the clock says `at`, or this long by the monotonic one."""
        loop = asyncio.get_running_loop()
        over = loop.time() + left.total_seconds()
        while (by_clock := at - self.now()) > timedelta() and (rest := over - loop.time()) > 0:  # noqa: ASYNC110 - nothing tells that a clock was set
            await asyncio.sleep(min(rest, by_clock.total_seconds(), LOOK_AGAIN.total_seconds()))

    async def _until(self, condition: Callable[[], bool]) -> None:
        """Return once a condition holds; raises Left."""
        while not self._is_left:
            if condition():
                return
            await self._changed.wait()
        raise Left

    async def _deliver(self, name: str, value: Any) -> None:
        await self.targets.deliver(self.workflow_id, name, value)

    def _note(self, kind: EntryKind, name: str = "", key: str = "", value: Any = None) -> None:
        self.journal.note(StoryEntry(self.now(), kind, name, key, value))
