"""Does a pod's loop take the pod back before it decides anything else, and lose nothing that arrives meanwhile?"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, NoReturn

import pytest

from proto.temporal import names
from proto.temporal.activities.requests import PodSandbox, RunPodSandbox
from proto.temporal.away import HandedBack, WhileAway
from proto.temporal.operator import SentenceKind, SkipBackoff
from proto.temporal.pod import Lifecycle, Observed, PodKey, PodOutcome, PodStart
from proto.temporal.pod_inputs import CarriedAction
from proto.temporal.signals import DeletionRequested, PodListed
from proto.temporal.ticket import Ticket
from tests.patience import PATIENCE
from tests.workflows.decide.situations import NOW, at, pod
from workflows.decide.actions import Action, Wake
from workflows.decide.record.hand_back import LONGEST, REFUSAL
from workflows.decide.versions import CURRENT
from workflows.loops.pod_loop import PodLoop

START = PodStart("node", pod(), behaviour=CURRENT, ticket=Ticket("life", 2))
SEEN = Observed(started_at=NOW, runtime_stale=True, heard={"file": 5})
HANDED = HandedBack(3, at(0), at(130), SEEN, pod(), entries=7)
STORY = WhileAway(3, 0)
GOING = DeletionRequested("file", "ManifestRemoved", sequence=6)


class ContinuedAsNew(Exception):
    """The run has ended with the input of the next one."""

    def __init__(self, start: PodStart) -> None:
        super().__init__()
        self.start = start


class RunStopped(Exception):
    """The test is over; a loop ignores that its task is cancelled."""


@dataclass
class IdleDriver:
    """Begins everything and ends nothing."""

    logger: logging.Logger = field(default_factory=lambda: logging.getLogger(__name__))
    time: datetime = NOW
    performed: list[Action] = field(default_factory=list)
    waits: list[Wake] = field(default_factory=list)
    published: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    stopped: bool = False
    over: asyncio.Event = field(default_factory=asyncio.Event)
    """The limit of a wait has passed."""

    def now(self) -> datetime:
        """Return the time."""
        return self.time

    async def perform(self, action: Any) -> Any:
        """Begin an action."""
        self.performed.append(action)
        await asyncio.Event().wait()

    async def sleep(self, _: Wake) -> None:
        """Wait without end."""
        await asyncio.Event().wait()

    async def wait(self, condition: Callable[[], bool], until: Wake | None = None) -> None:
        """Wait for a condition; the test decides when the limit has passed."""
        if until:
            self.waits.append(until)
        while not condition():
            self.changed.clear()
            await self.changed.wait()
            if self.stopped:
                raise RunStopped
            if until and self.over.is_set():
                raise TimeoutError

    def notify(self) -> None:
        """Wake the wait."""
        self.changed.set()

    def is_history_long(self, signals: int) -> bool:
        """Say that it is not, so that only a hand-back ends the run."""
        return signals < 0

    def continue_as_new(self, start: Any) -> NoReturn:
        """End the run."""
        raise ContinuedAsNew(start)

    def show(self, card: str) -> None:
        """Show nothing."""

    def keep(self, state: Callable[[], Any], waits: Iterable[Wake], under_way: Iterable[str]) -> None:
        """Keep nothing."""

    def converted(self, value: Any, kind: type) -> Any:
        """Return the value."""
        assert isinstance(value, kind)
        return value

    def publish(self, *_: Any) -> None:
        """Count."""
        self.published += 1


@dataclass
class Run:
    """One run of the loop, as far as the test lets it go."""

    start: PodStart = START
    driver: IdleDriver = field(default_factory=IdleDriver)
    loop: PodLoop = field(init=False)
    task: "asyncio.Task[PodOutcome]" = field(init=False)

    def __post_init__(self) -> None:
        self.loop = PodLoop(self.start, self.driver)
        RUNS.append(self)

    async def begin(self, *arrivals: Any) -> "Run":
        """Start the run with what has arrived before its first step."""
        self.arrive(*arrivals)
        self.task = asyncio.create_task(self.loop.run())
        await self.settled()
        return self

    def arrive(self, *arrivals: Any) -> None:
        """Let copies of these arrive at once; the loop changes what it is handed."""
        for one in arrivals:
            self.loop.queue(deepcopy(one))

    async def settled(self) -> None:
        """Let the loop run until it waits."""
        for _ in range(10):
            await asyncio.sleep(0)

    async def next_start(self) -> PodStart:
        """Return the input of the next run."""
        with pytest.raises(ContinuedAsNew) as ended:
            await asyncio.wait_for(self.task, PATIENCE)
        return ended.value.start


RUNS: list[Run] = []


@pytest.fixture(autouse=True)
async def stopped() -> AsyncIterator[None]:
    """Stop the runs that a test leaves."""
    yield
    for run in RUNS:
        run.driver.stopped = True
        run.driver.notify()
        with contextlib.suppress(RunStopped, ContinuedAsNew):
            await run.task
    RUNS.clear()


async def test_the_next_run_begins_with_what_is_handed_back() -> None:
    """Its epoch is that of the hand-back; no entry of the story is in its input."""
    run = await Run().begin()
    begun = len(run.driver.performed)
    assert begun
    carried = (CarriedAction(names.RUN_POD_SANDBOX, {}),)
    run.arrive(replace(HANDED, under_way=carried))
    start = await run.next_start()
    assert (start.ticket, start.observed, start.under_way) == (Ticket("life", 3), SEEN, carried)
    assert start.handed_back
    assert (start.handed_back.until, start.handed_back.entries) == (at(130), 7)
    assert len(run.driver.performed) == begun, "nothing was begun after it arrived"


@pytest.mark.parametrize(
    "arrivals",
    [
        pytest.param([HANDED, GOING], id="after-it"),
        pytest.param([GOING, HANDED], id="before-it-and-with-it"),
        pytest.param([STORY, GOING, HANDED], id="during-the-story"),
    ],
)
@pytest.mark.parametrize("first", [True, False], ids=["at-the-start", "later"])
async def test_a_signal_that_arrives_with_it_counts(arrivals: list[Any], first: bool) -> None:
    """It is recorded in what was handed back, not in what is thrown away."""
    run = await Run().begin(*(arrivals if first else ()))
    if not first:
        run.arrive(*arrivals)
    start = await run.next_start()
    assert start.observed
    assert start.observed.deletion
    assert start.observed.runtime_stale
    assert start.observed.heard == {"file": 6}


async def test_a_late_signal_that_arrives_with_it_is_late() -> None:
    """The node has heard a newer one of the same source."""
    run = await Run().begin()
    run.arrive(replace(GOING, sequence=4), HANDED)
    start = await run.next_start()
    assert start.observed
    assert start.observed.deletion is None


async def test_an_answer_that_arrives_with_it_does_not_count() -> None:
    """The node knows better how the action of this run ended."""
    run = await Run().begin()
    (action,) = (one for one in run.driver.performed if isinstance(one, RunPodSandbox))
    run.arrive((action, PodSandbox("s9", 0)), HANDED)
    assert (await run.next_start()).observed == SEEN


async def test_a_run_that_is_told_the_story_decides_nothing_more() -> None:
    """A deletion is due, and waits for the state; Updates are refused, because their effect would be lost."""
    run = await Run().begin()
    begun = len(run.driver.performed)
    assert run.loop.refusal(names.SKIP_BACKOFF, SkipBackoff("me")) != REFUSAL
    run.arrive(STORY, GOING)
    assert run.loop.refusal(names.SKIP_BACKOFF, SkipBackoff("me")) == REFUSAL, "also before the loop has run"
    await run.settled()
    assert len(run.driver.performed) == begun
    assert run.loop.observed.deletion is None
    assert [one.text for one in run.loop.explain().sentences] == [REFUSAL.message]
    run.arrive(HANDED)
    start = await run.next_start()
    assert start.observed
    assert start.observed.deletion


async def test_a_run_that_begins_with_a_story_begins_nothing() -> None:
    """The pod was born while Temporal was away: its first run waits for the state."""
    carried = CarriedAction(names.RUN_POD_SANDBOX, RunPodSandbox(PodKey("default", "web", "uid-1"), 0, {}))
    run = await Run(replace(START, under_way=(carried,))).begin(STORY)
    assert not run.driver.performed
    assert not run.driver.published
    run.arrive(replace(STORY, first=3), HANDED)
    assert (await run.next_start()).observed == SEEN


async def test_a_run_goes_on_if_the_state_does_not_come() -> None:
    """The node is gone; what came meanwhile is recorded, and a later hand-back is taken."""
    run = await Run().begin(STORY, GOING)
    assert [one.at for one in run.driver.waits] == [NOW + LONGEST]
    run.driver.over.set()
    run.driver.notify()
    await run.settled()
    assert run.loop.observed.deletion
    assert run.driver.published
    run.arrive(replace(HANDED, epoch=4))
    assert (await run.next_start()).ticket.epoch == 4


@pytest.mark.parametrize("arrival", [STORY, HANDED], ids=["its-story", "its-state"])
async def test_a_hand_back_of_another_life_is_ignored(arrival: Any) -> None:
    """Somebody has captured it and sends it again, while the pod's manifest is back and its workflow has the same id."""
    run = await Run(replace(START, ticket=Ticket("next-life", 0))).begin()
    run.arrive(replace(arrival, incarnation="life", epoch=3), GOING)
    await run.settled()
    assert not run.loop.is_handed_back
    assert run.loop.observed.deletion
    run.arrive(replace(HANDED, incarnation="next-life", epoch=1))
    assert (await run.next_start()).ticket == Ticket("next-life", 1)


@pytest.mark.parametrize(
    "ticket", [Ticket(), Ticket("life", 2)], ids=["of-a-run-without-ticket", "of-a-release-without"]
)
async def test_a_hand_back_whose_life_is_not_known_is_taken(ticket: Ticket) -> None:
    """Histories that exist have such ones."""
    run = await Run(replace(START, ticket=ticket)).begin()
    run.arrive(replace(HANDED, incarnation="" if ticket.incarnation else "drawn-since"))
    assert (await run.next_start()).ticket == replace(ticket, epoch=3)


@pytest.mark.parametrize("epoch", [1, 2])
async def test_an_earlier_hand_back_is_ignored(epoch: int) -> None:
    """It was sent twice: this run began with it, or with a later one."""
    run = await Run().begin()
    run.arrive(replace(STORY, epoch=epoch), replace(HANDED, epoch=epoch), PodListed("file"))
    await run.settled()
    assert not run.task.done()
    assert not run.loop.is_handed_back
    run.arrive(HANDED)
    assert await run.next_start()


async def test_the_newest_of_two_counts() -> None:
    """The node sent one, went away, and sent the next one before the run was scheduled."""
    run = await Run().begin()
    run.arrive(replace(HANDED, epoch=5), HANDED)
    assert (await run.next_start()).ticket.epoch == 5


async def test_a_cancel_does_not_end_the_wait(caplog: pytest.LogCaptureFixture) -> None:
    """As at any other time."""
    run = await Run().begin(STORY)
    run.task.cancel()
    await run.settled()
    assert "a cancel is ignored" in caplog.text
    run.arrive(HANDED)
    assert await run.next_start()


async def test_a_pod_that_is_gone_ends_with_its_state_published() -> None:
    """Nobody else would say how it ended: its search attributes are of before the outage."""
    gone = Observed(lifecycle=Lifecycle.TERMINATED, cleaned=True, started_at=NOW)
    run = await Run().begin()
    run.arrive(replace(HANDED, observed=gone))
    last = await Run(await run.next_start()).begin()
    await asyncio.wait_for(last.task, PATIENCE)
    assert last.driver.published == 1
    assert not last.driver.performed


async def test_the_card_and_explain_tell_of_the_outage() -> None:
    """Until the next one."""
    run = await Run().begin()
    run.arrive(HANDED)
    run = await Run(await run.next_start()).begin()
    told = [one.text for one in run.loop.explain().sentences if one.kind is SentenceKind.STANDS]
    until = at(130) - timedelta()
    words = f"while Temporal was away (2 min 10 s, until {until:%Y-%m-%d %H:%M:%S} UTC) the node led the pod: "
    assert told[1] == words + "`tempolet history` tells what happened (7 entries)"
    run.arrive(replace(HANDED, epoch=4))
    assert await run.next_start()
