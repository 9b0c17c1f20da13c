"""How long does a pod stay with the node whose own workflow does not work: longer each time, and anew once it has worked?"""

from datetime import UTC, datetime

import pytest

from worker.stand_in.hand_back.returns import LONGEST, WORKED, Stay, Trouble, failed, returned, words

FAILS, LATE = Trouble.FAILED_TASKS, Trouble.UNDELIVERED
NOW = 10_000.0


def stay(trouble: Trouble, failures: int, worked: float | None = None) -> Stay:
    """Return the last stay; `worked`: seconds since the hand-back, None if there was none."""
    return Stay(trouble, failures, NOW - 5000, None if worked is None else NOW - worked)


ROWS = {
    "tasks that fail for the first time are tried after a minute": (None, FAILS, 1, 60),
    "tasks that fail again after a hand-back, twice as long": (stay(FAILS, 1, 30), FAILS, 2, 120),
    "and again": (stay(FAILS, 2, 30), FAILS, 3, 240),
    "a run that has not even begun after the hand-back counts, too": (stay(FAILS, 3), FAILS, 4, 480),
    "an hour at most": (stay(FAILS, 7, 30), FAILS, 8, LONGEST),
    "also after a thousand": (stay(FAILS, 1000, 30), FAILS, 1001, LONGEST),
    "a workflow that has worked begins anew": (stay(FAILS, 5, WORKED), FAILS, 1, 60),
    "but not one that has nearly": (stay(FAILS, 5, WORKED - 1), FAILS, 6, 1920),
    "what is late for the first time is tried at once": (None, LATE, 1, 0),
    "what is late again, after a minute": (stay(LATE, 1, 30), LATE, 2, 60),
    "and then twice as long": (stay(LATE, 2, 30), LATE, 3, 120),
    "another trouble is not the same": (stay(FAILS, 5, 30), LATE, 1, 0),
    "nor the other way round": (stay(LATE, 5, 30), FAILS, 1, 60),
}


@pytest.mark.parametrize(("before", "trouble", "failures", "pause"), ROWS.values(), ids=ROWS)
def test_how_long_it_stays(before: Stay | None, trouble: Trouble, failures: int, pause: float) -> None:
    """From the same facts always the same."""
    assert failed(before, trouble, NOW) == Stay(trouble, failures, NOW + pause)


def test_a_hand_back_is_remembered() -> None:
    """Until the next failure."""
    first = failed(None, FAILS, NOW)
    assert returned(first, NOW + 60) == Stay(FAILS, 1, NOW + 60, NOW + 60)
    assert failed(returned(first, NOW + 60), FAILS, NOW + 70).returned_at is None


@pytest.mark.parametrize(
    ("trouble", "failures", "said"),
    [
        pytest.param(FAILS, 1, "", id="the-reason-says-it-all-at-first"),
        pytest.param(
            FAILS,
            3,
            "; its workflow tasks fail whenever it is handed back (3 times in a row), "
            "so it is handed back next at 2026-11-24T17:00:00Z, or when a worker starts",
            id="a-pod-that-is-kept",
        ),
    ],
)
def test_what_is_said(trouble: Trouble, failures: int, said: str) -> None:
    """In `explain`, and as a condition of the node."""
    assert words(stay(trouble, failures), datetime(2026, 11, 24, 17, tzinfo=UTC)) == said
