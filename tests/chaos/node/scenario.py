"""One scenario: some pods, one fault drawn from the table, and the oracle. All choices come from the seed.

The fault strikes while the pods start, while they run and one of their containers dies, or while they are deleted. A pod that has
nothing to do with it must not notice.
"""

import asyncio
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from temporalio.service import RPCError

from proto.pod_snapshot import PodSnapshot
from tests.chaos.node import oracle
from tests.chaos.node.faults import FAULTS, Fault
from tests.chaos.node.pods import CLAIMED, SHAPES, Expected, with_claim
from tests.chaos.node.scene import Scene
from tests.chaos.node.stage import AWAY_AFTER, Stage
from tests.node.containerd_view import container_pid, containers_of
from tests.patience import PATIENCE

SETTLES_WITHIN: Final = 2 * PATIENCE
LOOK_AGAIN: Final = 0.1
STAYS: Final = 0.5
"""Seconds for which the end must stay as it is."""


class Broken(AssertionError):
    """An invariant does not hold."""


@dataclass(slots=True)
class Scenario:
    """A scenario on a stage."""

    name: str
    """Of a row of FAULTS."""
    seed: int
    folder: Path
    """Takes the ledger and histories of a scenario that fails."""
    stage: Stage
    recovery: float = 0.0
    """Seconds from the mended fault until all was as expected."""
    scene: Scene = field(init=False)
    expected: list[Expected] = field(default_factory=list)
    alive: dict[str, PodSnapshot] = field(default_factory=dict)
    """Each of its pods' snapshot when it was last seen."""

    @property
    def fault(self) -> Fault:
        """The row of the table."""
        return FAULTS[self.name]

    def run(self) -> None:
        """Play it; raises Broken or TimeoutError with the seed, the timeline, and where ledger and histories are."""
        rng, stage = Random(f"{self.name} {self.seed}"), self.stage
        before = stage.beside()
        known = {one.id for one in containers_of(stage.session.containerd, before.uid)}
        self.scene = Scene(
            stage.node,
            stage.proxy,
            stage.session.cni,
            rng,
            AWAY_AFTER,
            rng.choice(self.fault.phases),
            len(stage.proxy.ledger.calls),
            stage.clock,
            stage.csi_driver() if self.fault.csi else None,
            stage.api,
            stage.way_to_temporal,
        )
        stage.played += 1
        try:
            with self.scene.observed():
                self._play(before, known)
        except Exception as error:
            stage.proxy.ledger.write(self.folder / "ledger.jsonl")
            told = f"{type(error).__name__}: {error}\n{self.told()}"
            (self.folder / "broken.txt").write_text(told)
            raise Broken(told) from error
        finally:
            self._mend()

    def told(self) -> str:
        """Tell what reproduces and explains it."""
        lines = [f"make chaos ARGS='--seed {self.seed} --scenario {self.name}'", *self.scene.timeline]
        return "\n".join([*lines, f"ledger and histories: {self.folder}; logs: {self.stage.folder}"])

    def _mend(self) -> None:
        """Take back what a fault may leave."""
        self.stage.proxy.faults.clear()
        self.stage.session.cni.clear()
        if self.stage.clock:
            self.stage.clock.step(0)

    def _play(self, before: PodSnapshot, known: set[str]) -> None:
        scene, node, phase = self.scene, self.scene.node, self.scene.phase
        kinds = scene.rng.sample(sorted(SHAPES), 3)
        pods = [SHAPES[kind](f"{kind}-{number}-{self.stage.played}") for number, kind in enumerate(kinds)]
        if self.fault.csi:
            name = f"{CLAIMED}-{self.stage.played}"
            self.stage.bind(name)
            kinds[0], pods[0] = CLAIMED, with_claim(name)
        self.expected = [expected for _, expected in pods]
        scene.note(f"{self.name}, seed {self.seed}: {', '.join(kinds)}, while {phase}")

        def begin() -> None:
            for made, _ in pods:
                node.apply(made)

        if phase != "starting":
            begin()
            self._settle(restarts=False)
        work: Callable[[], None] = {"starting": begin, "running": self._crash, "deleting": self._delete}[phase]
        with self.fault.happens(scene):
            work()
        mended = time.monotonic()
        scene.proxy.faults.clear()
        if phase != "deleting":
            self._settle(restarts=self.fault.restarts)
            self.recovery = time.monotonic() - STAYS - mended
            self._delete()
        self._until_empty(self._there)
        self.recovery = self.recovery or time.monotonic() - mended
        self._unaffected(before, known)
        self._end()

    def _settle(self, *, restarts: bool) -> None:
        """Wait until the pods are as expected, and see that they stay so."""
        scene, found = self.scene, ["nothing was seen yet"]
        deadline = time.monotonic() + SETTLES_WITHIN
        while found and time.monotonic() < deadline:
            time.sleep(LOOK_AGAIN)
            scene.supervise()
            found = self._wrong(restarts=restarts)
            if not found:
                time.sleep(STAYS)
                found = self._wrong(restarts=restarts)
        for expected in self.expected:
            if shot := scene.node.pod(expected.name):
                self.alive[shot.uid] = shot
        scene.note("settled" if not found else "; ".join(found))
        self._require(found)

    def _wrong(self, *, restarts: bool) -> list[str]:
        wrong = oracle.settled_wrong(self.scene, self.expected, restarts=restarts)
        return [*wrong, *oracle.api_wrong(self.scene.node, self.expected)]

    def _crash(self) -> None:
        """Let a container die."""
        candidates = [index for index, one in enumerate(self.expected) if one.phase == "Running"]
        index = self.scene.rng.choice(candidates)
        expected = self.expected[index]
        shot = self.scene.node.until_running(expected.name)
        self.scene.note(f"kill -9 of the main container of {expected.name}")
        os.kill(container_pid(self.scene.containerd, shot.containers["main"].container_id), signal.SIGKILL)
        self.expected[index] = Expected(expected.name, expected.phase, expected.restarts + 1, expected.order)

    def _delete(self) -> None:
        for expected in self.expected:
            self.scene.node.remove(expected.name)
        self.scene.note("manifests removed")

    def _unaffected(self, before: PodSnapshot, known: set[str]) -> None:
        """Check that nothing happened to the pod beside (I10), unless the fault ends any pod.

        `known` are the containers that it had: one of an earlier sandbox may still be removed.
        """
        after = self.stage.beside()
        if self.fault.ends_pods:
            return
        was, now = ((one.restarts, one.sandbox_id, one.containers["main"].container_id) for one in (before, after))
        made = {one.id for one in containers_of(self.scene.containerd, before.uid)} - known
        if was != now or made:
            raise Broken(
                f"I10: the pod beside was {was}, is {now}; new containers: {', '.join(sorted(made)) or 'none'}"
            )

    def _end(self) -> None:
        """Check the whole."""
        scene, node = self.scene, self.scene.node
        self._until_empty(lambda: oracle.left_behind(scene, self.alive, shims=not self.fault.ends_pods))
        self._until_empty(lambda: oracle.links_left(scene))
        ids = [shot.workflow_id for shot in self.alive.values()]
        self._until_empty(lambda: self._asked_temporal(ids))
        orders = {
            shot.uid: expected.order
            for shot in self.alive.values()
            for expected in self.expected
            if shot.name in {expected.name, f"{expected.name}-{node.name}"}
        }
        self._require([*oracle.ledger_wrong(scene.proxy.ledger, orders), *scene.seen])
        self._require(asyncio.run(oracle.histories_wrong(node, ids, self.folder)))

    def _there(self) -> list[str]:
        """Name the pods that are not gone."""
        found = [self.scene.node.pod(expected.name) for expected in self.expected]
        shown = oracle.api_wrong(self.scene.node, self.expected, gone=True)
        return [*(f"I2: {shot.name} is {shot.lifecycle}: {shot.message}" for shot in found if shot), *shown]

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
