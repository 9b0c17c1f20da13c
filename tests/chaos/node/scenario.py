"""One scenario: some pods, one fault drawn from the table, and the oracle. All choices come from the seed.

The fault strikes while the pods start, while they run and one of their containers dies, or while they are deleted. A pod that has
nothing to do with it must not notice.
"""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from temporalio.service import RPCError

from activities.files import mounts
from proto.pod_snapshot import PodSnapshot
from tests.chaos.node import oracle
from tests.chaos.node.cri_proxy import CriProxy
from tests.chaos.node.faults import FAULTS
from tests.chaos.node.pods import SHAPES, Expected, one
from tests.chaos.node.scene import PHASES, Scene
from tests.node.containerd_view import container_pid, containers_of
from tests.node.tempolet_node import PATIENCE, tempolet_node
from worker.standalone.containerd import Containerd
from worker.standalone.temporal_server import TemporalServer

AWAY_AFTER: Final = 4.0
STATE_BYTES: Final = 24 << 20
BYSTANDER: Final = "bystander"
SETTLES_WITHIN: Final = 2 * PATIENCE
LOOK_AGAIN: Final = 0.1
STAYS: Final = 1.0
"""Seconds for which the end must stay as it is."""


class Broken(AssertionError):
    """An invariant does not hold."""


@dataclass(slots=True)
class Scenario:
    """A scenario on the session's containerd and Temporal."""

    fault: str
    seed: int
    folder: Path
    containerd: Containerd
    temporal: TemporalServer
    recovery: float = 0.0
    """Seconds from the mended fault until all was as expected."""
    scene: Scene = field(init=False)
    expected: list[Expected] = field(default_factory=list)
    alive: dict[str, PodSnapshot] = field(default_factory=dict)
    """Every pod's snapshot when it was last seen."""

    def run(self) -> None:
        """Play it; raises Broken or TimeoutError with the seed, the timeline, and where ledger and histories are."""
        rng = Random(f"{self.fault} {self.seed}")
        keys = {
            "containerRuntimeEndpoint": f"unix://{self.folder / 'cri'}",
            "featureGates": {"KubeletCrashLoopBackOffMax": True},
            "crashLoopBackOff": {"maxContainerRestartPeriod": "1s"},
            "syncFrequency": "10s",
        }
        self.containerd.start()  # an earlier scenario may have failed between a kill and the start after it
        self.temporal.start()
        with (
            CriProxy(self.folder / "cri", self.containerd.endpoint) as proxy,
            own_disk(self.folder / "node" / "kubelet" / "tempolet"),
            tempolet_node(
                self.folder / "node", self.containerd, self.temporal, keys=keys, away_after=f"{AWAY_AFTER:g}s"
            ) as node,
        ):
            self.scene = Scene(node, proxy, rng, AWAY_AFTER, rng.choice(PHASES))
            try:
                with self.scene.observed():
                    self._play()
            except Exception as error:
                proxy.ledger.write(self.folder / "ledger.jsonl")
                told = f"{type(error).__name__}: {error}\n{self.told()}"
                (self.folder / "broken.txt").write_text(told)
                raise Broken(told) from error

    def told(self) -> str:
        """Tell what reproduces and explains it."""
        lines = [f"make chaos ARGS='--seed {self.seed} --scenario {self.fault}'", *self.scene.timeline]
        return "\n".join([*lines, f"ledger, logs and histories: {self.folder}"])

    def _play(self) -> None:
        scene, node, phase = self.scene, self.scene.node, self.scene.phase
        manifest, quiet = one(BYSTANDER)
        node.apply(manifest)
        bystander = self._running(BYSTANDER)
        kinds = scene.rng.sample(sorted(SHAPES), 3)
        pods = [SHAPES[kind](f"{kind}-{number}") for number, kind in enumerate(kinds)]
        self.expected = [expected for _, expected in pods]
        scene.note(f"{self.fault}, seed {self.seed}: {', '.join(kinds)}, while {phase}")

        def begin() -> None:
            for made, _ in pods:
                node.apply(made)

        if phase != "starting":
            begin()
            self._settle(restarts=False)
        work: Callable[[], None] = {"starting": begin, "running": self._crash, "deleting": self._delete}[phase]
        with FAULTS[self.fault].happens(scene):
            work()
        mended = time.monotonic()
        scene.proxy.faults.clear()
        if phase != "deleting":
            self._settle(restarts=FAULTS[self.fault].restarts)
            self.recovery = time.monotonic() - mended
            self._delete()
        self._until_empty(lambda: self._there([expected.name for expected in self.expected]))
        self.recovery = self.recovery or time.monotonic() - mended
        self._unaffected(bystander, quiet)
        self._end()

    def _settle(self, *, restarts: bool) -> None:
        """Wait until the pods are as expected, and see that they stay so."""
        scene, found = self.scene, ["nothing was seen yet"]
        deadline = time.monotonic() + SETTLES_WITHIN
        while found and time.monotonic() < deadline:
            time.sleep(LOOK_AGAIN)
            scene.supervise()
            found = list(oracle.settled_wrong(scene, self.expected, restarts=restarts))
            if not found:
                time.sleep(STAYS)
                found = list(oracle.settled_wrong(scene, self.expected, restarts=restarts))
        for expected in self.expected:
            if shot := scene.node.pod(expected.name):
                self.alive[shot.uid] = shot
        scene.note("settled" if not found else "; ".join(found))
        self._require(found)

    def _running(self, name: str) -> PodSnapshot:
        shot = self.scene.node.until_running(name)
        self.alive[shot.uid] = shot
        return shot

    def _crash(self) -> None:
        """Let a container die."""
        candidates = [index for index, one in enumerate(self.expected) if one.phase == "Running"]
        index = self.scene.rng.choice(candidates)
        expected = self.expected[index]
        shot = self._running(expected.name)
        self.scene.note(f"kill -9 of the main container of {expected.name}")
        os.kill(container_pid(self.containerd, shot.containers["main"].container_id), signal.SIGKILL)
        self.expected[index] = Expected(expected.name, expected.phase, expected.restarts + 1, expected.order)

    def _delete(self) -> None:
        for expected in self.expected:
            self.scene.node.remove(expected.name)
        self.scene.note("manifests removed")

    def _unaffected(self, before: PodSnapshot, quiet: Expected) -> None:
        """Check that nothing happened to the pod beside (I10), unless the fault ends any pod."""
        if FAULTS[self.fault].ends_pods:
            return
        after = self.scene.node.until_running(quiet.name)
        was, now = ((one.restarts, one.sandbox_id, one.containers["main"].container_id) for one in (before, after))
        live = [one.id for one in containers_of(self.containerd, before.uid)]
        if was != now or live != [now[2]]:
            raise Broken(f"I10: the pod beside was {was}, is {now}, its containers are {live}")

    def _end(self) -> None:
        """Delete what is left, and check the whole."""
        scene, node = self.scene, self.scene.node
        node.remove(BYSTANDER)
        self._until_empty(lambda: self._there([BYSTANDER]))
        self._until_empty(lambda: oracle.left_behind(scene, self.alive, shims=not FAULTS[self.fault].ends_pods))
        self._until_empty(lambda: oracle.links_left(scene))
        ids = [shot.workflow_id for shot in self.alive.values()]
        self._until_empty(lambda: self._asked_temporal(ids))
        orders = {
            shot.uid: expected.order
            for shot in self.alive.values()
            for expected in self.expected
            if shot.name == f"{expected.name}-{node.name}"
        }
        self._require([*oracle.ledger_wrong(scene.proxy.ledger, orders), *scene.seen])
        self._require(asyncio.run(oracle.histories_wrong(node, ids, self.folder)))

    def _there(self, names: list[str]) -> list[str]:
        """Name the pods that are not gone."""
        found = [self.scene.node.pod(name) for name in names]
        return [f"I2: {shot.name} is {shot.lifecycle}: {shot.message}" for shot in found if shot]

    def _asked_temporal(self, ids: list[str]) -> list[str]:
        try:
            return asyncio.run(oracle.open_workflows(self.scene.node, ids))
        except RPCError as error:
            return [f"I8: {error}"]

    def _until_empty(self, look: Callable[[], list[str]]) -> None:
        deadline = time.monotonic() + SETTLES_WITHIN
        while (found := look()) and time.monotonic() < deadline:
            self.scene.supervise()
            time.sleep(LOOK_AGAIN)
        self._require(found)

    def _require(self, found: list[str]) -> None:
        if found:
            raise Broken("\n".join(found))


@contextlib.contextmanager
def own_disk(folder: Path) -> Iterator[None]:
    """Give a folder a small file system of its own, which a fault fills or makes read-only."""
    folder.mkdir(parents=True, mode=0o700)
    mounts.mount("tmpfs", folder, "tmpfs", options=(f"size={STATE_BYTES}", "mode=0700"))
    try:
        yield
    finally:
        mounts.unmount(folder)
