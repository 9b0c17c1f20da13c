"""Are the node's processes, and all that are in no cgroup, moved where the configuration says, again each minute?"""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from activities.machine.cgroup_hierarchies import Hierarchies
from activities.machine.process_cgroups import ProcessCgroups
from tests.patience import PATIENCE
from worker.host.cgroups.system_cgroups import EVERY, move_processes, moving_processes
from worker.settings.cgroups.agent import AgentProcesses


class Machine(ProcessCgroups):
    """Processes by the cgroup that they are in; some end, some cannot be moved."""

    def __init__(self) -> None:
        super().__init__(Hierarchies(v2=Path("/nowhere"), v1={}))
        self.places = dict.fromkeys((7, 8, 9), "/")
        self.errors: dict[int, OSError] = {}
        self.moves = 0

    def move(self, pid: int, cgroup: str) -> bool:
        """Move it, unless it cannot be."""
        self.moves += 1
        if error := self.errors.get(pid):
            if isinstance(error, ProcessLookupError):
                del self.places[pid]
            raise error
        moved = self.places.get(pid) != cgroup
        self.places[pid] = cgroup
        return moved

    def in_none(self) -> list[int]:
        """List those in the root."""
        return [pid for pid, place in self.places.items() if place == "/"]


def test_all_that_are_in_none_and_the_nodes_own() -> None:
    """The node's own last, into theirs."""
    machine = Machine()
    move_processes(AgentProcesses("/kube", "/system"), machine, lambda: [7])
    assert machine.places == {7: "/kube", 8: "/system", 9: "/system"}


def test_one_that_cannot_be_moved_holds_up_no_other() -> None:
    """It is tried again a few times, then the next minute; one that has ended is no failure."""
    machine = Machine()
    machine.errors = {7: PermissionError(1, "no"), 8: ProcessLookupError(3, "gone")}
    move_processes(AgentProcesses("/kube", "/system"), machine, lambda: [10])
    assert machine.places == {7: "/", 9: "/system", 10: "/kube"}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param(AgentProcesses("/kube"), {7: "/kube", 8: "/", 9: "/"}, id="only-the-nodes-own"),
        pytest.param(AgentProcesses("", "/system"), {7: "/system", 8: "/system", 9: "/system"}, id="only-the-others"),
    ],
)
def test_what_is_not_configured_stays(settings: AgentProcesses, expected: dict[int, str]) -> None:
    """Each key alone."""
    machine = Machine()
    move_processes(settings, machine, lambda: [7])
    assert machine.places == expected


async def test_it_goes_on_while_the_worker_runs() -> None:
    """A process that starts later follows; without a key nothing is looked at."""
    machine, moved = Machine(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def own() -> list[int]:
        loop.call_soon_threadsafe(moved.set)
        return [7]

    assert timedelta(minutes=1) == EVERY
    async with moving_processes(AgentProcesses("/kube"), machine, own, timedelta(milliseconds=10)):
        for _ in range(2):
            await asyncio.wait_for(moved.wait(), PATIENCE)
            moved.clear()
    assert machine.places[7] == "/kube"
    moves = machine.moves
    async with moving_processes(AgentProcesses(), machine, own, timedelta(0)):
        await asyncio.sleep(0)
    assert machine.moves == moves
