"""Collects what waits for Temporal, and what Temporal has committed lately, for `away.py`.

Each look compares what is due now with what was due before, so nobody has to say when something became due. Workflows speak
from their own threads; the rest is called on the event loop.
"""

import threading
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final, Protocol

from worker.stand_in.away import Committed, Due
from workflows.extern import Decided

RETRY_SECONDS: Final = 20.0
"""Longer than any delay between two tries of an action that Temporal retries by itself."""
REPEATED_WITHIN: Final = 15.0
"""A sender repeats a message that nobody has taken at least so often."""
What = tuple[str, str]
"""A workflow, and in words what of it is due."""


class Attempts(Protocol):
    """The attempts of activities in this process (`activities/execution/present_attempts.py`)."""

    def is_present(self, workflow_id: str, key: str) -> bool:
        """Report whether an attempt of this action runs here."""
        ...

    def has_been(self, workflow_id: str, key: str) -> bool:
        """Report whether an attempt of this action has run here lately."""
        ...


class Dues:
    """What is due to the pods of one node, and what was committed; seconds are those of the AttentiveClock."""

    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts
        self._lock = threading.Lock()
        """For what follows."""
        self._expected: dict[str, Decided] = {}
        self._committed = False
        """Since the last look."""
        self._committed_at = 0.0
        self._since: dict[What, float] = {}
        self._failed: dict[str, int] = {}
        self._messages: dict[What, tuple[float, float]] = {}
        """When each became due, and when it was last said."""

    # --- what was seen

    def decided(self, workflow_id: str, decision: Decided) -> None:
        """Take a decision of a workflow: a longer history proves that what it decided before is committed."""
        with self._lock:
            before = self._expected.get(workflow_id)
            if before is not None and (before.run_id != decision.run_id or before.length < decision.length):
                self._committed = True
                self._failed.pop(workflow_id, None)
            self._expected[workflow_id] = decision

    def begun(self) -> None:
        """Note that Temporal has sent an activity, which proves that the decision to begin it is committed."""
        with self._lock:
            self._committed = True

    def forget(self, workflow_id: str) -> None:
        """Expect nothing any more: the workflow has ended, or something else leads it. What it does later is due from then on."""
        with self._lock:
            self._expected.pop(workflow_id, None)
            self._failed.pop(workflow_id, None)
            self._messages = {what: times for what, times in self._messages.items() if what[0] != workflow_id}
        self._since = {what: since for what, since in self._since.items() if what[0] != workflow_id}

    def failed(self, workflow_id: str, count: int) -> None:
        """Take how many tasks of a workflow have failed in a row."""
        with self._lock:
            if count:
                self._failed[workflow_id] = count
            else:
                self._failed.pop(workflow_id, None)

    def message(self, workflow_id: str, name: str, due_for: float, now: float) -> None:
        """Take a message that Temporal has not taken for so long."""
        what = workflow_id, f"the message {name}"
        with self._lock:
            since, _ = self._messages.get(what, (now - due_for, 0.0))
            self._messages[what] = min(since, now - due_for), now

    # --- what follows from it

    def look(self, unsettled: Iterable[tuple[str, str]], now: float, wall: datetime) -> tuple[list[Due], Committed]:
        """Return what is due and what was committed; `unsettled`: workflow and key of each answer that no history has."""
        with self._lock:
            if self._committed:
                self._committed, self._committed_at = False, now
            expected = dict(self._expected)
            self._messages = {what: at for what, at in self._messages.items() if now - at[1] <= REPEATED_WITHIN}
            messages = [Due(what[0], what[1], since) for what, (since, _) in self._messages.items()]
            committed = Committed(self._committed_at, tuple(self._failed.items()))
        late = dict(self._late(expected, wall))
        late |= {(one, f"the answer of {key}"): 0.0 for one, key in unsettled if one in expected}
        self._since = {what: self._since.get(what, now) for what in late}
        return messages + [Due(*what, self._since[what] + delay) for what, delay in late.items()], committed

    def _late(self, expected: Mapping[str, Decided], wall: datetime) -> Iterator[tuple[What, float]]:
        """Yield each timer and activity that Temporal has not brought, with the seconds that it may take."""
        for workflow_id, one in expected.items():
            if one.wakes_at is not None and one.wakes_at <= wall:
                yield (workflow_id, f"the timer of {one.wakes_at:%H:%M:%S}"), 0.0
            for key in one.under_way:
                if not self._attempts.is_present(workflow_id, key):
                    has_been = self._attempts.has_been(workflow_id, key)
                    yield (workflow_id, f"the activity {key}"), RETRY_SECONDS if has_been else 0.0
