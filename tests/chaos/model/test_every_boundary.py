"""Does a pod of every shape end as it would have, whatever happens at any boundary of any of its activities?

A run takes the kill of the worker and the change of the lead, at every boundary. `make chaos` takes every fault, and deletes each pod
at the begin of each of its calls as well.
"""

from collections.abc import Iterable

import pytest

from tests.chaos.model.invariants import broken
from tests.chaos.model.lives import Course, Fault, live
from tests.chaos.model.shapes import SHAPES, Shape

pytestmark = pytest.mark.jumping_clock
EVERY_SHAPE = pytest.mark.parametrize("shape", [pytest.param(one, id=one.name) for one in SHAPES])
FAULTS = [one for one in Fault if one is not Fault.NONE]


@EVERY_SHAPE
@pytest.mark.parametrize("fault", [Fault.KILLED, Fault.HANDED_OVER])
async def test_a_fault_at_every_boundary_changes_nothing(shape: Shape, fault: Fault) -> None:
    """The invariants hold, and the end is that of a life without a fault."""
    await all_hold(shape, [fault])


@pytest.mark.stress
@EVERY_SHAPE
async def test_every_fault_at_every_boundary_changes_nothing(shape: Shape) -> None:
    """The same for the faults that a run leaves out."""
    await all_hold(shape, [one for one in FAULTS if one not in {Fault.KILLED, Fault.HANDED_OVER}])


@pytest.mark.stress
@EVERY_SHAPE
async def test_a_fault_in_the_deletion_in_each_phase_leaves_nothing(shape: Shape) -> None:
    """The pod is deleted when each of its calls begins, and at every boundary from there on the worker is killed, or the lead changes."""
    for call in range((await live(Course(shape))).lived):
        await all_hold(shape, [Fault.KILLED, Fault.HANDED_OVER], call)


async def all_hold(shape: Shape, faults: Iterable[Fault], deleted_at: int | None = None) -> None:
    """Lead a pod through every course with these faults, and fail with all courses that broke an invariant."""
    without = await live(Course(shape, deleted_at=deleted_at))
    courses = [
        Course(shape, fault, boundary, deleted_at)
        for fault in faults
        for boundary in without.boundaries
        if boundary.call >= (deleted_at or 0)
    ]
    assert not broken(Course(shape, deleted_at=deleted_at), without, without)
    found = [f"{course}: {what}" for course in courses for what in broken(course, await live(course), without)]
    assert not found, "\n".join(found)
