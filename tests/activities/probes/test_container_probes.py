"""Does the activity tell each verdict once, leave what it knows behind, and give way to a newer one?"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import chain, repeat
from typing import Any
from unittest.mock import AsyncMock, Mock

import grpc
import pytest
from temporalio.activity import ActivityCancellationDetails
from temporalio.client import AsyncActivityCancelledError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import ActivityEnvironment

from activities.clients.cri_error import CriError
from activities.probes import loop as loop_module
from activities.probes.container_probes import ProbeActivities
from activities.probes.loops import ProbeLoops
from activities.probes.outcome import Outcome
from proto.cri.v1 import api_pb2 as cri
from proto.temporal.activities.requests import ProbeContainer
from proto.temporal.pod import PodKey, ProbeKind
from proto.temporal.signals import ProbeVerdict
from tests.patience import PATIENCE

pytestmark = pytest.mark.jumping_clock

PROBE = {"tcpSocket": {"port": 80}, "periodSeconds": 0.01, "failureThreshold": 1}
REQUEST = ProbeContainer(
    PodKey("default", "web", "uid-1"), "web", "web-0", {"name": "web", "readinessProbe": PROBE}, "", datetime.now(UTC)
)


@dataclass
class Temporal:
    """Records the activity's calls of Temporal, in order, and lets them fail on demand."""

    calls: list[Any] = field(default_factory=list)
    failing: list[Exception] = field(default_factory=list)
    held: asyncio.Event | None = None
    """Heartbeats wait for it."""
    is_asked: bool = False
    called: asyncio.Event = field(default_factory=asyncio.Event)
    namespace: str = "tempolet"

    def get_workflow_handle(self, _: str) -> "Temporal":
        """Be the workflow."""
        return self

    def get_async_activity_handle(self, **_: Any) -> "Temporal":
        """Be the activity."""
        return self

    def with_context(self, _: Any) -> "Temporal":
        """Be it with any seal."""
        return self

    async def signal(self, _: str, verdict: ProbeVerdict) -> None:
        """Hear a verdict."""
        self._call(verdict)

    async def heartbeat(self, details: dict[str, Any]) -> None:
        """Keep what is known."""
        self.is_asked = True
        self.called.set()
        if self.held:
            await self.held.wait()
        self._call(details)

    def _call(self, what: Any) -> None:
        if self.failing:
            raise self.failing.pop(0)
        self.calls.append(what)
        self.called.set()

    def told(self) -> list[tuple[bool, int]]:
        """The verdicts that were signalled: success and number."""
        return [(one.success, one.sequence) for one in self.calls if isinstance(one, ProbeVerdict)]

    async def until(self, holds: Callable[[], bool], within: float = 5) -> None:
        """Wait for it."""
        async with asyncio.timeout(within):
            while not holds():
                self.called.clear()
                await self.called.wait()


class Container:
    """The container that is probed: it answers as it is now."""

    ready = True

    def __call__(self, *_: Any) -> "Container":
        """Be the handler."""
        return self

    async def ask(self) -> Outcome:
        """Answer."""
        return Outcome(success=self.ready, output="" if self.ready else "500")

    async def close(self) -> None:
        """Hold nothing."""


@pytest.fixture
def temporal() -> Temporal:
    """Return a Temporal that accepts everything."""
    return Temporal()


@pytest.fixture
def container(monkeypatch: pytest.MonkeyPatch) -> Container:
    """Return the container."""
    made = Container()
    monkeypatch.setattr(loop_module, "HANDLERS", {"tcpSocket": made})
    return made


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[], float]:
    """Let the clock of signals jump with the loop's."""

    def now() -> float:
        return 1_800_000_000.0 + asyncio.get_running_loop().time()

    monkeypatch.setattr("activities.probes.container_probes.time", Mock(time=now))
    return now


class Shown(list[tuple[bool, bool]]):
    """What the readiness listener got: readiness, and whether it was signalled."""

    def __call__(self, _pod: PodKey, container_id: str, *, ready: bool, signalled: bool) -> None:
        """Listen."""
        assert container_id == "web-0"
        self.append((ready, signalled))


def runtime_that_says(*answers: "cri.ContainerState | CriError") -> Mock:
    """Return a runtime that answers so when it is asked for the container's state; then it runs."""
    said = [one if isinstance(one, CriError) else cri.ContainerStatus(state=one) for one in answers]
    runs = cri.ContainerStatus(state=cri.CONTAINER_RUNNING)
    return Mock(container_status=AsyncMock(side_effect=chain(said, repeat(runs))))


def begin(
    temporal: Temporal, loops: ProbeLoops, shown: Shown | None = None, runtime: Mock | None = None, **info: Any
) -> "tuple[ActivityEnvironment, asyncio.Task[None]]":
    """Begin one try of the activity."""
    environment = ActivityEnvironment(client=temporal)  # type: ignore[arg-type]  # as much of one as is used
    environment.info = replace(environment.info, **({"heartbeat_timeout": timedelta(minutes=2)} | info))
    listener = Shown() if shown is None else shown
    activities = ProbeActivities(
        Mock(
            probes=loops,
            runtime=runtime or runtime_that_says(),
            readiness_listener=listener,
            terminating=Mock(has=lambda _: False),
        )
    )
    return environment, asyncio.create_task(environment.run(activities.probe_container, REQUEST))


async def ended(task: "asyncio.Task[None]") -> None:
    """Wait for its end."""
    async with asyncio.timeout(PATIENCE):
        await task


async def test_a_verdict_is_kept_then_told_then_kept_as_told(temporal: Temporal, container: Container) -> None:
    """And nothing more while it stands; the activity ends with its container."""
    loops = ProbeLoops()
    _, task = begin(temporal, loops)
    await temporal.until(lambda: len(temporal.calls) >= 3)
    await asyncio.sleep(0.05)
    before, verdict, after = temporal.calls
    assert (before["readiness"]["told"], before["readiness"]["sequence"]) == (False, 1)
    assert verdict == ProbeVerdict("web", "web-0", ProbeKind.READINESS, success=True, sequence=1)
    assert after["readiness"]["told"] is True
    container.ready = False
    await temporal.until(lambda: temporal.told() == [(True, 1), (False, 2)])
    loops.ended("web-0")
    await ended(task)


async def test_the_next_worker_goes_on_from_the_heartbeats(temporal: Temporal, container: Container) -> None:
    """A verdict that was told is not told again; one that may not have been is."""
    left = {"readiness": {"verdict": True, "sequence": 3, "run": 9, "last": True, "told": True}}
    loops = ProbeLoops()
    _, task = begin(temporal, loops, attempt=2, heartbeat_details=(left,))
    await asyncio.sleep(0.1)
    assert temporal.calls == []
    loops.ended("web-0")
    await ended(task)
    left["readiness"]["told"] = False
    loops = ProbeLoops()
    _, task = begin(temporal, loops, attempt=2, heartbeat_details=(left,))
    await temporal.until(lambda: temporal.told() == [(True, 3)])
    loops.ended("web-0")
    await ended(task)
    assert container.ready


async def test_a_worker_that_stops_hands_over(temporal: Temporal, container: Container) -> None:
    """What is known is kept with Temporal, and the next try is asked for."""
    environment, task = begin(temporal, ProbeLoops())
    await temporal.until(lambda: len(temporal.calls) >= 3)
    environment.worker_shutdown()
    with pytest.raises(ApplicationError) as stopped:
        await ended(task)
    assert (stopped.value.type, stopped.value.non_retryable) == ("WorkerStopping", False)
    assert temporal.calls[-1]["readiness"]["verdict"] is container.ready


async def test_a_worker_that_stops_while_temporal_is_away(temporal: Temporal, container: Container) -> None:
    """The next try is asked for all the same; it has what was kept before."""
    environment, task = begin(temporal, ProbeLoops())
    await temporal.until(lambda: len(temporal.calls) >= 3)
    temporal.failing.append(RPCError("away", RPCStatusCode.UNAVAILABLE, b""))
    environment.worker_shutdown()
    with pytest.raises(ApplicationError) as stopped:
        await ended(task)
    assert (stopped.value.type, container.ready) == ("WorkerStopping", True)


async def test_a_newer_one_takes_the_loop_over(temporal: Temporal, container: Container) -> None:
    """After continue-as-new: the older ends by itself, and its cancel would end nothing."""
    loops = ProbeLoops()
    _, older = begin(temporal, loops)
    await temporal.until(lambda: len(temporal.told()) == 1)
    _, newer = begin(temporal, loops)
    await ended(older)
    await temporal.until(lambda: len(temporal.told()) == 2)  # the new run's request knew of no verdict
    container.ready = False
    await temporal.until(lambda: temporal.told()[-1] == (False, 2))
    loops.ended("web-0")
    await ended(newer)


async def test_a_temporal_that_is_away_is_told_later(
    temporal: Temporal, container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Probing goes on meanwhile."""
    monkeypatch.setattr("activities.probes.container_probes._PAUSE_SECONDS", 0.01)
    temporal.failing = [RPCError("away", RPCStatusCode.UNAVAILABLE, b"")] * 3
    loops = ProbeLoops()
    _, task = begin(temporal, loops)
    await temporal.until(lambda: temporal.told() == [(container.ready, 1)])
    loops.ended("web-0")
    await ended(task)


async def test_nobody_is_probed_for_a_workflow_that_is_gone(temporal: Temporal, container: Container) -> None:
    """The loop ends without marking the container as ended, so it can be probed again."""
    temporal.failing = [RPCError("no such workflow", RPCStatusCode.NOT_FOUND, b"")]
    loops = ProbeLoops()
    _, task = begin(temporal, loops)
    await ended(task)
    _, task = begin(temporal, loops)
    await temporal.until(lambda: temporal.told() == [(container.ready, 1)])
    loops.ended("web-0")
    await ended(task)


async def test_a_loop_that_a_newer_one_listens_to_is_not_given_up(temporal: Temporal, container: Container) -> None:
    """The run that continued as new is gone, but not the one after it."""
    gone = Temporal(failing=[RPCError("continued as new", RPCStatusCode.NOT_FOUND, b"")], held=asyncio.Event())
    loops = ProbeLoops()
    _, older = begin(gone, loops)
    await gone.until(lambda: gone.is_asked)
    _, newer = begin(temporal, loops)
    await temporal.until(lambda: temporal.told() == [(True, 1)])
    assert gone.held
    gone.held.set()
    await ended(older)
    container.ready = False
    await temporal.until(lambda: temporal.told()[-1] == (False, 2))
    loops.ended("web-0")
    await ended(newer)


async def test_a_paused_probe_goes_on(temporal: Temporal, container: Container) -> None:
    """An operator's pause reaches it with the first change, which is told all the same."""
    temporal.failing = [AsyncActivityCancelledError(ActivityCancellationDetails(paused=True))]
    loops = ProbeLoops()
    _, task = begin(temporal, loops)
    await temporal.until(lambda: temporal.told() == [(container.ready, 1)])
    loops.ended("web-0")
    await ended(task)


async def test_an_idle_probe_sends_nothing(temporal: Temporal, container: Container) -> None:
    """Each heartbeat would be a write in Temporal's database."""
    loops = ProbeLoops()
    environment, task = begin(temporal, loops, heartbeat_timeout=None)
    beats: list[Any] = []
    environment.on_heartbeat = beats.append
    await temporal.until(lambda: len(temporal.calls) >= 3)
    await asyncio.sleep(600)  # the longest pause between two heartbeats is 20 s
    assert (beats, len(temporal.calls), container.ready) == ([], 3, True)
    loops.ended("web-0")
    await ended(task)


async def test_a_container_that_has_ended_is_not_probed_again_and_again(temporal: Temporal) -> None:
    """A workflow that was reset believes that it runs: it is told, and does not just ask again."""
    loops = ProbeLoops()
    loops.ended("web-0")
    _, task = begin(temporal, loops)
    with pytest.raises(ApplicationError, match="has ended") as told:
        await ended(task)
    assert (told.value.type, told.value.non_retryable) == ("ContainerEnded", True)


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param([cri.CONTAINER_EXITED], id="it-has-exited"),
        pytest.param([CriError("ContainerStatus", grpc.StatusCode.NOT_FOUND, "not found")], id="it-is-gone"),
        pytest.param(
            [CriError("ContainerStatus", grpc.StatusCode.UNAVAILABLE, "refused"), cri.CONTAINER_EXITED],
            id="the-runtime-answers-later",
        ),
    ],
)
@pytest.mark.usefixtures("container")
async def test_a_container_that_ended_before_its_loop_was_there_is_not_probed(
    temporal: Temporal, answers: list[Any]
) -> None:
    """A worker was lost with it, and the end was seen before the next worker got the activity: nobody tells it again."""
    loops = ProbeLoops()
    loops.only("uid-1", [])
    _, task = begin(temporal, loops, runtime=runtime_that_says(*answers))
    await ended(task)
    _, again = begin(temporal, loops)
    with pytest.raises(ApplicationError, match="has ended"):
        await ended(again)


async def test_a_cancel_ends_the_loop(temporal: Temporal, container: Container) -> None:
    """Somebody ended the workflow from outside."""
    environment, task = begin(temporal, ProbeLoops())
    await temporal.until(lambda: len(temporal.calls) >= 3)
    environment.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ended(task)
    container.ready = False
    await asyncio.sleep(0.05)
    assert temporal.told() == [(True, 1)]


EACH_SECOND = {"name": "web", "readinessProbe": {**PROBE, "periodSeconds": 1}}


class Flapping(Container):
    """A container whose readiness changes at each probe."""

    async def ask(self) -> Outcome:
        """Answer other than before."""
        self.ready = not self.ready
        return Outcome(success=self.ready, output="" if self.ready else "500")


async def test_a_readiness_that_flaps_is_signalled_at_growing_intervals(
    temporal: Temporal, monkeypatch: pytest.MonkeyPatch, clock: Callable[[], float]
) -> None:
    """The first twenty changes each, then one for many, with their number; the listener gets every one at once."""
    monkeypatch.setattr(loop_module, "HANDLERS", {"tcpSocket": Flapping()})
    monkeypatch.setitem(globals(), "REQUEST", replace(REQUEST, container=EACH_SECOND))
    loops, shown, began = ProbeLoops(), Shown(), clock()
    _, task = begin(temporal, loops, shown)
    await temporal.until(lambda: len(temporal.told()) >= 25, within=3600)
    verdicts = [one for one in temporal.calls if isinstance(one, ProbeVerdict)]
    assert [(one.sequence, one.turns) for one in verdicts[:20]] == [(one, 1) for one in range(1, 21)]
    held_back = [one.turns for one in verdicts[20:]]
    assert held_back == [10, 20, 40, 80, 80]
    assert sum(one.turns for one in verdicts) == verdicts[-1].sequence
    assert clock() - began > 230
    changes = [ready for ready, signalled in shown if not signalled]
    assert len(changes) >= verdicts[-1].sequence - len(verdicts), "every change is shown"
    assert len(temporal.calls) <= 3 * len(verdicts) + 4, "nor do heartbeats follow each change"
    loops.ended("web-0")
    await ended(task)


async def test_a_restart_of_the_container_or_the_worker_begins_no_new_row(
    temporal: Temporal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was signalled lately is kept by the container's name, and in the heartbeats."""
    monkeypatch.setattr(loop_module, "HANDLERS", {"tcpSocket": Flapping()})
    monkeypatch.setitem(globals(), "REQUEST", replace(REQUEST, container=EACH_SECOND))
    loops = ProbeLoops()
    _, task = begin(temporal, loops)
    await temporal.until(lambda: len(temporal.told()) >= 20, within=60)
    recent = loops.recent_signals.of(("uid-1", "web"))
    assert recent.count > 19
    loops.ended("web-0")
    await ended(task)
    left = {"readiness": {"verdict": True, "sequence": 20, "recent_signals": recent.count, "signalled_at": recent.at}}
    in_the_next_worker = ProbeLoops()
    _, task = begin(temporal, in_the_next_worker, attempt=2, heartbeat_details=(left,))
    await asyncio.sleep(5)
    assert len(temporal.told()) == 20
    assert in_the_next_worker.recent_signals.of(("uid-1", "web")).count == recent.count
    in_the_next_worker.ended("web-0")
    await ended(task)


async def test_liveness_is_signalled_at_once_whatever_readiness_did(
    temporal: Temporal, container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The workflow acts on it."""
    both = {"name": "web", "readinessProbe": PROBE, "livenessProbe": PROBE}
    monkeypatch.setitem(globals(), "REQUEST", replace(REQUEST, container=both))
    loops = ProbeLoops()
    for _ in range(40):
        loops.recent_signals.of(("uid-1", "web")).add(1_800_000_000.0 + asyncio.get_running_loop().time())
    container.ready = False
    _, task = begin(temporal, loops)
    await temporal.until(lambda: len(temporal.told()) == 1)
    (verdict,) = [one for one in temporal.calls if isinstance(one, ProbeVerdict)]
    assert (verdict.probe, verdict.success) == (ProbeKind.LIVENESS, False)
    loops.ended("web-0")
    await ended(task)


async def test_a_readiness_that_temporal_cannot_take_is_shown(
    temporal: Temporal, container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node's status does not wait for Temporal."""
    monkeypatch.setattr("activities.probes.container_probes._PAUSE_SECONDS", 0.01)
    temporal.failing = [RPCError("away", RPCStatusCode.UNAVAILABLE, b"")] * 3
    loops, shown = ProbeLoops(), Shown()
    _, task = begin(temporal, loops, shown)
    await temporal.until(lambda: temporal.told() == [(container.ready, 1)])
    assert (True, False) in shown
    loops.ended("web-0")
    await ended(task)
