"""Does a node under pressure evict the right pod, one a round, whatever its pods answer?"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

import grpc
import pytest

from activities.clients.cri_error import CriError
from proto.node_pressure import node_pressure_path, read_node_pressure
from proto.temporal.operator import EvictPod, Rejection, StopPod
from proto.temporal.pod import Lifecycle
from tests.patience import PATIENCE
from tests.worker.host.pressure.pressed_node import DISK, HARD, PLENTY, SHORT, PressedNode, snapshot
from worker.daemon.background import in_background
from worker.delivery.lead import LeadUnavailable
from worker.host.pressure import evictions
from worker.host.pressure.memory_notices import NoNotices
from worker.machine import monotonic_clock
from worker.stats.node_stats import NodeStats
from workflows.decide.eviction.disks import Reclaim

SYSTEM: dict[str, Any] = {
    "pod": {
        "metadata": {"name": "system", "namespace": "default", "uid": "system"},
        "spec": {"priority": 2_000_000_000, "containers": []},
    }
}


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PressedNode:
    """Build a node with three pods; it has memory enough."""
    made = PressedNode(tmp_path, monkeypatch, HARD)
    made.add("system", 900, **SYSTEM)
    made.add("small", 10)
    made.add("greedy", 500)
    return made


async def test_nothing_is_asked_while_nothing_is_short(node: PressedNode) -> None:
    """The conditions are written once, so that a former worker's are gone."""
    assert await node.evictions.round() is None
    written = node_pressure_path(node.root_dir).stat().st_mtime_ns
    assert await node.evictions.round() is None
    assert (node.asked(), node.told, node.decided) == ([], [], [])
    assert node_pressure_path(node.root_dir).stat().st_mtime_ns == written


async def test_the_pod_that_uses_most_is_evicted_with_the_kubelets_words(node: PressedNode) -> None:
    """With the grace of a hard threshold, and with what put it in its place."""
    node.memory = [SHORT]
    assert await node.evictions.round() is not None
    ((workflow_id, asked),) = node.requests.asked
    assert workflow_id == "pod/greedy"
    assert isinstance(asked, EvictPod)
    assert (asked.operator, asked.reason, asked.grace) == ("", "Evicted", timedelta(seconds=1))
    assert asked.message == "The node was low on resource: memory. Threshold quantity: 100, available: 10. "
    assert asked.why == (
        "it uses 500 of memory, more than it requests; priority 0; place 1 of 3; the next would have been "
        "default/small: it uses 10 of memory, more than it requests; priority 0"
    )
    assert node.told == [("Warning", "EvictionThresholdMet", "Attempting to reclaim memory")]
    assert read_node_pressure(node.root_dir) == {"MemoryPressure"}
    assert [one.kind for one in node.decided] == ["MemoryPressure begins"]
    labels = {"eviction_signal": "memory.available"}
    for name in ("kubelet_evictions", "kubelet_eviction_stats_age_seconds_count"):
        assert node.registry.get_sample_value(name, labels) == 1


@pytest.mark.parametrize(
    ("known", "chosen"),
    [
        pytest.param({"memory": None}, "pod/new", id="without-statistics-first"),
        pytest.param(
            {"memory": 900, "lifecycle": Lifecycle.TERMINATED}, "pod/greedy", id="one-that-is-down-holds-nothing"
        ),
        pytest.param({"memory": 900, "phase": "Succeeded"}, "pod/greedy", id="nor-does-one-that-has-finished"),
        pytest.param(
            {"memory": 900, "phase": "Failed", "lifecycle": Lifecycle.TERMINATING},
            "pod/new",
            id="one-that-has-finished-and-is-being-stopped-does",
        ),
        pytest.param({"memory": 900, "pod": {}}, "pod/greedy", id="one-whose-spec-is-not-known-is-left-out"),
    ],
)
async def test_who_is_a_candidate(node: PressedNode, known: dict[str, Any], chosen: str) -> None:
    """As the kubelet's active pods."""
    node.add("new", **known)
    node.memory = [SHORT]
    await node.evictions.round()
    assert node.asked() == [chosen]


@pytest.mark.parametrize(
    ("left", "evicted"),
    [
        pytest.param([10, 150], [], id="enough"),
        pytest.param([10, 149], ["pod/greedy"], id="less-than-the-threshold-and-its-minimum-reclaim"),
    ],
)
async def test_what_nobody_needs_goes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: list[int], evicted: list[str]
) -> None:
    """Dead containers, then unused images; the disk is measured anew, and only then a pod is evicted."""
    node = PressedNode(tmp_path, monkeypatch, DISK)
    node.add("greedy", 1)
    node.left_on_disk = left
    await node.evictions.round()
    assert node.reclaimed == [Reclaim.DEAD_CONTAINERS, Reclaim.UNUSED_IMAGES]
    assert node.asked() == evicted
    assert node.told == [("Warning", "EvictionThresholdMet", "Attempting to reclaim ephemeral-storage")]
    assert read_node_pressure(tmp_path) == {"DiskPressure"}
    kinds = ["DiskPressure begins"] if evicted else ["DiskPressure begins", "reclaimed/nodefs.available"]
    assert [one.kind for one in node.decided] == kinds


async def test_a_pod_that_is_being_stopped_gets_less_time(node: PressedNode) -> None:
    """It is not evicted a second time."""
    node.add("going", 900, lifecycle=Lifecycle.TERMINATING, deleting=True)
    node.memory = [SHORT]
    assert await node.evictions.round() is not None
    assert node.requests.asked == [("pod/going", StopPod("", timedelta(seconds=1)))]


async def test_one_that_rejects_it_is_passed_over(node: PressedNode) -> None:
    """It has just finished; nobody is left at last."""
    node.memory = [SHORT]
    node.requests.answers["pod/greedy"] = Rejection("Finished", "it has finished")
    assert await node.evictions.round() is not None
    assert node.asked() == ["pod/greedy", "pod/small"]
    node.requests.answers["pod/small"] = Rejection("Finished", "it has finished")
    assert await node.evictions.round() is None
    assert node.asked()[2:] == ["pod/greedy", "pod/small"], "never the pod of the system"
    assert node.decided[-1].words == (
        "no pod can be evicted for memory: of 3 pods 1 are critical; default/greedy rejects it: Finished; "
        "default/small rejects it: Finished: memory.available is 10 of 1k, threshold 100"
    )


async def test_one_that_cannot_be_reached_is_asked_again_in_the_next_round(node: PressedNode) -> None:
    """No other pod pays for it."""
    node.memory = [SHORT]
    node.requests.answers["pod/greedy"] = LeadUnavailable("nobody answers")
    assert await node.evictions.round() is None
    del node.requests.answers["pod/greedy"]
    assert await node.evictions.round() is not None
    assert node.asked() == ["pod/greedy"] * 2


async def test_nobody_is_evicted_without_measurements(node: PressedNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """A runtime that is down would make every pod one without statistics."""

    async def fails(_: object) -> dict[str, Any]:
        raise CriError("ListContainers", grpc.StatusCode.UNAVAILABLE, "down")

    node.memory = [SHORT]
    monkeypatch.setattr(NodeStats, "uses", fails)
    assert await node.evictions.round() is None
    assert node.asked() == []


async def test_the_next_round_begins_when_the_victim_is_cleaned_up(
    node: PressedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not before: one pod at a time."""
    monkeypatch.setattr(evictions, "SOONEST", timedelta())
    monkeypatch.setattr(evictions, "until_next_round", lambda *_: timedelta())
    node.memory = [SHORT]
    async with in_background("eviction", node.evictions.run):
        await _until(lambda: bool(node.asked()))
        node.publish(snapshot("greedy", Lifecycle.TERMINATING))
        node.publish(snapshot("greedy", Lifecycle.TERMINATED))  # its volumes are still mounted
        node.publish(snapshot("small", Lifecycle.TERMINATED, released=True))
        await asyncio.sleep(0)
        assert node.asked() == ["pod/greedy"]
        node.pods = [one for one in node.pods if one.uid != "greedy"]
        await asyncio.to_thread(node.publish, snapshot("greedy", Lifecycle.TERMINATED, released=True))
        await _until(lambda: len(node.asked()) > 1)
        assert node.asked() == ["pod/greedy", "pod/small"]


async def test_a_victim_that_does_not_end_is_not_awaited_for_ever(
    node: PressedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node judges anew."""
    monkeypatch.setattr(evictions, "CLEANED_UP_WITHIN", timedelta())
    node.memory = [SHORT]
    async with in_background("eviction", node.evictions.run):
        await _until(lambda: len(node.asked()) > 1)


async def test_the_kernel_wakes_the_judge(node: PressedNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long before the next round, and what it then does is decided by its measurement."""
    notices, wanted = NoNotices(), []

    @contextlib.contextmanager
    def given(*_: object, **asked: bool) -> Iterator[NoNotices]:
        wanted.append(asked)
        yield notices

    monkeypatch.setattr(evictions, "memory_notices", given)
    monkeypatch.setattr(evictions, "SOONEST", timedelta())
    monkeypatch.setattr(evictions, "until_next_round", lambda *_: timedelta(days=1))
    node.memory = [PLENTY, PLENTY, SHORT]
    async with in_background("eviction", node.evictions.run):
        for left in (2, 1):
            await _until(lambda left=left: len(node.memory) == left)  # type: ignore[misc]  # its default is the loop's
            await asyncio.sleep(0.05)
            assert (node.asked(), len(node.memory)) == ([], left), "without a word of the kernel no round begins"
            notices.woken.set()
        await _until(lambda: bool(node.asked()))
    assert wanted == [{"wanted": False}]


class Later(datetime):
    """A clock that was set forward by an hour."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]  # gives what arithmetic gives
        """Return its time."""
        return datetime.now(tz) + timedelta(hours=1)


async def test_a_condition_lasts_as_long_as_it_is_said(node: PressedNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changing the system time does not end it early."""
    node.memory = [SHORT, PLENTY]
    await node.evictions.round()
    for module in (evictions, monotonic_clock):
        monkeypatch.setattr(module, "datetime", Later, raising=False)
    await node.evictions.round()
    assert read_node_pressure(node.root_dir) == {"MemoryPressure"}
    assert len(node.asked()) == 1
    later = datetime.now(UTC) + timedelta(hours=1)
    monkeypatch.setattr(evictions, "monotonic_now", lambda: later)
    await node.evictions.round()
    assert read_node_pressure(node.root_dir) == set()


async def _until(holds: Callable[[], bool], look: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
    async with asyncio.timeout(PATIENCE):
        while not holds():
            await look(0.001)
