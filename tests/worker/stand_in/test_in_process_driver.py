"""Does the driver in the process carry out actions, waits and cancellations as Temporal does?"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.execution.attempts import AttachingAttempts
from activities.execution.in_process import InProcessActivities
from activities.execution.present_attempts import PresentAttempts
from activities.execution.running_actions import RunningActions
from activities.execution.unexpected import UnexpectedErrors
from proto.temporal import names
from proto.temporal.activities.requests import PulledImage, PullImage, RemoveContainer, StopContainer
from proto.temporal.away import EntryKind
from proto.temporal.pod import PodKey
from tests.worker.stand_in.world import MemoryJournal, at_once
from worker.stand_in.in_process_driver import InProcessDriver, Left, Targets
from worker.stand_in.pod_journal import MOST_WAITING, WRITTEN_WITHIN, PodJournal
from workflows.decide.actions import Wake
from workflows.loops.calls import retry_of, time_limit
from workflows.loops.driver import Failed

pytestmark = pytest.mark.jumping_clock
NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
POD = PodKey("default", "web", "u")
PULLED = PulledImage("sha256:1")
PULL = PullImage(POD, "busybox:1", "IfNotPresent")
REMOVE = RemoveContainer(POD, "web", "web-1")
STOP = StopContainer(POD, "web", "web-1", timedelta(seconds=1), NOW, "deleted")


@dataclass
class Driven:
    """A driver, and the activity that it calls."""

    failures: list[BaseException] = field(default_factory=list)
    """What the next calls raise."""
    gate: asyncio.Event | None = None
    """Calls wait for it."""
    called_at: list[float] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    """How calls ended that had begun."""
    settled: list[str] = field(default_factory=list)
    journal: MemoryJournal = field(default_factory=MemoryJournal)
    pulls: Any = PULLED
    """What a pull answers."""
    behind: float = 0.0
    """Seconds by which the machine's clock was set back."""

    def __post_init__(self) -> None:
        attaching = AttachingAttempts(RunningActions(), PresentAttempts())
        self.activities = InProcessActivities([self.pull, self.stop, self.remove], [attaching, UnexpectedErrors()])

    def driver(self, run_id: str = "run 1", in_thread: Callable[..., Any] = at_once) -> InProcessDriver:
        """Make a driver."""
        targets = Targets(lambda _: None, lambda _, key: self.settled.append(key), self.nowhere)
        journal = PodJournal(self.journal, "w", None, in_thread=in_thread)
        return InProcessDriver("w", run_id, self.activities, journal, targets, self.clock)

    def clock(self) -> datetime:
        """Return the machine's time."""
        return NOW + timedelta(seconds=asyncio.get_running_loop().time() - self.behind)

    async def nowhere(self, *_: Any) -> None:
        """Take no signal."""

    @activity.defn(name=names.PULL_IMAGE)
    async def pull(self, _: PullImage) -> PulledImage:
        """Pull an image."""
        await self._called()
        return self.pulls  # type: ignore[no-any-return]  # the type is what is tested

    @activity.defn(name=names.STOP_CONTAINER)
    async def stop(self, _: StopContainer) -> None:
        """Stop a container."""
        await self._called()

    @activity.defn(name=names.REMOVE_CONTAINER)
    async def remove(self, _: RemoveContainer) -> None:
        """Remove a container."""
        await self._called()

    async def _called(self) -> None:
        self.called_at.append(asyncio.get_running_loop().time())
        if self.failures:
            raise self.failures.pop(0)
        if self.gate:
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                self.ended.append("cancelled")
                raise
        self.ended.append("done")

    def told(self) -> list[EntryKind]:
        """Return the kinds of entries in the journal."""
        return [one.kind for one in self.journal.stories]


def retryable() -> ApplicationError:
    """Build a failure that is retried."""
    return ApplicationError("no container runtime answers", type="RuntimeUnavailable")


async def rested() -> None:
    """Let everything run that can."""
    await asyncio.sleep(0.001)


async def test_it_retries_as_its_row_says() -> None:
    """The delays grow by the factor up to the longest; the answer is in the journal, with the number of tries."""
    driven = Driven(failures=[retryable() for _ in range(8)])
    assert await driven.driver().perform(PULL) == PulledImage("sha256:1")
    retry = retry_of(PULL)
    expected = [min(retry.initial * retry.factor**number, retry.longest).total_seconds() for number in range(8)]
    pauses = [after - before for before, after in zip(driven.called_at, driven.called_at[1:], strict=False)]
    assert pauses == pytest.approx(expected)
    assert driven.told() == [EntryKind.SCHEDULED, EntryKind.COMPLETED]
    last = driven.journal.stories[-1]
    assert (last.attempts, last.last_failure) == (9, "RuntimeUnavailable: no container runtime answers")
    assert driven.settled == [last.key]


@pytest.mark.parametrize(
    ("error", "failed"),
    [
        pytest.param(
            ApplicationError("not found", type="ErrImagePull", non_retryable=True),
            Failed("ErrImagePull", "not found"),
            id="a-failure-for-the-workflow",
        ),
        pytest.param(
            ValueError("no such thing"),
            Failed("UnexpectedError", "a defect of tempolet, please report it: ValueError: no such thing"),
            id="a-defect",
        ),
    ],
)
async def test_other_failures_are_facts(error: BaseException, failed: Failed) -> None:
    """They have their reason and message, and are in the journal."""
    driven = Driven(failures=[error])
    assert await driven.driver().perform(PULL) == failed
    last = driven.journal.stories[-1]
    assert (last.kind, last.reason, last.message) == (EntryKind.FAILED, failed.reason, failed.message)


async def test_it_has_the_limit_of_its_row() -> None:
    """An activity that hangs is a failure, which the loop judges; its work goes on."""
    driven = Driven(gate=asyncio.Event())
    before = asyncio.get_running_loop().time()
    answer = await driven.driver().perform(PULL)
    assert answer.reason == "StepTimedOut"
    assert asyncio.get_running_loop().time() - before <= time_limit(PULL).total_seconds()
    assert not driven.ended


async def test_what_the_loop_cancels_ends() -> None:
    """At once for the loop, and the work with it."""
    driven = Driven(gate=asyncio.Event())
    performing = asyncio.create_task(driven.driver().perform(PULL))
    await rested()
    performing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await performing
    await rested()
    assert driven.ended == ["cancelled"]
    assert driven.told()[-1] is EntryKind.CANCELLED


async def test_the_next_driver_attaches_to_what_runs() -> None:
    """A driver that leaves ends only its own part."""
    driven = Driven(gate=asyncio.Event())
    assert driven.gate
    first = driven.driver()
    performing = asyncio.create_task(first.perform(PULL))
    await rested()
    first.leave()
    with pytest.raises(asyncio.CancelledError):
        await performing
    again = asyncio.create_task(driven.driver("run 2").perform(PULL))
    await rested()
    driven.gate.set()
    assert await again == PulledImage("sha256:1")
    assert (driven.ended, len(driven.called_at)) == (["done"], 1)


async def test_a_driver_that_is_left_begins_nothing() -> None:
    """An action of a task that had not run yet."""
    driven = Driven()
    driver = driven.driver()
    performing = asyncio.create_task(driver.perform(PULL))
    driver.leave()
    with pytest.raises(asyncio.CancelledError):
        await performing
    assert not driven.called_at
    with pytest.raises(Left):
        await driver.wait(lambda: False)


async def test_an_answer_of_another_type_is_a_failure() -> None:
    """As it is under Temporal, where it fails no workflow task."""
    driven = Driven(pulls=17)
    assert (await driven.driver().perform(PULL)).reason == "AnswerRefused"
    assert driven.told()[-1] is EntryKind.FAILED


# --- freezing


async def test_frozen_it_begins_nothing_and_waits_for_what_changes_something() -> None:
    """An action under way ends first; one that is decided then begins after the thaw."""
    driven = Driven(gate=asyncio.Event(), failures=[])
    assert driven.gate
    driver = driven.driver()
    stop = asyncio.create_task(driver.perform(STOP))
    await rested()
    assert await driver.freeze(timedelta(seconds=1), lambda: True), "a stop may last an hour: another driver attaches"
    pull = asyncio.create_task(driver.perform(PULL))
    await asyncio.sleep(60)
    assert len(driven.called_at) == 1
    driver.thaw()
    driven.gate.set()
    await asyncio.gather(stop, pull)
    assert len(driven.called_at) == 2


async def test_a_retry_does_not_begin_while_frozen() -> None:
    """So an action whose runtime is away does not keep a pod from being handed back."""
    driven = Driven(failures=[retryable() for _ in range(3)])
    driver = driven.driver()
    remove = asyncio.create_task(driver.perform(REMOVE))
    await rested()
    assert await driver.freeze(timedelta(minutes=1), lambda: True)
    await asyncio.sleep(60)
    assert len(driven.called_at) == 1
    driver.thaw()
    assert await remove is None


# --- time


@pytest.mark.parametrize(
    ("behind", "lasts"),
    [
        pytest.param(0, (60, 60), id="the-clock-is-not-touched"),
        pytest.param(3600, (60, 60), id="set-back-by-an-hour-it-lasts-no-longer"),
        pytest.param(-3600, (0, 15), id="set-forward-by-an-hour-it-is-over-soon"),
    ],
)
async def test_a_wait_whose_clock_is_set(behind: float, lasts: tuple[float, float]) -> None:
    """It is set after five seconds."""
    driven, loop = Driven(), asyncio.get_running_loop()
    before = loop.time()
    sleeping = asyncio.create_task(driven.driver().sleep(Wake(driven.clock() + timedelta(seconds=60), "back-off")))
    await asyncio.sleep(5)
    driven.behind = behind
    await sleeping
    assert lasts[0] <= loop.time() - before + 1e-6
    assert loop.time() - before <= lasts[1] + 1e-6
    assert (driven.journal.stories[0].name, driven.journal.stories[0].value) == ("back-off", 60.0)


async def test_a_condition_with_a_limit() -> None:
    """Behaviours before TIMER_PER_WAIT have one timer."""
    driven = Driven()
    driver = driven.driver()
    with pytest.raises(TimeoutError):
        await driver.wait(lambda: False, until=Wake(driven.clock() + timedelta(seconds=3), ""))
    true: list[bool] = []
    waiting = asyncio.create_task(driver.wait(lambda: bool(true), until=Wake(driven.clock() + timedelta(hours=1), "")))
    await rested()
    true.append(True)
    driver.notify()
    await waiting


# --- the journal


async def test_an_answer_is_on_disk_before_the_loop_has_it() -> None:
    """Also when several actions end at once."""
    driven = Driven()
    driver = driven.driver()
    await asyncio.gather(driver.perform(PULL), driver.perform(STOP))
    assert sorted(driven.told()) == sorted([EntryKind.SCHEDULED, EntryKind.COMPLETED] * 2)
    assert driven.journal.synced[-1], "the last one of a batch puts the others on disk, too"


async def test_a_full_disk_stops_nothing() -> None:
    """The entries are missing."""
    driven = Driven(journal=MemoryJournal(refuses=True))
    assert await driven.driver().perform(PULL) == PulledImage("sha256:1")
    assert not driven.told()


async def test_a_disk_that_hangs_is_waited_for_once() -> None:
    """Later answers do not wait, until it answers again."""
    gate = asyncio.Event()

    async def hanging(function: Callable[..., Any], *arguments: Any) -> Any:
        await gate.wait()
        return function(*arguments)

    driven, loop = Driven(), asyncio.get_running_loop()
    driver, before = driven.driver(in_thread=hanging), loop.time()
    for _ in range(3):
        assert await driver.perform(PULL) == PulledImage("sha256:1")
    assert loop.time() - before == pytest.approx(WRITTEN_WITHIN.total_seconds(), abs=0.5)
    gate.set()
    await rested()
    assert len(driven.told()) == 6


async def test_a_disk_that_hangs_does_not_fill_the_memory() -> None:
    """Beyond a number entries are left out."""
    gate = asyncio.Event()

    async def hanging(function: Callable[..., Any], *arguments: Any) -> Any:
        await gate.wait()
        return function(*arguments)

    driven = Driven()
    driver = driven.driver(in_thread=hanging)
    for _ in range(MOST_WAITING):
        await driver.perform(PULL)
    gate.set()
    await rested()
    assert len(driven.told()) <= MOST_WAITING + 2
