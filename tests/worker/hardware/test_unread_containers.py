"""Is what a container has kept from others while the runtime does not tell of it, and is that waited for no longer than needed?"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import cast

import grpc
import pytest
from structlog.testing import capture_logs

from activities.clients.cri_error import CriError
from activities.clients.runtime import RuntimeClient
from activities.hardware.services import HardwareRefused
from proto.cri.runtime_container import RuntimeContainer
from proto.pod_snapshot import ContainerSnapshot
from proto.temporal.hardware.ledger import FOR_GOOD, AllocateHardware
from proto.temporal.pod import ContainerState, Lifecycle
from tests.patience import PATIENCE
from tests.worker.hardware.test_cpu_sets_in_force import Runtime
from tests.worker.hardware.test_exclusive_cpus import on_disk, pod, root_dir, settings
from tests.worker.hardware.test_lost_state import OWN
from tests.worker.hardware.test_memory_of_nodes import GIB, SETTINGS
from tests.worker.poller.snapshots import snapshot
from worker.hardware import unread_containers
from worker.hardware.cpu_sets_in_force import CpuSetsInForce
from worker.hardware.exclusive_cpus import load_cpus
from worker.hardware.memory_of_nodes import load_memory
from worker.hardware.node_hardware import NodeHardware
from worker.hardware.unread_containers import LONGEST, UNREAD, UnreadContainers, goes_on, waiting_for
from worker.settings.hardware.cpu_manager import CpuManager
from workflows.decide.cpus.state_file import STATE_FILE
from workflows.decide.memory_nodes.state_file import STATE_FILE as MEMORY_FILE

__all__ = ["root_dir", "settings"]  # fixtures

SHARED = RuntimeContainer("s", "c0", cpuset_cpus="0,3")
AWAY = CriError("ListContainers", grpc.StatusCode.UNAVAILABLE, "away")


@pytest.mark.parametrize(
    ("unread", "waited", "is_waited"),
    [
        pytest.param({"x"}, 0.0, True, id="just-begun"),
        pytest.param({"x"}, LONGEST - 1, True, id="not-told-yet"),
        pytest.param({"x"}, LONGEST, False, id="never-told"),
        pytest.param(set(), 0.0, False, id="told-or-gone"),
    ],
)
def test_how_long_hardware_is_held_back(unread: set[str], waited: float, is_waited: bool) -> None:
    """While something is not known, but not for ever."""
    assert goes_on(unread, waited) is is_waited


def test_the_sentence_is_short_however_many_there_are() -> None:
    """It says how many, and names three."""
    told = waiting_for([f"id{number}" for number in range(1000)])
    assert "1000 of its containers" in told
    assert told.count("id") == 3
    assert len(told) < 300


@dataclass
class Reader:
    """Tells what the test says at each reading; an error is raised."""

    readings: list[tuple[Sequence[RuntimeContainer], set[str]] | Exception]
    was_incomplete: bool = True
    unread: set[str] = field(default_factory=lambda: {"id-of-a"})
    asked: int = 0

    async def read_again(self) -> Sequence[RuntimeContainer]:
        """Give the next reading; the last one stays."""
        self.asked += 1
        reading = self.readings.pop(0) if len(self.readings) > 1 else self.readings[0]
        if isinstance(reading, Exception):
            raise reading
        found, self.unread = reading
        return found


class Node:
    """A node of four CPUs and two NUMA nodes, both of whose state files are lost."""

    def __init__(self, settings: CpuManager, root_dir: Path, reader: Reader, now: float = 0.0) -> None:
        self.now = 0.0
        self.unread = UnreadContainers(reader, clock=lambda: self.now)
        self.now = now
        cpus = load_cpus(settings, root_dir, left=lambda: (SHARED,), unread=self.unread)
        memory = load_memory(SETTINGS, root_dir, left=lambda: (SHARED,), unread=self.unread)
        assert cpus
        assert memory
        self.hardware = NodeHardware([cpus, memory], unread=self.unread)
        self.runtime = Runtime()
        running = {"c0": ContainerSnapshot("id-of-a", ContainerState.RUNNING)}
        pods = [replace(snapshot("a"), phase="Running", lifecycle=Lifecycle.SYNC, containers=running)]
        self.kept = CpuSetsInForce(
            self.hardware, cast("RuntimeClient", self.runtime), lambda: pods, timedelta(seconds=10)
        )

    async def run(self) -> None:
        """Wait until all is known, or not waited for any more."""
        async with asyncio.timeout(PATIENCE):
            await self.unread.run(self.hardware.recovered)


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read again at once."""
    monkeypatch.setattr(unread_containers, "FIRST_PAUSE", 0.0)


OF_A = replace(OWN, cpuset_mems="1", memory_limit=2 * GIB)


async def test_nobody_is_given_or_told_anything_meanwhile(settings: CpuManager, root_dir: Path) -> None:
    """Who asks is told why, and may ask again; the lost files stay lost, so that a worker that starts now asks the runtime, too."""
    node = Node(settings, root_dir, Reader([((SHARED, OF_A), set())]))
    with pytest.raises(HardwareRefused, match=r"waiting, .* 1 of its containers have, .* \(id-of-a\)") as why:
        await node.hardware.allocate(AllocateHardware(pod("b", 1)))
    assert why.value.reason == UNREAD
    assert UNREAD not in FOR_GOOD
    await node.kept.reconcile()
    await node.hardware.release({"s"})
    assert not node.runtime.told, "it would lose its CPUs"
    assert not (root_dir / STATE_FILE).exists()
    assert not (root_dir / MEMORY_FILE).exists()


async def test_what_is_told_later_is_kept(settings: CpuManager, root_dir: Path) -> None:
    """The runtime may be away in between, and tell of no other; then all goes on, and the files are written."""
    reader = Reader([AWAY, ((SHARED,), {"id-of-a"}), TimeoutError(), ((SHARED, OF_A), set())])
    node = Node(settings, root_dir, reader)
    await node.run()
    assert reader.asked == 4
    assert on_disk(root_dir) == ("0,3", {"a": {"c0": "1-2"}})
    assert json.loads((root_dir / MEMORY_FILE).read_text())["entries"].keys() == {"a"}
    await node.kept.reconcile()
    assert node.runtime.told == [("id-of-a", "1-2")]
    with pytest.raises(HardwareRefused, match="requested=2, available=1"):
        await node.hardware.allocate(AllocateHardware(pod("b", 2)))
    given = await node.hardware.allocate(AllocateHardware(pod("b", 1)))
    assert given.containers["c0"].cpus == "3"


@pytest.mark.parametrize(
    ("readings", "now", "warned"),
    [
        pytest.param([((SHARED,), set[str]())], 0.0, 1, id="it-is-gone"),
        pytest.param([((SHARED,), {"id-of-a"})], LONGEST, 2, id="it-is-never-told"),
    ],
)
async def test_a_container_that_is_not_waited_for_any_more(
    settings: CpuManager,
    root_dir: Path,
    readings: list[tuple[Sequence[RuntimeContainer], set[str]] | Exception],
    now: float,
    warned: int,
) -> None:
    """Others get the CPUs; a container of which the runtime never told is named in the log."""
    node = Node(settings, root_dir, Reader(readings), now)
    with capture_logs() as logs:
        await node.run()
    assert [one["log_level"] for one in logs] == ["warning"] * warned
    assert on_disk(root_dir) == ("0-3", {})
    assert (await node.hardware.allocate(AllocateHardware(pod("b", 3)))).containers["c0"].cpus == "1-3"


async def test_nothing_is_waited_for_if_the_reading_was_complete(settings: CpuManager, root_dir: Path) -> None:
    """Nor if no file was lost, or only one of them: the other one is written as ever."""
    reader = Reader([AWAY], was_incomplete=False)
    node = Node(settings, root_dir, reader)
    await node.run()
    await node.hardware.allocate(AllocateHardware(pod("b", 3)))
    assert on_disk(root_dir) == ("0", {"b": {"c0": "1-3"}})
    (root_dir / MEMORY_FILE).unlink()
    again = Node(settings, root_dir, Reader([((SHARED, OF_A), set())]))
    await again.hardware.release({"b"})
    assert on_disk(root_dir) == ("0-3", {})
    assert not (root_dir / MEMORY_FILE).exists()
    await again.run()
    assert on_disk(root_dir) == ("0-3", {}), "what is on disk counts"
    assert json.loads((root_dir / MEMORY_FILE).read_text())["entries"].keys() == {"a"}
    assert not reader.asked
