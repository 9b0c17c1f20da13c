"""Does a probe go on, and is each verdict told to whoever leads the pod, when Temporal and the process itself take turns?"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any
from unittest.mock import Mock

import pytest
from temporalio.exceptions import ApplicationError

from activities.execution.attempt import Cancellation, NotDelivered, WorkflowGone
from activities.execution.attempts import AttachingAttempts
from activities.execution.in_process import InProcessActivities, InProcessAttempt
from activities.execution.present_attempts import PresentAttempts
from activities.execution.running_actions import RunningActions
from activities.execution.unexpected import UnexpectedErrors
from activities.probes import loop as loop_module
from activities.probes.container_probes import ProbeActivities
from activities.probes.loops import ProbeLoops
from proto.temporal import names
from proto.temporal.pod import ProbeFact, ProbeKind
from proto.temporal.signals import ProbeVerdict
from tests.activities.probes.test_container_probes import REQUEST, Container, Temporal, begin, ended, runtime_that_says

pytestmark = pytest.mark.jumping_clock


@dataclass
class Process:
    """Leads the pod itself; it hears what its attempts tell it."""

    loops: ProbeLoops = field(default_factory=ProbeLoops)
    told: list[ProbeVerdict] = field(default_factory=list)
    failing: list[Exception] = field(default_factory=list)
    known: dict[ProbeKind, ProbeFact] = field(default_factory=dict)
    """What it knew when it asked."""

    def __post_init__(self) -> None:
        services = Mock(probes=self.loops, runtime=runtime_that_says(), terminating=Mock(has=lambda _: False))
        interceptors = AttachingAttempts(RunningActions(), PresentAttempts()), UnexpectedErrors()
        self.activities = InProcessActivities([ProbeActivities(services).probe_container], interceptors)

    def begin(self) -> "tuple[InProcessAttempt, asyncio.Task[None]]":
        """Begin an attempt."""
        attempt = InProcessAttempt(
            name=names.PROBE_CONTAINER,
            workflow_id="pod/n1/default/web/1",
            key="probe/web",
            asker=("epoch-1", 1),
            deliver=self.deliver,
        )
        return attempt, asyncio.create_task(self.activities.run(attempt, replace(REQUEST, known=self.known)))

    async def deliver(self, signal: str, value: Any) -> None:
        """Hear a verdict."""
        assert signal == names.PROBE_VERDICT
        if self.failing:
            raise self.failing.pop(0)
        self.told.append(value)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait for it."""
        async with asyncio.timeout(60):
            while not holds():  # noqa: ASYNC110 - the clock jumps
                await asyncio.sleep(0.01)


@pytest.fixture
def container(monkeypatch: pytest.MonkeyPatch) -> Container:
    """Return the container that is probed."""
    made = Container()
    monkeypatch.setattr(loop_module, "HANDLERS", {"tcpSocket": made})
    return made


async def test_it_goes_from_one_to_the_other_and_back(container: Container) -> None:
    """The loop is the same, and each attempt ends when the next one has it; the numbers of verdicts go on."""
    process, temporal = Process(), Temporal()
    _, of_temporal = begin(temporal, process.loops)
    await temporal.until(lambda: temporal.told() == [(True, 1)])
    process.known = {ProbeKind.READINESS: ProbeFact(success=True, sequence=1)}
    _, of_process = process.begin()
    await ended(of_temporal)
    container.ready = False
    await process.until(lambda: len(process.told) == 1)
    assert (process.told[0].success, process.told[0].sequence) == (False, 2)
    _, of_temporal = begin(temporal, process.loops)  # with a request of before the switch
    await ended(of_process)
    await temporal.until(lambda: temporal.told() == [(True, 1), (False, 2)])
    process.loops.ended("web-0")
    await ended(of_temporal)


async def test_a_verdict_that_is_not_delivered_is_told_later(container: Container) -> None:
    """Probing goes on meanwhile."""
    process = Process(failing=[NotDelivered("busy"), NotDelivered("busy")])
    _, probing = process.begin()
    await process.until(lambda: len(process.told) == 1)
    assert process.told[0].success is container.ready
    process.loops.ended("web-0")
    await ended(probing)


async def test_a_verdict_goes_to_who_leads_the_pod(container: Container) -> None:
    """Also while Temporal does not answer: neither the heartbeat before the signal nor the signal is waited for."""
    loops, temporal = ProbeLoops(), Temporal()
    taken: list[tuple[str, int]] = []

    async def take(workflow_id: str, verdict: ProbeVerdict, _: Callable[[], Awaitable[None]]) -> None:
        taken.append((workflow_id, verdict.sequence))

    loops.tell_verdict = take
    _, probing = begin(temporal, loops)
    await temporal.until(lambda: len(taken) == 1)
    container.ready = False
    await temporal.until(lambda: len(taken) == 2)
    assert [number for _, number in taken] == [1, 2]
    assert temporal.told() == []
    loops.ended("web-0")
    await ended(probing)


async def test_a_pod_that_is_gone_ends_it(container: Container) -> None:
    """Nobody listens any more."""
    process = Process(failing=[WorkflowGone()])
    _, probing = process.begin()
    await ended(probing)
    assert process.told == []
    assert container.ready


async def test_the_next_try_knows_what_the_one_before_said(container: Container) -> None:
    """As the next worker knows it from Temporal's heartbeats."""
    process = Process()
    attempt, probing = process.begin()
    await process.until(lambda: len(process.told) == 1)
    await process.activities.stop(timedelta(seconds=5))
    with pytest.raises(ApplicationError) as stopped:
        await probing
    assert (stopped.value.type, stopped.value.non_retryable) == ("WorkerStopping", False)
    [left] = attempt.again().earlier
    assert left["readiness"]["sequence"] == 1
    assert left["readiness"]["told"] is container.ready


@pytest.mark.parametrize("why", [Cancellation.NOT_FOUND, Cancellation.PAUSED, Cancellation.TIMED_OUT])
async def test_the_loop_waits_for_the_next_attempt(container: Container, why: Cancellation) -> None:
    """What it has counted is not lost while nobody listens, and no verdict is."""
    process = Process()
    attempt, probing = process.begin()
    await process.until(lambda: len(process.told) == 1)
    loop = process.loops.attach("web-0", Mock())
    attempt.cancel(why)
    with pytest.raises(asyncio.CancelledError):
        await probing
    container.ready = False
    await asyncio.sleep(60)
    process.known = {ProbeKind.READINESS: ProbeFact(success=True, sequence=1)}
    _, probing = process.begin()
    await process.until(lambda: len(process.told) == 2)
    assert (process.told[1].success, process.told[1].sequence) == (False, 2)
    assert process.loops.attach("web-0", Mock()) is loop
    process.loops.ended("web-0")
    await ended(probing)


async def test_a_cancel_ends_the_loop(container: Container) -> None:
    """The container is to be probed no more."""
    process = Process()
    attempt, probing = process.begin()
    await process.until(lambda: len(process.told) == 1)
    attempt.cancel(Cancellation.CANCEL_REQUESTED)
    with pytest.raises(asyncio.CancelledError):
        await probing
    container.ready = False
    await asyncio.sleep(60)
    assert len(process.told) == 1
