"""Does each invariant of the model fail when a life breaks it?"""

from dataclasses import replace
from typing import Any

import pytest

from proto.temporal.pod import PodOutcome
from tests.chaos.model.halfway_model import Ledger
from tests.chaos.model.halting_world import Boundary, Moment
from tests.chaos.model.invariants import broken
from tests.chaos.model.lives import Course, Fault, Life
from tests.chaos.model.shapes import SHAPES

HOOK = ("main", "preStop", "hook/main/preStop/1")
COURSE = Course(SHAPES[0], Fault.KILLED, Boundary(0, Moment.MIDDLE))
GOOD = Life(
    status={"phase": "Running"},
    outcome=PodOutcome("Failed", "ManifestRemoved", 1),
    calls=(),
    lived=0,
    ledger=Ledger(made=[("main", 0), ("main", 1)], signalled=["main"], hooked=[HOOK]),
    restarts=({"main": 0}, {"main": 1}),
    phases=("Pending", "Running", "Failed"),
    boundaries=(),
    struck=True,
    left=(),
    defects=(),
)


def with_ledger(**changed: Any) -> Life:
    """Change the ledger of a life."""
    return replace(GOOD, ledger=replace(GOOD.ledger, **changed))


def test_a_life_that_breaks_nothing() -> None:
    """It is the same as one without a fault."""
    assert broken(COURSE, GOOD, replace(GOOD, struck=False)) == []


@pytest.mark.parametrize(
    ("life", "invariant"),
    [
        pytest.param(replace(GOOD, struck=False), "the fault did not happen", id="the-fault-missed"),
        pytest.param(replace(GOOD, defects=("one live sandbox a pod",)), "I1", id="the-model-refused-something"),
        pytest.param(with_ledger(broken=["two of main"]), "I1", id="two-lived-at-once"),
        pytest.param(replace(GOOD, left=("mounts",)), "I2", id="something-is-left"),
        pytest.param(with_ledger(made=[("main", 0), ("main", 1), ("main", 1)]), "I3", id="an-attempt-was-made-twice"),
        pytest.param(with_ledger(made=[("main", 0), ("main", 2)]), "I3", id="an-attempt-is-missing"),
        pytest.param(replace(GOOD, restarts=({"main": 1}, {"main": 0})), "I3", id="a-restart-count-fell"),
        pytest.param(replace(GOOD, restarts=({"main": 7},)), "I3", id="a-restart-was-invented"),
        pytest.param(replace(GOOD, phases=("Failed", "Running")), "I4", id="a-terminal-phase-was-left"),
        pytest.param(replace(GOOD, status={"phase": "Failed"}), "I5", id="another-status"),
        pytest.param(replace(GOOD, outcome=PodOutcome("Succeeded", "", 1)), "I5", id="another-outcome"),
        pytest.param(with_ledger(killed=["main"]), "I6", id="killed-without-sigterm"),
        pytest.param(with_ledger(hooked=[HOOK, HOOK]), "I6", id="a-hook-ran-twice"),
        pytest.param(with_ledger(made=[("main", 0), ("main", 1), ("x", 0)]), "I10", id="more-containers-were-made"),
    ],
)
def test_a_life_that_breaks_an_invariant(life: Life, invariant: str) -> None:
    """It is named."""
    assert [one.partition(":")[0] for one in broken(COURSE, life, GOOD)][:1] == [invariant]


def test_a_hook_may_run_again_if_its_outcome_was_lost() -> None:
    """As often as its worker died."""
    life = with_ledger(hooked=[HOOK, HOOK], broken_off=[HOOK])
    assert broken(COURSE, life, GOOD) == []
