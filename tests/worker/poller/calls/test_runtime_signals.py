"""Does the last state reach every pod, with one call at a time and five a second on average?"""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from proto.temporal.signals import RuntimeChanged
from worker.poller.calls.runtime_signals import BURST, GAP, MOST_IDS, SignalCoalescer, SignalSender, is_general, merge
from worker.poller.calls.temporal_calls import TemporalUnavailable
from worker.temporal.signal_numbers import SignalNumbers

PODS = ("pod/n/default/a/1", "pod/n/default/b/2")
POD = PODS[0]
hints = st.builds(
    RuntimeChanged,
    source=st.sampled_from(("event", "relist", "resync", "restart", "reboot")),
    exited=st.lists(st.sampled_from("abcdef"), max_size=3, unique=True).map(tuple),
    sandbox_lost=st.booleans(),
)


def covers(sent: RuntimeChanged, hint: RuntimeChanged) -> bool:
    """Return whether a workflow that gets `sent` re-reads at least what it would for `hint`."""
    if is_general(sent):
        return True
    if is_general(hint) or (hint.sandbox_lost and not sent.sandbox_lost):
        return False
    return set(hint.exited) <= set(sent.exited)


@given(hints, hints)
def test_a_merged_hint_covers_both(first: RuntimeChanged, second: RuntimeChanged) -> None:
    """In either order."""
    for merged in (merge(first, second), merge(second, first)):
        assert covers(merged, first)
        assert covers(merged, second)


def test_a_hint_stays_small() -> None:
    """More ids than it holds make one that names none, so the workflow reads everything."""
    whole = merge(
        RuntimeChanged("event", exited=tuple(map(str, range(MOST_IDS)))), RuntimeChanged("event", exited=("x",))
    )
    assert is_general(whole)


class Coalescing(RuleBasedStateMachine):
    """Any order of hints, time, arrivals, losses and refusals of news."""

    def __init__(self) -> None:
        super().__init__()
        self.coalescer = SignalCoalescer()
        self.now = 0.0
        self.in_flight: dict[str, RuntimeChanged] = {}
        self.owed: dict[str, list[RuntimeChanged]] = {pod: [] for pod in PODS}
        self.sent_at: dict[str, list[float]] = {pod: [] for pod in PODS}

    @rule(pod=st.sampled_from(PODS), hint=hints, after=st.sampled_from((0.0, 0.0, 2.0)))
    def hear(self, pod: str, hint: RuntimeChanged, after: float) -> None:
        """Something ended."""
        self.coalescer.add(pod, hint, self.now, after=after)
        self.owed[pod].append(hint)

    @rule(seconds=st.sampled_from((0.0, 0.01, 0.19, 0.2, 0.5, 3.0)))
    def wait(self, seconds: float) -> None:
        """Time goes by, and what is due goes out."""
        self.now += seconds
        self.send()

    def send(self) -> None:
        """Take what is due; each pod at most once, and never while a call is in flight."""
        for pod, hint in self.coalescer.take_due(self.now):
            assert pod not in self.in_flight
            self.in_flight[pod] = hint
            self.sent_at[pod].append(self.now)

    @precondition(lambda self: self.in_flight)
    @rule(data=st.data())
    def arrive(self, data: st.DataObject) -> None:
        """A call succeeds: what it covered is no longer owed."""
        pod = data.draw(st.sampled_from(sorted(self.in_flight)))
        sent = self.in_flight.pop(pod)
        self.coalescer.done(pod)
        self.owed[pod] = [hint for hint in self.owed[pod] if not covers(sent, hint)]

    @precondition(lambda self: self.in_flight)
    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        """A call fails."""
        pod = data.draw(st.sampled_from(sorted(self.in_flight)))
        del self.in_flight[pod]
        self.coalescer.failed(pod, self.now)

    @precondition(lambda self: self.in_flight)
    @rule(data=st.data())
    def find_no_news(self, data: st.DataObject) -> None:
        """Before a call is made its hint turns out to be known: it is not made, and costs nothing."""
        pod = data.draw(st.sampled_from(sorted(self.in_flight)))
        known = self.in_flight.pop(pod)
        self.coalescer.skipped(pod)
        self.sent_at[pod].pop()
        self.owed[pod] = [hint for hint in self.owed[pod] if not covers(known, hint)]

    @invariant()
    def keeps_to_the_rate(self) -> None:
        """No window of any length holds more than a burst and five a second."""
        for times in self.sent_at.values():
            for first in range(len(times)):
                for last in range(first, len(times)):
                    allowed = BURST + (times[last] - times[first]) / GAP
                    assert last - first + 1 <= allowed + 1e-6

    def teardown(self) -> None:
        """When nothing more happens, everything owed goes out, and nothing is kept."""
        for _ in range(100):
            while self.in_flight:
                pod, sent = self.in_flight.popitem()
                self.coalescer.done(pod)
                self.owed[pod] = [hint for hint in self.owed[pod] if not covers(sent, hint)]
            next_at = self.coalescer.next_at()
            if next_at is None:
                break
            self.now = max(self.now, next_at)
            self.send()
        assert not any(self.owed.values())
        self.now += BURST * GAP + 1
        self.send()
        assert len(self.coalescer) == 0


TestCoalescing = Coalescing.TestCase
TestCoalescing.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


def test_the_first_hint_goes_at_once_and_a_crash_loop_is_slowed() -> None:
    """Ends in quick succession (short init containers) do not wait; a flood does."""
    coalescer, at, sent = SignalCoalescer(), 0.0, []
    for number in range(40):
        coalescer.add(POD, RuntimeChanged("event", exited=(str(number),)), at)
        for _ in coalescer.take_due(at):
            coalescer.done(POD)
            sent.append(at)
        at += 0.05
    assert sent[:BURST] == pytest.approx([0.0, 0.05, 0.1, 0.15, 0.2])
    assert len(sent) <= BURST + 2.0 / GAP


class Wire:
    """A way to Temporal that the test opens and closes."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.open.set()
        self.begun = asyncio.Event()
        self.arrived: list[RuntimeChanged] = []
        self.more = asyncio.Event()
        self.answers: Callable[[], bool] = lambda: True

    async def send(self, _: str, hint: RuntimeChanged) -> bool:
        """Deliver when open."""
        self.begun.set()
        await self.open.wait()
        answer = self.answers()
        self.arrived.append(hint)
        self.more.set()
        return answer

    async def until(self, count: int) -> None:
        """Wait for so many arrivals."""
        async with asyncio.timeout(20):
            while len(self.arrived) < count:
                self.more.clear()
                await self.more.wait()


async def running(sender: SignalSender, do: Callable[[], Awaitable[None]]) -> None:
    """Run a sender while the test acts."""
    task = asyncio.create_task(sender.run())
    try:
        await do()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_what_comes_while_a_call_is_in_flight_is_one_hint_behind_it() -> None:
    """And sequence numbers count on."""
    wire = Wire()
    sender = SignalSender(wire.send, unknown_part=lambda _, hint: hint, gone=lambda _: None, numbers=SignalNumbers(7))

    async def act() -> None:
        wire.open.clear()
        sender.queue(POD, RuntimeChanged("event", exited=("a",)))
        await wire.begun.wait()
        for one in "bcd":
            sender.queue(POD, RuntimeChanged("event", exited=(one,)))
        wire.open.set()
        await wire.until(2)

    await running(sender, act)
    assert [(hint.exited, hint.sequence) for hint in wire.arrived] == [(("a",), 8), (("b", "c", "d"), 9)]


async def test_a_failed_call_goes_out_again() -> None:
    """Temporal was away for a moment."""
    wire = Wire()
    failures = iter((TemporalUnavailable("away"), None))

    def answer() -> bool:
        if error := next(failures):
            raise error
        return True

    wire.answers = answer
    sender = SignalSender(wire.send, unknown_part=lambda _, hint: hint, gone=lambda _: None, numbers=SignalNumbers())

    async def act() -> None:
        sender.queue(POD, RuntimeChanged("event", exited=("a",)))
        await wire.until(1)

    await running(sender, act)
    assert wire.arrived[0].exited == ("a",)


async def test_a_workflow_that_is_gone_is_reported_and_forgotten() -> None:
    """A late hint never starts one."""
    wire = Wire()
    gone: list[str] = []
    wire.answers = lambda: False
    sender = SignalSender(wire.send, unknown_part=lambda _, hint: hint, gone=gone.append, numbers=SignalNumbers())

    async def act() -> None:
        sender.queue(POD, RuntimeChanged("event", exited=("a",)))
        await wire.until(1)

    await running(sender, act)
    assert gone == [POD]


async def test_a_hint_that_is_no_news_any_more_is_not_sent() -> None:
    """The activity that stopped the container has reported it first."""
    wire = Wire()
    sender = SignalSender(
        wire.send,
        unknown_part=lambda _, hint: hint if "b" in hint.exited else None,
        gone=lambda _: None,
        numbers=SignalNumbers(),
    )

    async def act() -> None:
        sender.queue(POD, RuntimeChanged("event", exited=("a",)))
        sender.queue(PODS[1], RuntimeChanged("event", exited=("b",)))
        await wire.until(1)

    await running(sender, act)
    assert [hint.exited for hint in wire.arrived] == [("b",)]
