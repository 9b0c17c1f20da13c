"""Does the machine wait until all pods have ended and their statuses have arrived, and does a cancelled shutdown end nothing more?"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest

from tests.worker.host.shutdown.small_logind import SmallLogind, own_logind
from tests.worker.host.shutdown.test_ending import CRITICAL, Pods, snapshot
from tests.worker.host.shutdown.test_watch import until
from worker.host.shutdown.node_shutdown import NodeShutdown, ShutdownDependencies
from worker.host.shutdown.state_file import FILE, ShutdownTimes, read_times
from worker.machine.shutdown_sign import ShutdownSign
from workflows.decide.shutdown.periods import Period

DETECTED = ("Normal", "Shutdown", "Shutdown manager detected shutdown event")
CANCELLED = ("Normal", "Shutdown", "Shutdown manager detected shutdown cancellation")


@pytest.fixture
def logind() -> Iterator[SmallLogind]:
    """Return a logind on a bus of its own."""
    with own_logind(timedelta(minutes=1)) as found:
        yield found


@dataclass
class Seen:
    """What a shutdown did."""

    sign: ShutdownSign
    events: list[tuple[str, str, str]] = field(default_factory=list)
    times: list[tuple[float, float]] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    """The statuses have."""


@contextlib.asynccontextmanager
async def running(root_dir: Path, logind: SmallLogind, pods: Pods, *, shown: bool = True) -> AsyncIterator[Seen]:
    """Run the shutdowns of a node while the block runs, and begin one."""
    seen = Seen(ShutdownSign(root_dir / "tempolet"))

    async def settled() -> None:
        await seen.arrived.wait()

    dependencies = ShutdownDependencies(
        node=pods.node()._replace(root_dir=root_dir),
        periods=(Period(0, 10), Period(CRITICAL, 10)),
        sign=seen.sign,
        tell=lambda *event: seen.events.append(event),
        settled=settled,
        show=(lambda *times: seen.times.append(times)) if shown else None,
        bus=logind.bus.path,
    )
    shutdown = NodeShutdown(dependencies)
    async with shutdown.running():
        await until(lambda: shutdown.watch.lock is not None)
        assert not seen.sign.is_set()
        logind.tell(True)
        yield seen


async def test_a_shutdown(tmp_path: Path, logind: SmallLogind) -> None:
    """The lock is given up last; the sign stays, so that no pod is admitted any more."""
    pods = Pods(snapshot("web"), snapshot("system", CRITICAL))
    async with running(tmp_path, logind, pods) as seen:
        await until(lambda: len(pods.asked) == 2)
        assert seen.sign.is_set()
        assert logind.held() == 1
        assert read_times(tmp_path).end is None
        seen.arrived.set()
        await until(lambda: not logind.held())
        times = read_times(tmp_path)
        assert times.start is not None
        assert times.end is not None
        assert seen.times[-1] == (times.start.timestamp() // 1, times.end.timestamp() // 1)
        assert (seen.events, seen.sign.is_set()) == ([DETECTED], True)


async def test_a_cancelled_shutdown(tmp_path: Path, logind: SmallLogind) -> None:
    """Of the pods that were not asked yet, none is; the next shutdown waits again."""
    pods = Pods(snapshot("web"), snapshot("system", CRITICAL), stubborn="web")
    async with running(tmp_path, logind, pods) as seen:
        await until(lambda: pods.asked)
        logind.tell(False)
        await until(lambda: seen.events == [DETECTED, CANCELLED] and not seen.sign.is_set())
        assert (pods.order(), logind.held()) == (["web"], 1)
        pods.stubborn = ""
        seen.arrived.set()
        logind.tell(True)
        await until(lambda: not logind.held())
        assert pods.order() == ["web", "web", "system"]


async def test_an_end_that_fails_does_not_hold_up_the_machine(tmp_path: Path, logind: SmallLogind) -> None:
    """The lock is given up all the same."""
    pods = Pods(snapshot("web"))
    pods.known["web"] = None  # type: ignore[assignment]  # a defect
    async with running(tmp_path, logind, pods):
        await until(lambda: not logind.held())


async def test_without_the_gate_no_times_are_kept(tmp_path: Path, logind: SmallLogind) -> None:
    """GracefulNodeShutdownBasedOnPodPriority, as in the kubelet."""
    pods = Pods(snapshot("web"))
    async with running(tmp_path, logind, pods, shown=False) as seen:
        seen.arrived.set()
        await until(lambda: not logind.held())
    assert not (tmp_path / FILE).exists()


@pytest.mark.parametrize(
    ("content", "start", "end"),
    [
        pytest.param(
            '{"startTime":"2026-01-02T03:04:05.123456789Z","endTime":"0001-01-01T00:00:00Z"}',
            1767323045,
            None,
            id="the-kubelets-of-one-that-did-not-end",
        ),
        pytest.param(
            '{"startTime":"2026-01-02T03:04:05Z","endTime":"2026-01-02T04:04:15+01:00"}',
            1767323045,
            1767323055,
            id="with-a-zone",
        ),
        pytest.param("{}", None, None, id="empty"),
    ],
)
def test_the_kubelets_file(tmp_path: Path, content: str, start: int | None, end: int | None) -> None:
    """It is read as it is written there."""
    (tmp_path / FILE).write_text(content)
    found = read_times(tmp_path)
    assert [one and int(one.timestamp()) for one in (found.start, found.end)] == [start, end]


@pytest.mark.parametrize("content", ["", "[]", '{"startTime":"x"}', '{"startTime":"2026-01-02T03:04:05"}'])
def test_a_damaged_file(tmp_path: Path, content: str) -> None:
    """It is said, and shows nothing."""
    (tmp_path / FILE).write_text(content)
    with pytest.raises(ValueError, match=r"."):
        read_times(tmp_path)


def test_no_file(tmp_path: Path) -> None:
    """A machine that never shut down."""
    assert read_times(tmp_path) == ShutdownTimes()
