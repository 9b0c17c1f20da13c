"""Takes the states that Temporal's runs decide, and gives the newest one to whoever takes the lead from them.

A run's state is kept only while the run leads. Whoever takes the lead raises the epoch first, and then reads: a state that was
accepted is in what it reads, and one that comes later is not accepted. So the answers that a run has received may be dropped
with the state that has them, and never before.
"""

import threading
from collections.abc import Callable
from typing import Protocol

from proto.temporal.ticket import Ticket
from worker.stand_in.journal.kept import Place, Start
from worker.tickets.held import Verdict
from workflows.extern import Decided


class Tickets(Protocol):
    """The tickets of the node (`worker/tickets/tickets.py`)."""

    def judge(self, workflow_id: str, shown: Ticket, run_id: str) -> Verdict:
        """Judge what a run does."""
        ...


class States(Protocol):
    """The newest states of all workflows (`journal/journal.py`)."""

    def keep(self, workflow_id: str, start: Start, place: Place) -> None:
        """Keep a state; returns before it is written."""
        ...

    def newest(self, workflow_id: str) -> Start | None:
        """Return the newest state."""
        ...

    def forget(self, workflow_id: str) -> None:
        """Remove a workflow that is closed."""
        ...


class RunStates:
    """The states of Temporal's runs; any thread may call it."""

    def __init__(self, tickets: Tickets, states: States, accepted: Callable[[str, Decided], None]) -> None:
        """Take what is called for each state that was kept, before anybody can read it."""
        self._tickets, self._states, self._accepted = tickets, states, accepted
        self._lock = threading.Lock()
        self._namespace_id = ""
        """Empty while it is not known."""

    def known_in(self, namespace_id: str) -> None:
        """Take the id of the namespace in which the runs are from now on."""
        self._namespace_id = namespace_id

    def keep(self, workflow_id: str, decided: Decided, start: Start) -> None:
        """Keep the state of a run that leads its workflow; called in the thread of its task."""
        with self._lock:
            if self._tickets.judge(workflow_id, start.ticket, decided.run_id) is Verdict.PASSES:
                place = Place(self._namespace_id, decided.run_id, decided.length, decided.at)
                self._states.keep(workflow_id, start, place)
                self._accepted(workflow_id, decided)

    def end(self, workflow_id: str, run_id: str, start: Start) -> bool:
        """Forget a workflow whose run has ended by itself; returns whether it led. Called in the thread of its task."""
        with self._lock:
            leads = self._tickets.judge(workflow_id, start.ticket, run_id) is Verdict.PASSES
            if leads:
                self._states.forget(workflow_id)
            return leads

    def newest(self, workflow_id: str) -> Start | None:
        """Return the newest state of a workflow, for whoever has raised its epoch; blocks."""
        with self._lock:
            return self._states.newest(workflow_id)
