"""Which attempts of activities run in this process, and when one of an action was last seen.

`worker/host/temporal/lost_attempts.py` compares it with what Temporal takes for running.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Final

from activities.execution.attempt import Attempt

_REMEMBERED: Final = 4096
"""Actions without an attempt, by when the last one ended."""


class PresentAttempts:
    """The attempts of this process; written on its event loop."""

    def __init__(self) -> None:
        self._present: dict[tuple[str, str], list[tuple[str, int]]] = {}
        self._ended_at: dict[tuple[str, str], float] = {}

    @contextmanager
    def one(self, attempt: Attempt) -> Iterator[None]:
        """Count an attempt while the block runs."""
        action, one = (attempt.workflow_id, attempt.key), (attempt.asker[0], attempt.number)
        self._present.setdefault(action, []).append(one)
        try:
            yield
        finally:
            here = self._present[action]
            here.remove(one)
            if not here:
                del self._present[action]
            self._ended_at.pop(action, None)
            self._ended_at[action] = monotonic()
            if len(self._ended_at) > _REMEMBERED:
                del self._ended_at[next(iter(self._ended_at))]

    def has(self, workflow_id: str, key: str, run_id: str, attempt: int) -> bool:
        """Report whether this very attempt runs here."""
        return (run_id, attempt) in self._present.get((workflow_id, key), ())

    def has_any(self, workflow_id: str) -> bool:
        """Report whether any attempt of a workflow runs here."""
        return any(one == workflow_id for one, _ in self._present)

    def seconds_without(self, workflow_id: str, key: str, since: float) -> float:
        """Return how long no attempt of an action has run here, counted from `since` at the earliest."""
        if (workflow_id, key) in self._present:
            return 0.0
        return monotonic() - max(since, self._ended_at.get((workflow_id, key), since))
