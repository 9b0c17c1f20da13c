"""Is no CPU given twice, and none lost, whatever ends at which moment?

A model: pods come and end, the worker is killed before or after it has written its file or while its answer is on its way, the file or
the ledger is lost, the CPUs of pods that are over are freed late or not at all. The ledger's rules and the worker's choice are the real ones.
"""

from pathlib import Path

import pytest

from activities.hardware.services import HardwareRefused
from proto.temporal.hardware.ledger import Admit, AllocateHardware, PodAssignment
from proto.temporal.node import NodeObserved
from tests.worker.hardware.ledger_model import Killed, LedgerModel
from tests.worker.hardware.test_exclusive_cpus import loaded, pod
from tests.worker.settings.hardware.machines import Shape, machine
from worker.hardware.exclusive_cpus import ExclusiveCpus
from worker.hardware.node_hardware import NodeHardware
from worker.settings.hardware.cpu_manager import CpuManager
from worker.settings.hardware.cpu_topology import read_topology
from workflows.decide.cpus.cpu_sets import parse_cpus
from workflows.decide.cpus.options import Options
from workflows.decide.cpus.state_file import STATE_FILE
from workflows.decide.cpus.static_policy import static_policy
from workflows.decide.node import ledger

SEEDS, STEPS, CPUS = 150, 40, 8


class Model(LedgerModel):
    """One node."""

    def __init__(self, seed: int, folder: Path) -> None:
        super().__init__(seed)
        topology = read_topology(*machine(folder / "machine", Shape(cores_per_node=CPUS)))
        self.settings = CpuManager(static_policy(topology, Options(), 1))
        (folder / "node").mkdir()
        self.root_dir = folder / "node"
        self.worker = self.started()
        self.is_file_whole = True
        """The worker has written it since it was lost."""

    def started(self) -> NodeHardware:
        """Start a worker on what is on disk."""
        return NodeHardware([loaded(self.settings, self.root_dir)])

    async def step(self) -> None:
        """Let something happen."""
        what = [self.come, self.try_again, self.end, self.reconcile, self.restart, self.lose]
        await self.rng.choices(what, [5, 5, 4, 3, 2, 1])[0]()
        self.check()

    async def come(self) -> None:
        """A pod is created."""
        self.pods += 1
        uid = f"p{self.pods}"
        self.waiting[uid] = pod(uid, *self.rng.choice([(1,), (2,), (3,), (1, 1), (4,)]))
        await self.admit(uid)

    async def chosen(self, action: AllocateHardware) -> PodAssignment:
        """Have the worker choose; it may be killed before or after that is on disk."""
        moment = self.rng.random()
        if moment < 0.1:
            raise Killed
        given = await self.worker.allocate(action)
        self.is_file_whole = True
        if moment < 0.25:
            raise Killed
        if moment < 0.4:  # the activity runs once more
            self.worker = self.started()
            assert await self.worker.allocate(action) == given
        return given

    def told(self, uid: str, given: PodAssignment) -> None:
        """The pod starts."""
        del self.waiting[uid]
        cpus = [parse_cpus(one.cpus) for one in given.containers.values()]
        assert sum(map(len, cpus)) == len(frozenset().union(*cpus)), "each container of a pod has its own"
        self.running[uid] = frozenset().union(*cpus)

    async def end(self) -> None:
        """A pod ends, or is deleted before it was admitted."""
        if some := sorted([*self.running, *self.waiting]):
            uid = self.rng.choice(some)
            self.running.pop(uid, None)
            self.waiting.pop(uid, None)

    async def reconcile(self) -> None:
        """The worker frees what pods have that are over."""
        await self.worker.release(self.worker.holders() - self.running.keys() - self.waiting.keys())

    async def lose(self) -> None:
        """The file or the ledger is lost, as long as the other one knows all pods that run."""
        if self.rng.random() < 0.5 and self.running.keys() <= self.observed.assignments.keys():
            (self.root_dir / STATE_FILE).unlink()
            self.worker, self.is_file_whole = self.started(), False
        elif self.is_file_whole:
            self.observed = NodeObserved()

    def check(self) -> None:
        """Check that no CPU was given twice, and that the reserved one was not given."""
        given = [cpu for cpus in self.running.values() for cpu in cpus]
        assert len(given) == len(set(given)), self.running
        assert 0 not in given


@pytest.mark.parametrize("first", range(0, SEEDS, 50))
async def test_no_cpu_is_given_twice_and_none_is_lost(tmp_path: Path, first: int) -> None:
    """In the end all CPUs but the reserved one can be given to one pod."""
    await lead(tmp_path, range(first, first + 50))


async def test_a_worker_that_does_not_heed_the_ledger_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves that the model can fail."""
    monkeypatch.setattr(ExclusiveCpus, "keep", lambda *_: None)
    with pytest.raises((AssertionError, HardwareRefused)):
        await lead(tmp_path, range(50))


async def lead(tmp_path: Path, seeds: range) -> None:
    """Let things happen, then give all CPUs but the reserved one to one pod."""
    for seed in seeds:
        (folder := tmp_path / str(seed)).mkdir()
        model = Model(seed, folder)
        for _ in range(STEPS):
            await model.step()
        model.running.clear()
        model.waiting.clear()
        everything = pod("last", CPUS - 1)
        assert not ledger.admitted(model.observed, Admit(everything))
        (action,) = ledger.allocations(model.observed, [Admit(everything)], ())
        given = await model.worker.allocate(action)
        assert given.containers["c0"].cpus == f"1-{CPUS - 1}", seed
