"""Is everything seen that Temporal owes, and is a commit recognized?"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from worker.stand_in.away import Due
from worker.stand_in.dues import REPEATED_WITHIN, RETRY_SECONDS, Dues
from workflows.extern import Decided

WEB, DB = "pod/n1/default/web/u1", "pod/n1/default/db/u2"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
IDLE = Decided("run1", 10)


class Attempts:
    """The attempts that run here, and those that did."""

    def __init__(self) -> None:
        self.present: set[tuple[str, str]] = set()
        self.past: set[tuple[str, str]] = set()

    def is_present(self, workflow_id: str, key: str) -> bool:
        """Look it up."""
        return (workflow_id, key) in self.present

    def has_been(self, workflow_id: str, key: str) -> bool:
        """Look it up."""
        return (workflow_id, key) in self.past


@pytest.fixture
def attempts() -> Attempts:
    """No attempt runs."""
    return Attempts()


@pytest.fixture
def dues(attempts: Attempts) -> Dues:
    """A pod that expects nothing is known."""
    made = Dues(attempts)
    made.decided(WEB, IDLE)
    return made


def test_an_idle_pod_expects_nothing(dues: Dues) -> None:
    """However often one looks."""
    for now in range(100):
        assert dues.look((), now, NOON)[0] == []


def test_a_timer_is_due_once_its_time_has_come(dues: Dues) -> None:
    """And stays due since then."""
    dues.decided(WEB, replace(IDLE, wakes_at=NOON))
    assert dues.look((), 1.0, NOON - SECOND)[0] == []
    for now in (2.0, 3.0):
        assert dues.look((), now, NOON + SECOND)[0] == [Due(WEB, "the timer of 12:00:00", 2.0)]
    dues.decided(WEB, replace(IDLE, length=14))
    assert dues.look((), 4.0, NOON + SECOND)[0] == []


def test_an_activity_is_due_until_it_is_here(dues: Dues, attempts: Attempts) -> None:
    """A retry may take its pause besides."""
    dues.decided(WEB, replace(IDLE, under_way=("sandbox",)))
    assert dues.look((), 1.0, NOON)[0] == [Due(WEB, "the activity sandbox", 1.0)]
    attempts.present.add((WEB, "sandbox"))
    assert dues.look((), 2.0, NOON)[0] == []
    attempts.present.clear()
    attempts.past.add((WEB, "sandbox"))
    assert dues.look((), 3.0, NOON)[0] == [Due(WEB, "the activity sandbox", 3.0 + RETRY_SECONDS)]


def test_an_answer_is_due_until_a_history_has_it(dues: Dues) -> None:
    """Answers of workflows that nothing is known of do not count: they may be closed."""
    found = [(WEB, "sandbox"), (DB, "sandbox")]
    assert dues.look(found, 5.0, NOON)[0] == [Due(WEB, "the answer of sandbox", 5.0)]
    assert dues.look(found, 6.0, NOON)[0] == [Due(WEB, "the answer of sandbox", 5.0)]
    assert dues.look((), 7.0, NOON)[0] == []
    assert dues.look(found, 8.0, NOON)[0] == [Due(WEB, "the answer of sandbox", 8.0)]


def test_a_message_is_due_for_as_long_as_its_sender_says(dues: Dues) -> None:
    """A sender that has delivered it at last, or has gone, repeats it no more."""
    dues.message(WEB, "RuntimeChanged", 6.0, 10.0)
    dues.message(WEB, "RuntimeChanged", 7.0, 12.0)
    assert dues.look((), 13.0, NOON)[0] == [Due(WEB, "the message RuntimeChanged", 4.0)]
    assert dues.look((), 12.0 + REPEATED_WITHIN + 0.1, NOON)[0] == []


@pytest.mark.parametrize(
    ("after", "is_commit"),
    [(IDLE, False), (replace(IDLE, length=13), True), (replace(IDLE, run_id="run2", length=3), True)],
    ids=["the same task again", "a longer history", "another run"],
)
def test_a_later_decision_proves_a_commit(dues: Dues, after: Decided, is_commit: bool) -> None:
    """The first decision after the start of a worker proves nothing: nothing of this worker was committed by it."""
    assert dues.look((), 1.0, NOON)[1].at == 0.0
    dues.decided(WEB, after)
    assert (dues.look((), 2.0, NOON)[1].at == 2.0) is is_commit


def test_an_activity_that_comes_proves_a_commit(dues: Dues) -> None:
    """It was sent because a decision is in the history."""
    dues.begun()
    assert dues.look((), 3.0, NOON)[1].at == 3.0
    assert dues.look((), 4.0, NOON)[1].at == 3.0


def test_what_something_else_leads_is_not_due(dues: Dues) -> None:
    """Neither its timers nor its messages."""
    dues.decided(WEB, replace(IDLE, wakes_at=NOON))
    dues.message(WEB, "PodListed", 6.0, 10.0)
    dues.forget(WEB)
    assert dues.look([(WEB, "sandbox")], 11.0, NOON)[0] == []


def test_what_is_due_after_a_hand_back_is_new(dues: Dues) -> None:
    """The run that takes a workflow back decides before the next look, and has its own 30 seconds to commit an answer."""
    found = [(WEB, "sandbox"), (DB, "sandbox")]
    dues.decided(DB, IDLE)
    dues.look(found, 1.0, NOON)
    dues.forget(WEB)
    dues.decided(WEB, replace(IDLE, run_id="run2"))
    answer = "the answer of sandbox"
    assert dues.look(found, 31.0, NOON)[0] == [Due(WEB, answer, 31.0), Due(DB, answer, 1.0)]
