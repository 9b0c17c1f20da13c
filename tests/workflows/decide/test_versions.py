"""Are behaviours numbered so that old ones can be removed, and does workflow code ask only for its run's own number?"""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from workflows.decide import versions
from workflows.decide.versions import BEHAVIOURS, NODE_BEHAVIOURS, UnknownBehaviourError, require_known, why_unknown

WORKFLOWS = Path(versions.__file__).parents[1]
NUMBERED = pytest.mark.parametrize("numbers", [BEHAVIOURS, NODE_BEHAVIOURS], ids=["of-pods", "of-the-node"])
BRANCHES = {
    name: (number, NODE_BEHAVIOURS if name.startswith("NODE_") else BEHAVIOURS)
    for name, number in vars(versions).items()
    if isinstance(number, int) and not name.startswith(("CURRENT", "OLDEST"))
}


@NUMBERED
def test_numbers_have_no_gap(numbers: Mapping[int, str]) -> None:
    """Only the oldest ones are removed; a gap could mean a number that was used twice."""
    assert sorted(numbers) == list(range(min(numbers), max(numbers) + 1))


@pytest.mark.parametrize("name", BRANCHES)
def test_a_branch_has_runs_on_both_sides(name: str) -> None:
    """A branch whose old side no run can follow must be deleted with its number."""
    number, numbers = BRANCHES[name]
    assert min(numbers) < number <= max(numbers)


def test_branches_are_found() -> None:
    """Otherwise the test above would check nothing."""
    assert {"FEWER_START_ACTIVITIES", "TIMER_PER_WAIT", "NODE_TIMER_PER_WAIT"} <= BRANCHES.keys()


def test_workflow_code_never_asks_for_the_newest_number() -> None:
    """The newest number differs between releases that replay the same history."""
    sources = [path for path in WORKFLOWS.rglob("*.py") if path.name != "versions.py"]
    assert len(sources) > 50
    assert not [path.name for path in sources if re.search(r"\b(CURRENT|OLDEST)(_NODE)?\b", path.read_text())]


@pytest.mark.parametrize(
    ("behaviour", "known", "needed"),
    [
        pytest.param(4, {1: "", 2: "", 3: ""}, "knows 1 to 3: start a worker of the newer release", id="a-newer-one"),
        pytest.param(
            1, {2: "", 3: ""}, "knows 2 to 3: start a worker of an older release, which raises it", id="too-old"
        ),
    ],
)
def test_a_run_of_another_release_is_refused(behaviour: int, known: Mapping[int, str], needed: str) -> None:
    """It waits for a worker that knows its number."""
    with pytest.raises(UnknownBehaviourError, match=needed):
        require_known(behaviour, known)


@NUMBERED
def test_a_known_run_is_let_in(numbers: Mapping[int, str]) -> None:
    """Every number of this release is known."""
    for number in numbers:
        assert why_unknown(number, numbers) == ""
        require_known(number, numbers)
