"""Leads a pod through its life with one fault, and says what came of it."""

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final

from proto.temporal import names
from proto.temporal.pod import PodOutcome
from tests.chaos.model.halfway_model import Ledger
from tests.chaos.model.halting_world import Boundary, HaltingWorld
from tests.chaos.model.shapes import CALM, GOING, Shape, deliver
from tests.worker.stand_in.switches import Switch, handed_over, killed, settled, taken
from worker.stand_in.loop_lead import NotLed
from workflows.decide.actions import Action

LASTS: Final = 120.0
"""Seconds until the pod is deleted, if nothing deletes it before."""
PATIENCE: Final = 3600.0
"""Seconds on a clock that jumps."""


class Fault(StrEnum):
    """What happens at the boundary."""

    NONE = "none"
    KILLED = "the worker is killed"
    KILLED_TWICE = "the worker is killed, and again when it calls for the first time"
    HANDED_OVER = "the lead changes to another driver and back"
    TAKEN = "the lead is taken from the journal"
    FROZEN = "the pod is frozen and handed over"


@dataclass(frozen=True, slots=True)
class Course:
    """One life of a shape."""

    shape: Shape
    fault: Fault = Fault.NONE
    boundary: Boundary | None = None
    deleted_at: int | None = None
    """The number of the call at whose begin the pod is deleted; None: once it is calm."""

    def __str__(self) -> str:
        at = f" at call {self.boundary.call}, {self.boundary.moment}" if self.boundary else ""
        deleted = "" if self.deleted_at is None else f", deleted at call {self.deleted_at}"
        return f"{self.shape.name}{deleted}: {self.fault}{at}"


@dataclass(frozen=True, slots=True)
class Life:
    """What came of a course."""

    status: Any
    """The pod's, when it was calm."""
    outcome: PodOutcome
    calls: tuple[tuple[str, Action], ...]
    lived: int
    """The number of calls before the deletion of a calm pod."""
    ledger: Ledger
    restarts: tuple[dict[str, int], ...]
    """Of each container, in each snapshot."""
    phases: tuple[str, ...]
    boundaries: tuple[Boundary, ...]
    """Those that were reached, where a fault may happen."""
    struck: bool
    """The fault has happened."""
    left: tuple[str, ...]
    """What was left of the pod."""
    defects: tuple[str, ...]


class Leading:
    """Who leads the pod, and the fault that changes that."""

    def __init__(self, course: Course) -> None:
        self.course = course
        shape = course.shape
        self.world = HaltingWorld(shape.pod(), dict(shape.exits), course.boundary)
        self.world.kills = course.fault in {Fault.KILLED, Fault.KILLED_TWICE}
        self.world.failing_probes.update(shape.failing_probes)
        self.outcome: asyncio.Future[PodOutcome] = asyncio.get_running_loop().create_future()
        self.lead: asyncio.Task[Any]
        self.tasks: list[asyncio.Task[Any]] = []
        self.lived = 0

    def follow(self, lead: "asyncio.Task[Any]") -> None:
        """Take this as the lead, and its end as the pod's."""
        self.lead = lead
        lead.add_done_callback(self._ended)

    def _ended(self, lead: "asyncio.Task[Any]") -> None:
        if lead.cancelled() or self.outcome.done():
            return
        if error := lead.exception():
            self.outcome.set_exception(error)
        elif lead.result() is not None:
            self.outcome.set_result(lead.result())

    async def live(self) -> Life:
        """Lead the pod until it is gone."""
        world = self.world
        deleted_at = self.course.deleted_at
        if deleted_at is not None:
            world.begins[deleted_at] = asyncio.Event()
        self.follow(world.lead(world.start()))
        self.tasks = [asyncio.create_task(self._strike()), asyncio.create_task(self._then())]
        status = None
        try:
            async with asyncio.timeout(PATIENCE):
                if deleted_at is None:
                    status = await self._lasts()
                else:
                    await world.begins[deleted_at].wait()
                if not self.outcome.done():
                    self.tasks.append(asyncio.create_task(deliver(world, names.DELETION_REQUESTED, GOING)))
                outcome = await self.outcome
        finally:
            await self._end()
        return self._life(status, outcome)

    async def _lasts(self) -> Any:
        """Let the pod live; returns its status then."""
        await asyncio.sleep(LASTS)
        self.lived = len(self.world.calls)
        return settled(self.world.led.pod_status()) if self.world.led and not self.outcome.done() else None

    async def _then(self) -> None:
        """Let happen to the calm pod what its shape says."""
        await asyncio.sleep(CALM)
        if self.course.shape.then:
            await self.course.shape.then(self.world)

    async def _strike(self) -> None:
        """Wait for the boundary; there the fault happens."""
        world, fault = self.world, self.course.fault
        await world.reached.wait()
        match fault:
            case Fault.KILLED | Fault.KILLED_TWICE:
                await self._change(killed)
                if fault is Fault.KILLED_TWICE and not self.outcome.done():
                    world.begins[len(world.calls)] = again = asyncio.Event()
                    await again.wait()
                    await self._change(killed)
            case Fault.HANDED_OVER:
                await self._change(handed_over)
                await self._change(handed_over)
            case Fault.TAKEN:
                await self._change(taken)
            case Fault.FROZEN:
                assert world.led
                freezing = asyncio.create_task(world.led.freeze(timedelta(minutes=1)))
                await asyncio.sleep(0.1)
                world.go_on.set()
                with contextlib.suppress(NotLed):  # the pod may end meanwhile
                    assert await freezing
                    await self._change(handed_over)
        world.go_on.set()

    async def _change(self, switch: Switch) -> None:
        if not self.outcome.done():
            if switch is killed:
                self.world.break_off_hooks()
            self.follow(await switch(self.world, self.lead))

    async def _end(self) -> None:
        for task in (*self.tasks, self.lead, *self.world.fates):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await self.world.activities.stop(timedelta())

    def _life(self, status: Any, outcome: PodOutcome) -> Life:
        model, world = self.world.model, self.world
        left = [*model.sandboxes, *model.containers]
        left += (
            ["directories"] * model.directories + ["mounts"] * bool(model.mounted) + ["claims"] * model.claims_prepared
        )
        return Life(
            status,
            outcome,
            tuple(world.calls),
            self.lived,
            model.ledger,
            tuple(restart_counts(shot.status) for shot in world.snapshots),
            tuple(shot.phase for shot in world.snapshots),
            tuple(world.passed),
            world.reached.is_set(),
            tuple(left),
            tuple(world.defects),
        )


def restart_counts(status: Mapping[str, Any]) -> dict[str, int]:
    """Return the restart count of each container in a pod's status."""
    kinds = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
    return {one["name"]: one["restartCount"] for kind in kinds for one in status.get(kind) or ()}


async def live(course: Course) -> Life:
    """Lead a pod through one life."""
    return await Leading(course).live()
