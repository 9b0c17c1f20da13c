"""Does a pod of every shape end as it would have, whatever happens at any boundary of any of its activities?

A run visits every boundary once, where the worker is killed and the lead changes in turn. `make chaos` takes every fault at every boundary,
and deletes each pod at the begin of each of its calls as well.
"""

from collections.abc import Sequence
from itertools import cycle

import pytest

from tests.chaos.model.invariants import broken
from tests.chaos.model.lives import Course, Fault, Life, live
from tests.chaos.model.shapes import SHAPES, Shape

pytestmark = pytest.mark.jumping_clock
EVERY_SHAPE = pytest.mark.parametrize("shape", [pytest.param(one, id=one.name) for one in SHAPES])
FAULTS = [one for one in Fault if one is not Fault.NONE]


@EVERY_SHAPE
async def test_a_fault_at_every_boundary_changes_nothing(shape: Shape) -> None:
    """The invariants hold, and the end is that of a life without a fault."""
    without = await live(Course(shape))
    faults = cycle([Fault.KILLED, Fault.HANDED_OVER])
    await all_hold([Course(shape, fault, one) for fault, one in zip(faults, without.boundaries, strict=False)], without)


@pytest.mark.stress
@EVERY_SHAPE
async def test_every_fault_at_every_boundary_changes_nothing(shape: Shape) -> None:
    """The same for all faults."""
    without = await live(Course(shape))
    await all_hold([Course(shape, fault, one) for fault in FAULTS for one in without.boundaries], without)


@pytest.mark.stress
@EVERY_SHAPE
async def test_a_fault_in_the_deletion_in_each_phase_leaves_nothing(shape: Shape) -> None:
    """The pod is deleted when each of its calls begins, and at every boundary from there on the worker is killed, or the lead changes."""
    for call in range((await live(Course(shape))).lived):
        without = await live(Course(shape, deleted_at=call))
        later = [one for one in without.boundaries if one.call >= call]
        courses = [Course(shape, fault, one, call) for fault in (Fault.KILLED, Fault.HANDED_OVER) for one in later]
        await all_hold(courses, without)


async def all_hold(courses: Sequence[Course], without: Life) -> None:
    """Lead a pod through every course, and fail with all courses that broke an invariant."""
    assert not broken(Course(courses[0].shape, deleted_at=courses[0].deleted_at), without, without)
    found = [f"{course}: {what}" for course in courses for what in broken(course, await live(course), without)]
    assert not found, "\n".join(found)
