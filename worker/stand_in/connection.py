"""The worker's connection to Temporal, as far as the leads of pods depend on it: whether it works, and since when it does not.

A node without pods has nothing due, so it never finds Temporal away. But that its worker is not connected can be told.
"""

from datetime import UTC, datetime, timedelta
from typing import Final

from worker.telemetry.workflow_engine import WorkflowEngine

NOT_CONNECTED: Final = "the worker has no connection to Temporal"


class Connection:
    """The connection of one worker process; its times are those of the AttentiveClock."""

    def __init__(self, away_seconds: float) -> None:
        self._away_seconds = away_seconds
        self.worked_at = 0.0
        """When the SDK's worker ran last."""
        self.polls_since = 0.0
        """When the SDK's worker began to ask Temporal for work. Now, while open histories are replayed before that; zero without a connection."""
        self._has_worked = False
        self._lost_at: datetime | None = None
        """Since when it does not run, once that has lasted."""

    def look(self, now: float, *, is_hosted: bool, is_replaying: bool) -> bool:
        """Take whether the SDK's worker runs, or open histories are replayed before that; returns whether either is so."""
        works = is_hosted or is_replaying
        if not is_hosted:
            self.polls_since = now if is_replaying else 0.0
        elif not self.polls_since:
            self.polls_since = now
        if works:
            self.worked_at, self._has_worked, self._lost_at = now, True, None
        elif self._lost_at is None and now - self.worked_at >= self._away_seconds:
            self._lost_at = ago(now - self.worked_at)
        return works

    def engine(self, why: str, pods_led: int, pods_kept: int = 0) -> WorkflowEngine | None:
        """Return what to tell of Temporal; None: the connection has neither worked nor been missed for long enough."""
        if self._lost_at is not None:
            return WorkflowEngine(self._lost_at, NOT_CONNECTED, pods_led, pods_kept=pods_kept)
        return WorkflowEngine(None, why, pods_led, pods_kept=pods_kept) if self._has_worked else None


def ago(seconds: float) -> datetime:
    """Return the time so many seconds ago, to the second."""
    return (datetime.now(UTC) - timedelta(seconds=seconds)).replace(microsecond=0)
