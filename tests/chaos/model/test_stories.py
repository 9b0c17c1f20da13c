"""Does a pod's history tell the same, whenever Temporal goes away?

An outage at every boundary, and after every answer, of a life of each shape; with what a history may then lack.
"""

from collections import Counter

import pytest

from tests.chaos.model.lives import Course, live
from tests.chaos.model.outages import LivingThrough, Lost, Outage, answers
from tests.chaos.model.shapes import SHAPES, Shape
from tests.node.away.outages.stories import difference, facts_of

pytestmark = pytest.mark.jumping_clock
EVERY_SHAPE = pytest.mark.parametrize("shape", [pytest.param(one, id=one.name) for one in SHAPES])


async def told(outage: Outage) -> Counter[str]:
    """Live through an outage, and return the facts of the history."""
    living = LivingThrough(outage)
    await living.live()
    return facts_of(living.texts())


@EVERY_SHAPE
@pytest.mark.parametrize(
    "lost",
    [
        pytest.param(Lost.NOTHING, id="nothing-lost", marks=pytest.mark.stress),
        pytest.param(Lost.LAST_TASK, id="last-task-lost"),
        pytest.param(Lost.LATE_TASK, id="last-task-late", marks=pytest.mark.stress),
    ],
)
async def test_an_outage_at_every_boundary_changes_no_sentence(shape: Shape, lost: Lost) -> None:
    """Starts, ends, hooks and stops are told once, and with their reasons."""
    without = await told(Outage(shape, Lost.NOTHING))
    boundaries = (await live(Course(shape))).boundaries
    outages = [Outage(shape, lost, one) for one in boundaries]
    found = {str(one.boundary): difference(await told(one), without) for one in outages}
    assert not {at: what for at, what in found.items() if what}


@EVERY_SHAPE
async def test_an_outage_after_every_answer_changes_no_sentence(shape: Shape) -> None:
    """The history has the answer, and the node gets it again."""
    living = LivingThrough(Outage(shape, Lost.NOTHING))
    await living.live()
    without = facts_of(living.texts())
    number = len(answers(living.world.journal.stories))
    outages = [Outage(shape, Lost.LAST_DECISION, answer=one) for one in range(number)]
    found = {one.answer: difference(await told(one), without) for one in outages}
    assert not {at: what for at, what in found.items() if what}
