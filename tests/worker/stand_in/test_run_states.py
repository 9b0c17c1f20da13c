"""Is a run's state kept only while the run leads, and does whoever takes the lead always read the last one that was?"""

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from proto.temporal.pod import PodStart
from proto.temporal.ticket import Ticket
from tests.patience import PATIENCE
from tests.worker.stand_in.journal.journals import start as pod_start
from worker.stand_in.journal.kept import Place, Start
from worker.stand_in.run_states import RunStates
from worker.tickets.held import Verdict
from worker.tickets.tickets import Tickets
from workflows.extern import Decided

WEB = "pod/node-1/default/web/u1"
DECIDED = Decided("run-1", 10)


class States:
    """The newest states."""

    def __init__(self) -> None:
        self.newest_of: dict[str, Start] = {}

    def keep(self, workflow_id: str, start: Start, _place: Place) -> None:
        """Keep one."""
        self.newest_of[workflow_id] = start

    def newest(self, workflow_id: str) -> Start | None:
        """Return one."""
        return self.newest_of.get(workflow_id)

    def forget(self, workflow_id: str) -> None:
        """Forget one."""
        self.newest_of.pop(workflow_id, None)


class SlowTickets(Tickets):
    """Tickets whose judgement is held after it is made."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.judged, self.may_go_on = threading.Event(), threading.Event()

    def judge(self, workflow_id: str, shown: Ticket, run_id: str) -> Verdict:
        """Judge, say so, and wait."""
        verdict = super().judge(workflow_id, shown, run_id)
        self.judged.set()
        assert self.may_go_on.wait(PATIENCE)
        return verdict


@pytest.fixture
def tickets(tmp_path: Path) -> Tickets:
    """The pod has a ticket."""
    made = Tickets(tmp_path)
    made.draw(WEB)
    return made


def started(tickets: Tickets) -> PodStart:
    """Return the start of the run that leads now."""
    ticket = tickets.of(WEB)
    assert ticket
    return replace(pod_start(), ticket=ticket)


def test_the_state_of_a_run_that_leads_is_kept(tickets: Tickets) -> None:
    """And it is said, because its answers may be dropped then."""
    accepted: list[tuple[str, Decided]] = []
    states = RunStates(tickets, States(), lambda *said: accepted.append(said))
    start = started(tickets)
    states.keep(WEB, DECIDED, start)
    assert states.newest(WEB) is start
    assert accepted == [(WEB, DECIDED)]


def test_the_state_of_a_run_that_leads_no_more_is_not(tickets: Tickets) -> None:
    """Its answers stay, and it ends nothing."""
    accepted: list[tuple[str, Decided]] = []
    states = RunStates(tickets, States(), lambda *said: accepted.append(said))
    before, later = started(tickets), started(tickets)
    states.keep(WEB, DECIDED, before)
    tickets.raise_epoch(WEB)
    states.keep(WEB, DECIDED, later)
    assert states.newest(WEB) is before
    assert len(accepted) == 1
    assert not states.end(WEB, DECIDED.run_id, later)
    assert states.newest(WEB) is before


def test_a_workflow_that_has_ended_by_itself_is_forgotten(tickets: Tickets) -> None:
    """Also after it has given up its ticket."""
    states = RunStates(tickets, States(), lambda *_: None)
    start = started(tickets)
    states.keep(WEB, DECIDED, start)
    tickets.complete(WEB, start.ticket, DECIDED.run_id)
    assert states.end(WEB, DECIDED.run_id, start)
    assert states.newest(WEB) is None


def test_a_state_that_is_being_accepted_is_waited_for(tmp_path: Path) -> None:
    """Its run was judged before the epoch was raised, so its answers will be dropped."""
    tickets = SlowTickets(tmp_path)
    tickets.draw(WEB)
    states = RunStates(tickets, States(), lambda *_: None)
    start, read = started(tickets), []
    keeping = threading.Thread(target=states.keep, args=(WEB, DECIDED, start))
    reading = threading.Thread(target=lambda: read.append(states.newest(WEB)))
    keeping.start()
    assert tickets.judged.wait(PATIENCE)
    tickets.raise_epoch(WEB)
    reading.start()
    tickets.may_go_on.set()
    for one in (keeping, reading):
        one.join(PATIENCE)
    assert read == [start]
