"""Is no device given twice, and none lost, whatever ends at which call of a plugin?

A model: pods come and end, devices fail and recover, the worker is killed at each call of the plugin, before or after its checkpoint is
written or while its answer is on its way, the checkpoint or the ledger is lost, both of them where containers have the annotation that
names their devices. The ledger's rules and the worker's choice are the real ones.
"""

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from activities.clients.device_plugins.device_plugin import DevicePluginError
from activities.hardware.services import HardwareRefused
from proto.cri.runtime_container import RuntimeContainer
from proto.deviceplugin.v1beta1 import api_pb2 as api
from proto.temporal.hardware.ledger import AllocateHardware, PodAssignment
from proto.temporal.node import NodeObserved
from tests.worker.hardware.ledger_model import Killed, LedgerModel
from worker.devices.checkpoint_files import load_checkpoint
from worker.devices.counts import Uncounted
from worker.devices.device_manager import DeviceManager
from worker.hardware.node_hardware import NodeHardware
from workflows.decide.devices.assignments import Assigned
from workflows.decide.devices.checkpoint import STATE_FILE
from workflows.decide.devices.inventory import Inventory, Listed
from workflows.decide.devices.recovery import recovered, written_devices

SEEDS, STEPS, GPU = 150, 40, "example.com/gpu"
ALL = frozenset(f"d{number}" for number in range(6))


class Plugins:
    """One plugin; plays DevicePlugins."""

    def __init__(self, rng: Random) -> None:
        self._rng, self.healthy, self.removed = rng, ALL, set[str]()

    @property
    def inventory(self) -> Inventory:
        """List the devices."""
        return {GPU: Listed(dict.fromkeys(ALL, ()), self.healthy, ALL - self.healthy)}

    def socket_of(self, _: str) -> str:
        """Return where it listens."""
        return "/plugin"

    async def preferred(self, _: str, available: Iterable[str], must_include: Iterable[str], size: int) -> list[str]:
        """Prefer whatever it likes."""
        self._end()
        return self._rng.choice([[], [*must_include], sorted(available)[-size:], ["nowhere"], sorted(ALL)])

    async def allocate(self, _: str, devices: Iterable[str]) -> api.ContainerAllocateResponse:
        """Prepare devices, or fail."""
        self._end()
        if self._rng.random() < 0.05:
            raise DevicePluginError("it fails")
        return api.ContainerAllocateResponse(envs={"HAS": " ".join(sorted(devices))})

    async def pre_start(self, _: str, __: Iterable[str]) -> None:
        """Prepare a start."""

    def _end(self) -> None:
        if self._rng.random() < 0.1:
            raise Killed


class Model(LedgerModel):
    """One node."""

    def __init__(self, seed: int, folder: Path) -> None:
        super().__init__(seed)
        self.root_dir, self.plugins, self.lost = folder, Plugins(self.rng), set[str]()
        self.has_annotations = self.rng.random() < 0.5
        self.worker = self.started()

    def started(self) -> NodeHardware:
        """Start a worker on what is on disk."""
        known = load_checkpoint(self.root_dir)
        if self.has_annotations:
            known = replace(known, assignments=recovered(known.assignments, self._left()).assignments)
        plugins: Any = self.plugins
        return NodeHardware([DeviceManager(plugins, self.root_dir, (0,), known, counts=Uncounted())])

    def _left(self) -> Iterator[RuntimeContainer]:
        """Yield the containers that the runtime has."""
        for uid, containers in self.running.items():
            for name, had in containers.items():
                yield RuntimeContainer(uid, name, devices=written_devices({GPU: Assigned({-1: tuple(had.split())})}))

    async def step(self) -> None:
        """Let something happen."""
        what = [self.come, self.try_again, self.end, self.release, self.restart, self.lose, self.fail]
        await self.rng.choices(what, [5, 5, 4, 3, 2, 1, 2])[0]()
        await self.check()

    async def come(self) -> None:
        """A pod is created, some with an init container, which leaves its devices to the others."""
        self.pods += 1
        uid, first = f"p{self.pods}", self.rng.choice([0, 0, 1, 2])
        made = [
            self._container(f"c{number}", count)
            for number, count in enumerate(self.rng.choice([(1,), (2,), (1, 1), (3,)]))
        ]
        spec = {"containers": made} | ({"initContainers": [self._container("init", first)]} if first else {})
        self.waiting[uid] = {"metadata": {"namespace": "default", "name": uid, "uid": uid}, "spec": spec}
        await self.admit(uid)

    def _container(self, name: str, count: int) -> dict[str, Any]:
        return {"name": name, "resources": {"limits": {GPU: str(count)}}}

    async def chosen(self, action: AllocateHardware) -> PodAssignment:
        """Have the worker choose; what it writes when it is killed at a call of the plugin is not on disk."""
        file = self.root_dir / STATE_FILE
        before = file.read_bytes() if file.exists() else None
        try:
            given = await self.worker.allocate(action)
        except Killed:
            file.unlink(missing_ok=True)
            if before is not None:
                file.write_bytes(before)
            raise
        if self.rng.random() < 0.2:
            raise Killed
        return given

    def told(self, uid: str, given: PodAssignment) -> None:
        """The pod starts."""
        del self.waiting[uid]
        self.running[uid] = {
            name: " ".join(sorted(device for one in had.devices for device in one.ids))
            for name, had in given.containers.items()
        }

    async def end(self) -> None:
        """A pod is over, or was never told."""
        for pods in (self.running, self.waiting):
            if pods and self.rng.random() < 0.5:
                pods.pop(self.rng.choice(sorted(pods)))

    async def release(self) -> None:
        """The worker frees what pods have that are over."""
        await self.worker.release(self.worker.holders() - {*self.running, *self.waiting})

    async def lose(self) -> None:
        """The checkpoint or the ledger is lost, as long as the other one knows all pods that run; both, if the runtime does."""
        if self.has_annotations and self.rng.random() < 0.5:
            (self.root_dir / STATE_FILE).unlink(missing_ok=True)
            self.observed, self.worker = NodeObserved(), self.started()
            self.lost = {*self.running, *self.waiting}
        elif self.rng.random() < 0.5 and self.running.keys() <= self.observed.assignments.keys():
            (self.root_dir / STATE_FILE).unlink(missing_ok=True)
            self.worker = self.started()
            self.lost = {*self.running, *self.waiting}
        elif not self.lost & {*self.running, *self.waiting}:
            self.observed = NodeObserved()

    async def fail(self) -> None:
        """Devices fail, or recover."""
        self.plugins.healthy = ALL - frozenset(self.rng.sample(sorted(ALL), self.rng.choice([0, 0, 1, 3])))

    async def check(self) -> None:
        """No two pods have one device, and each container starts with its own, or not at all."""
        of_pods = [frozenset(" ".join(had.values()).split()) for had in self.running.values()]
        assert sum(map(len, of_pods)) == len(frozenset().union(*of_pods))
        for uid, containers in self.running.items():
            for name, had in containers.items():
                if uid not in self.lost:
                    assert self.worker.of(uid, name).environment == {"HAS": had}
                with contextlib.suppress(HardwareRefused):
                    await self.starting(uid, name, len(had.split()))
                    assert self.worker.of(uid, name).environment == {"HAS": had}

    async def starting(self, uid: str, name: str, count: int) -> None:
        """Prepare a start; a worker that is killed meanwhile begins anew, and the start is tried again."""
        while True:
            try:
                return await self.worker.starting(uid, self._container(name, count))
            except Killed:
                self.worker = self.started()


@pytest.mark.parametrize("first", range(0, SEEDS, 50))
async def test_no_device_is_given_twice(first: int, tmp_path: Path) -> None:
    """And at the end all of them can be had again."""
    await lead(range(first, first + 50), tmp_path)


async def test_a_worker_that_does_not_heed_the_ledger_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves that the model can fail."""
    monkeypatch.setattr(DeviceManager, "keep", lambda *_: None)
    with pytest.raises((AssertionError, KeyError)):
        await lead(range(50), tmp_path)


async def lead(seeds: range, folder: Path) -> None:
    """Lead the lives of these seeds."""
    for seed in seeds:
        await lead_one(seed, folder)


async def lead_one(seed: int, folder: Path) -> None:
    """Let things happen, then give all devices to one pod."""
    (root_dir := folder / str(seed)).mkdir()
    model = Model(seed, root_dir)
    for _ in range(STEPS):
        await model.step()
    model.plugins.healthy = ALL
    model.running.clear()
    model.waiting.clear()
    spec = {"containers": [model._container("c0", len(ALL))]}
    last = {"metadata": {"namespace": "default", "name": "last", "uid": "last"}, "spec": spec}
    for _ in range(100):  # the worker may be killed, the plugin may fail, or the answer may be lost
        model.waiting["last"] = last
        await model.admit("last")
        if "last" in model.running:
            break
    assert model.running["last"] == {"c0": " ".join(sorted(ALL))}
