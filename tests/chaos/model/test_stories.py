"""Does a pod's history tell the same, whenever Temporal goes away?

An outage at every boundary, and after every answer, of a life of each shape; with what a history may then lack. `make test` leaves out
the boundaries at which an outage tells the same as at another one of their call; `make stress` has all, and proves that it is the same.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

import pytest

from proto.temporal import names
from tests.chaos.model.halting_world import Boundary, Moment
from tests.chaos.model.lives import Course, Life, live
from tests.chaos.model.outages import LivingThrough, Lost, Outage, answers
from tests.chaos.model.shapes import SHAPES, Shape
from tests.node.away.outages.stories import difference, facts_of

pytestmark = pytest.mark.jumping_clock
BESIDE: Final = {names.RUN_POD_SANDBOX, names.START_CONTAINER, names.STOP_CONTAINER, names.RUN_HOOK}
"""Something else happens to the pod while these run, so that an outage at their end may be told otherwise than one at their begin."""
EVERY_SHAPE = pytest.mark.parametrize("shape", [pytest.param(one, id=one.name) for one in SHAPES])


def telling(life: Life) -> list[Boundary]:
    """Return the begin of each call, and the last moment of those that something else may happen beside."""
    last = {one.call: one for one in life.boundaries}
    return [
        one
        for one in life.boundaries
        if one.moment is Moment.BEFORE or (life.calls[one.call][0] in BESIDE and one == last[one.call])
    ]


async def texts(outage: Outage) -> list[str]:
    """Live through an outage, and return the lines of the history."""
    living = LivingThrough(outage)
    await living.live()
    return living.texts()


async def told(outage: Outage) -> Counter[str]:
    """Live through an outage, and return the facts of the history."""
    return facts_of(await texts(outage))


@EVERY_SHAPE
async def test_an_outage_changes_no_sentence(shape: Shape) -> None:
    """Starts, ends, hooks and stops are told once, and with their reasons; the last workflow task was not committed."""
    await no_sentence_changes(shape, Lost.LAST_TASK, telling(await live(Course(shape))))


@pytest.mark.stress
@EVERY_SHAPE
@pytest.mark.parametrize("lost", [Lost.NOTHING, Lost.LAST_TASK, Lost.LATE_TASK])
async def test_an_outage_at_every_boundary_changes_no_sentence(shape: Shape, lost: Lost) -> None:
    """The same at the others."""
    await no_sentence_changes(shape, lost, (await live(Course(shape))).boundaries)


async def no_sentence_changes(shape: Shape, lost: Lost, boundaries: Sequence[Boundary]) -> None:
    """Live through an outage at each boundary, and compare what is told with a life without an outage."""
    without = await told(Outage(shape, Lost.NOTHING))
    outages = [Outage(shape, lost, one) for one in boundaries]
    found = {str(one.boundary): difference(await told(one), without) for one in outages}
    assert not {at: what for at, what in found.items() if what}


@pytest.mark.stress
@EVERY_SHAPE
async def test_the_other_boundaries_tell_nothing_else(shape: Shape) -> None:
    """The same sentences, but for times and durations, maybe in another order."""
    life = await live(Course(shape))
    lines = {one: await texts(Outage(shape, Lost.LAST_TASK, one)) for one in life.boundaries}
    shown = {one: tuple(sorted(re.sub(r"\d+", "0", text) for text in said)) for one, said in lines.items()}
    assert set(shown.values()) == {shown[one] for one in telling(life)}


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
