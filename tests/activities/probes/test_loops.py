"""Does a container's loop probe at its times, tell only turns, and end when its container has ended?"""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import Mock

import pytest

from activities.objects.terminating_pods import TerminatingPods
from activities.probes import loop as loop_module
from activities.probes.container_probes import initial_progress
from activities.probes.loop import ProbeLoop
from activities.probes.loops import ProbeLoops
from activities.probes.outcome import Outcome, ProbeNotRun
from proto.temporal.activities.heartbeats import ProbeProgress
from proto.temporal.activities.requests import ProbeContainer
from proto.temporal.pod import PodKey, ProbeFact, ProbeKind
from tests.patience import PATIENCE

pytestmark = pytest.mark.jumping_clock

POD = PodKey("default", "web", "uid-1")
ONCE = {"tcpSocket": {"port": 80}, "periodSeconds": 0.01, "failureThreshold": 1}
"""A period that no pod can have, for a test that does not want to wait."""


class Scripted:
    """A handler that answers what the test says; the last answer for ever."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked = asyncio.Event()
        self.times = 0
        self.closed = False

    async def ask(self) -> Outcome:
        """Answer the next one."""
        self.times += 1
        self.asked.set()
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return Outcome(success=answer)

    async def close(self) -> None:
        """Remember it."""
        self.closed = True


@pytest.fixture
def handlers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Scripted]:
    """Let each probe be asked by the script of its name."""
    scripts: dict[str, Scripted] = {}
    by_name: dict[str, Callable[..., Scripted]] = {"tcpSocket": lambda action, *_: scripts[action["port"]]}
    monkeypatch.setattr(loop_module, "HANDLERS", by_name)
    return scripts


def asking(started: float = 0, **probes: Any) -> ProbeContainer:
    """Write a request; each probe's port is the name of its script."""
    container = {f"{kind}Probe": {**ONCE, **probe, "tcpSocket": {"port": kind}} for kind, probe in probes.items()}
    since = datetime.now(UTC) - timedelta(seconds=started)
    return ProbeContainer(POD, "web", "web-0", {"name": "web", **container}, "10.88.0.5", since)


@pytest.fixture
async def run() -> AsyncIterator[Callable[[ProbeContainer], ProbeLoop]]:
    """Begin loops that end with the test."""
    begun: list[ProbeLoop] = []

    def begin(request: ProbeContainer) -> ProbeLoop:
        begun.append(ProbeLoop(request, Mock(), initial_progress(request, ())))
        return begun[-1]

    yield begin
    for one in begun:
        one.end()


async def news(loop: ProbeLoop) -> list[ProbeKind]:
    """Wait for something untold."""
    async with asyncio.timeout(PATIENCE):
        while not loop.unreported():
            loop.listener.clear()
            await loop.listener.wait()
    return loop.unreported()


async def test_readiness_is_told_when_it_turns(handlers: dict[str, Scripted], run: Any) -> None:
    """Ready at once, told once, and told again when it fails."""
    handlers["readiness"] = Scripted(True, True, False)
    loop = run(asking(readiness={}))
    assert await news(loop) == [ProbeKind.READINESS]
    assert loop.progress[ProbeKind.READINESS].verdict is True
    loop.progress[ProbeKind.READINESS].told = True
    await news(loop)
    assert loop.progress[ProbeKind.READINESS].verdict is False
    assert handlers["readiness"].times == 3


async def test_startup_holds_the_others(handlers: dict[str, Scripted], run: Any) -> None:
    """Until it has succeeded; then it is asked no more."""
    handlers |= {"startup": Scripted(False, True), "readiness": Scripted(True), "liveness": Scripted(True)}
    loop = run(asking(startup={"failureThreshold": 3}, readiness={}, liveness={}))
    assert await news(loop) == [ProbeKind.STARTUP]
    assert handlers["readiness"].times == 0
    async with asyncio.timeout(PATIENCE):
        await handlers["readiness"].asked.wait()
        await handlers["liveness"].asked.wait()
    assert handlers["startup"].times == 2
    assert handlers["startup"].closed


async def test_a_failed_startup_is_final(handlers: dict[str, Scripted], run: Any) -> None:
    """The others never begin."""
    handlers |= {"startup": Scripted(False), "readiness": Scripted(True)}
    loop = run(asking(startup={}, readiness={}))
    await news(loop)
    assert loop.progress[ProbeKind.STARTUP].verdict is False
    await asyncio.sleep(0.05)
    assert (handlers["startup"].times, handlers["readiness"].times) == (1, 0)


async def test_liveness_waits_a_period_and_is_on_hold_after_a_failure(handlers: dict[str, Scripted], run: Any) -> None:
    """A container that is not yet up isn't killed for it at once."""
    handlers["liveness"] = Scripted(False)
    begun = asyncio.get_running_loop().time()
    loop = run(asking(liveness={"periodSeconds": 60}))
    await news(loop)
    assert asyncio.get_running_loop().time() - begun > 30  # from the container's start, by the real clock
    await asyncio.sleep(90)
    assert handlers["liveness"].times == 1


@pytest.mark.parametrize(
    ("started", "waits"),
    [pytest.param(0, True, id="a-new-container-is-waited-for"), pytest.param(60, False, id="an-old-one-is-not")],
)
async def test_the_initial_delay_counts_from_the_containers_start(
    handlers: dict[str, Scripted], run: Any, started: float, waits: bool
) -> None:
    """Whenever probing begins."""
    handlers["readiness"] = Scripted(True)
    run(asking(started, readiness={"initialDelaySeconds": 30}))
    await asyncio.sleep(0.05)
    assert (handlers["readiness"].times == 0) is waits


async def test_what_could_not_be_asked_counts_for_nothing(handlers: dict[str, Scripted], run: Any) -> None:
    """Three tries each time, and no verdict; a defect of ours doesn't end probing either."""
    errors = [ProbeNotRun("no such port")] * 3
    handlers["readiness"] = Scripted(*errors, RuntimeError("defect"), True)
    loop = run(asking(readiness={}))
    await news(loop)
    assert loop.progress[ProbeKind.READINESS].verdict is True
    assert handlers["readiness"].times == 5


async def test_one_that_is_stopped_is_only_asked_for_readiness(handlers: dict[str, Scripted], run: Any) -> None:
    """Until it is gone."""
    handlers |= {"readiness": Scripted(True), "liveness": Scripted(True)}
    loop = run(asking(readiness={}, liveness={}))
    await handlers["liveness"].asked.wait()
    loop.stopping()
    await asyncio.sleep(0.02)
    asked = handlers["liveness"].times, handlers["readiness"].times
    await asyncio.sleep(0.05)
    assert handlers["liveness"].times == asked[0]
    assert handlers["readiness"].times > asked[1]
    assert handlers["liveness"].closed


async def test_a_pod_that_goes_is_only_asked_for_readiness(handlers: dict[str, Scripted]) -> None:
    """Also while a container waits for its turn to be stopped; one that has not started is not asked whether it has."""
    handlers |= {"readiness": Scripted(True), "liveness": Scripted(True), "startup": Scripted(False)}
    terminating = TerminatingPods()
    requests = asking(readiness={}, liveness={}), asking(startup={"failureThreshold": 9})
    loops = [ProbeLoop(one, Mock(), initial_progress(one, ()), lambda: terminating.has(POD.uid)) for one in requests]
    await asyncio.sleep(0.05)
    asked = {kind: script.times for kind, script in handlers.items()}
    terminating.set(POD.uid, terminating=True)
    await asyncio.sleep(0.05)
    assert min(asked.values()) > 0
    assert (handlers["liveness"].times, handlers["startup"].times) == (asked["liveness"], asked["startup"])
    assert handlers["readiness"].times > asked["readiness"]
    for loop in loops:
        loop.end()


async def test_a_loop_is_found_again_and_ends_with_its_container(handlers: dict[str, Scripted], run: Any) -> None:
    """However many activities come; and one that comes after the end gets none."""
    handlers["readiness"] = Scripted(True)
    loops, request = ProbeLoops(), asking(readiness={})
    first = loops.attach("web-0", lambda: run(request))
    assert first is not None
    assert loops.attach("web-0", Mock(side_effect=AssertionError("a second loop"))) is first
    loops.only("uid-2", ())
    loops.only("uid-1", ("web-0",))
    assert not first.has_ended
    loops.only("uid-1", ())
    assert first.has_ended
    assert loops.attach("web-0", Mock(side_effect=AssertionError("a loop for the dead"))) is None


async def test_a_container_that_is_being_stopped_gets_such_a_loop(handlers: dict[str, Scripted], run: Any) -> None:
    """The stop may begin before the activity comes: both are tried again after a crash."""
    handlers |= {"readiness": Scripted(True), "liveness": Scripted(True)}
    loops = ProbeLoops()
    loops.stopping("web-0")
    loops.attach("web-0", lambda: run(asking(readiness={}, liveness={})))
    await asyncio.sleep(0.05)
    assert handlers["liveness"].times == 0
    assert handlers["readiness"].times


REQUEST = asking(startup={}, readiness={}, liveness={})


@pytest.mark.parametrize(
    ("known", "heartbeats", "begins"),
    [
        pytest.param({}, (), [(None, 0), (True, 0), (None, 0)], id="nothing-is-known-and-liveness-begins-with-success"),
        pytest.param(
            {ProbeKind.STARTUP: ProbeFact(success=True, sequence=1), ProbeKind.READINESS: ProbeFact(False, "", 4)},
            (),
            [(True, 1), (True, 0), (False, 4)],
            id="what-the-workflow-knew",
        ),
        pytest.param(
            {ProbeKind.READINESS: ProbeFact(success=False, sequence=1)},
            ({"readiness": {"verdict": True, "sequence": 2, "run": 7, "later": "field"}},),
            [(None, 0), (True, 0), (True, 2)],
            id="what-an-earlier-try-left-is-newer",
        ),
    ],
)
def test_what_a_new_loop_begins_with(known: Any, heartbeats: Any, begins: list[Any]) -> None:
    """Ready stays ready, not started stays not started."""
    request = ProbeContainer(POD, "web", "web-0", REQUEST.container, known=known)
    progress = initial_progress(request, heartbeats)
    assert [(progress[kind].verdict, progress[kind].sequence) for kind in ProbeKind] == begins


async def test_what_the_workflow_has_not_heard_is_told_again(handlers: dict[str, Scripted], run: Any) -> None:
    """A new run's request says which verdicts it knows."""
    handlers["readiness"] = Scripted(True)
    loop = run(asking(readiness={}))
    await news(loop)
    loop.progress[ProbeKind.READINESS].told = True
    loop.mark_unreported({ProbeKind.READINESS: 1})
    assert loop.unreported() == []
    loop.mark_unreported({})
    assert loop.unreported() == [ProbeKind.READINESS]
    assert ProbeProgress().told
