"""Does the activity tell each verdict once, leave what it knows behind, and give way to a newer one?"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import Mock

import pytest
from temporalio.activity import ActivityCancellationDetails
from temporalio.client import AsyncActivityCancelledError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import ActivityEnvironment

from activities.probes import loop as loop_module
from activities.probes.container_probes import ProbeActivities
from activities.probes.loops import ProbeLoops
from activities.probes.outcome import Outcome
from proto.temporal.activities.requests import ProbeContainer
from proto.temporal.pod import PodKey, ProbeKind
from proto.temporal.signals import ProbeVerdict

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

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait for it."""
        async with asyncio.timeout(5):
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


def begin(temporal: Temporal, loops: ProbeLoops, **info: Any) -> "tuple[ActivityEnvironment, asyncio.Task[None]]":
    """Begin one try of the activity."""
    environment = ActivityEnvironment(client=temporal)  # type: ignore[arg-type]  # as much of one as is used
    environment.info = replace(environment.info, **({"heartbeat_timeout": timedelta(minutes=2)} | info))
    activities = ProbeActivities(Mock(probes=loops, runtime=Mock()))
    return environment, asyncio.create_task(environment.run(activities.probe_container, REQUEST))


async def ended(task: "asyncio.Task[None]") -> None:
    """Wait for its end."""
    async with asyncio.timeout(5):
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
    await asyncio.sleep(3600)
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
