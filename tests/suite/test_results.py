"""Is nothing that a session should have told lost, and is a run judged as it deserves?"""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.suite.results import MOST_RERUN, SessionResult, judge, summary, to_run_again

FILE = "tests/node/test_a.py"
CI = Path(__file__).parents[2] / ".ci" / "run"


def heard(*outcomes: str, file: str = FILE, again: bool = True, code: int | None = None) -> SessionResult:
    """Return the events of a session whose tests had these outcomes."""
    result = SessionResult((file,))
    names = [f"{file}::test_{number}" for number in range(len(outcomes))]
    result.hear({"event": "collected", "tests": [[name, again] for name in names], "deselected": {}})
    for name, outcome in zip(names, outcomes, strict=True):
        result.hear(phase(name, outcome))
        result.hear({"event": "finished", "test": name})
    result.hear({"event": "end", "exit": int("failed" in outcomes) if code is None else code, "cpu": 1.0})
    return result


def phase(test: str, outcome: str, text: str = "E   it broke") -> dict[str, Any]:
    """Write the event of one phase."""
    return {"event": "phase", "test": test, "when": "call", "outcome": outcome, "seconds": 0.5, "text": text}


def without(event: str) -> SessionResult:
    """Return the events of a session with one passed test, without one of them."""
    result, name = SessionResult((FILE,)), f"{FILE}::test_0"
    events = {
        "collected": {"event": "collected", "tests": [[name, True]], "deselected": {}},
        "phase": phase(name, "passed"),
        "finished": {"event": "finished", "test": name},
        "end": {"event": "end", "exit": 0, "cpu": 1.0},
    }
    for one, told in events.items():
        if one != event:
            result.hear(told)
    return result


@pytest.mark.parametrize(
    ("result", "code", "lost"),
    [
        pytest.param(without(""), 0, 0, id="all-was-told"),
        pytest.param(heard("passed", "failed"), 1, 0, id="a-failed-test-is-not-lost"),
        pytest.param(without("collected"), 0, 1, id="a-file-of-which-nothing-was-told"),
        pytest.param(without("phase"), 0, 1, id="a-test-without-an-outcome"),
        pytest.param(without("finished"), 0, 1, id="a-test-that-did-not-end"),
        pytest.param(without("end"), 0, 1, id="a-session-that-did-not-end-by-itself"),
        pytest.param(without(""), -9, 1, id="killed"),
        pytest.param(heard("passed", code=1), 1, 1, id="failed-for-no-reason-that-was-told"),
        pytest.param(heard("passed", code=3), 3, 1, id="an-internal-error"),
        pytest.param(heard("passed", code=2), 2, 1, id="interrupted-by-a-test"),
        pytest.param(SessionResult((FILE, "b.py")), -11, 3, id="crashed-before-it-told-anything"),
    ],
)
def test_what_was_not_told_is_an_error(result: SessionResult, code: int, lost: int) -> None:
    """Each lost file or test, and an end that is none."""
    before = result.counts["error"]
    assert len(result.lose(code)) == lost
    assert result.counts["error"] == before + lost


@pytest.mark.parametrize(
    "told",
    [
        pytest.param({"event": "collected", "tests": [], "deselected": {FILE: 3}}, id="deselected"),
        pytest.param({"event": "left_out", "file": FILE, "text": "no Chromium"}, id="skipped-as-a-whole"),
    ],
)
def test_a_file_of_which_nothing_is_to_run_is_not_lost(told: dict[str, Any]) -> None:
    """Pytest ends with 5 where it has collected nothing."""
    result = SessionResult((FILE,))
    result.hear(told)
    result.hear({"event": "end", "exit": 5, "cpu": 1.0})
    assert result.lose(5) == []


def test_a_file_that_can_not_be_collected_is_an_error() -> None:
    """Pytest then runs nothing of the session, which ends with 2."""
    result = SessionResult((FILE,))
    result.hear({"event": "broken", "file": FILE, "text": "E   SyntaxError"})
    assert (result.counts["error"], result.failures, result.may_run_again()) == (1, {FILE: "SyntaxError"}, [])


PASSED, FAILED = heard("passed"), heard("failed")


def again(*results: SessionResult) -> dict[str, SessionResult]:
    """Return the outcomes of the tests of `first` when they were run once more."""
    return {f"{FILE}::test_{number}": one for number, one in enumerate(results)}


@pytest.mark.parametrize(
    ("first", "second", "code", "flaky", "failed"),
    [
        pytest.param(heard("passed", "skipped"), {}, 0, 0, 0, id="all-passed"),
        pytest.param(heard("failed"), {}, 1, 0, 1, id="failed-and-not-run-again"),
        pytest.param(heard("failed", "passed"), again(PASSED), 0, 1, 0, id="one-is-flaky"),
        pytest.param(heard("failed", "failed"), again(PASSED, PASSED), 0, 2, 0, id="two-are-flaky"),
        pytest.param(heard(*["failed"] * 3), again(*[PASSED] * 3), 1, 3, 0, id="three-are-too-many"),
        pytest.param(heard("failed"), again(FAILED), 1, 0, 1, id="failed-again"),
        pytest.param(heard("failed", "failed"), again(PASSED, FAILED), 1, 1, 1, id="one-flaky-one-failed-again"),
        pytest.param(heard("failed"), again(heard("skipped")), 1, 0, 1, id="skipped-the-second-time-proves-nothing"),
        pytest.param(heard("failed"), again(heard()), 1, 0, 1, id="not-found-the-second-time"),
        pytest.param(heard("skipped"), {}, 1, 0, 0, id="nothing-has-passed"),
    ],
)
def test_a_run_is_judged(
    first: SessionResult, second: dict[str, SessionResult], code: int, flaky: int, failed: int
) -> None:
    """Two may be flaky; a test that fails again has failed."""
    verdict = judge([first], second)
    assert (verdict.code, len(verdict.flaky), len(verdict.failed)) == (code, flaky, failed)
    assert verdict.counts["failed"] == failed
    assert sum(verdict.counts.values()) == len(first.outcomes)


def test_an_error_of_the_rerun_is_no_pass() -> None:
    """A test that passed and could not be cleaned up."""
    second = heard("passed")
    second.hear(phase(f"{FILE}::test_0", "error"))
    assert judge([heard("failed")], again(second)).flaky == ()


def test_a_lost_session_fails_a_run_of_flaky_tests() -> None:
    """What is lost is never made good."""
    lost = without("end")
    lost.lose(-9)
    assert judge([heard("failed"), lost], again(PASSED)).code == 1


@pytest.mark.parametrize(
    ("results", "number"),
    [
        pytest.param([heard("failed", "passed")], 1, id="the-failed-one"),
        pytest.param([heard("failed", again=False)], 0, id="never-a-pure-test"),
        pytest.param([heard("failed"), heard("failed", file="tests/node/test_b.py")], 2, id="of-every-session"),
        pytest.param([heard(*["failed"] * MOST_RERUN)], MOST_RERUN, id="as-many-as-are-run-again"),
        pytest.param([heard(*["failed"] * (MOST_RERUN + 1))], 0, id="too-many-have-one-cause"),
    ],
)
def test_what_failed_is_run_once_more(results: list[SessionResult], number: int) -> None:
    """If it waits for more than its own code."""
    assert len(to_run_again(results)) == number


@pytest.mark.parametrize(
    ("counts", "line"),
    [
        pytest.param({"passed": 7, "skipped": 2}, "7 passed, 2 skipped in 1.50s", id="passed"),
        pytest.param({"error": 1, "failed": 1}, "1 failed, 1 error in 1.50s", id="failures-first-and-one-error"),
        pytest.param({"passed": 1, "warning": 2, "error": 2}, "1 passed, 2 warnings, 2 errors in 1.50s", id="many"),
        pytest.param(
            {"xfailed": 1, "xpassed": 1, "deselected": 3}, "3 deselected, 1 xfailed, 1 xpassed in 1.50s", id="rest"
        ),
    ],
)
def test_the_last_line_is_pytests(counts: dict[str, int], line: str) -> None:
    """And `.ci/run` finds it."""
    assert summary(counts, 1.5) == line
    found = re.search(r"^summary=\$\(grep -E '(.+?)'", CI.read_text(), re.MULTILINE)
    assert found is not None
    assert re.match(found[1], line)


def test_outcomes_are_counted_by_file() -> None:
    """For the line that is printed when a file has ended."""
    result = heard("passed", "passed", "skipped")
    assert result.file_counts(FILE) == Counter(passed=2, skipped=1)
    assert result.seconds == {FILE: 1.5}
