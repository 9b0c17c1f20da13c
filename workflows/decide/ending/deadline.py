"""How long a pod may be active: spec.activeDeadlineSeconds, counted from status.startTime.

When it is over the node ends the pod as it ends a deleted one, but keeps what is left of it until its source no longer
lists it (pkg/kubelet/active_deadline.go). The kubelet looks every second, a timer of the workflow's own is exact.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from workflows.decide.actions import Wake
from workflows.decide.situation import Situation

REASON: Final = "DeadlineExceeded"
MESSAGE: Final = "Pod was active on the node longer than the specified deadline"
A_DAY: Final = timedelta(days=1)


def deadline(situation: Situation) -> datetime | None:
    """Say until when the pod may be active; None while nothing limits it: a pod that waits for its predecessor is not."""
    seconds, started_at = situation.spec.active_deadline_seconds, situation.observed.started_at
    if seconds is None or started_at is None or situation.observed.waiting_for:
        return None
    return started_at + timedelta(seconds=seconds)


def deadline_exceeded(situation: Situation) -> bool:
    """Say whether the pod has been active for as long as it may."""
    at = deadline(situation)
    return at is not None and at <= situation.now


def await_deadline(situation: Situation) -> Iterator[Wake]:
    """Say when to look again for its sake."""
    if at := deadline(situation):
        time = f"{at:%H:%M:%S}" if at - situation.now < A_DAY else f"{at:%Y-%m-%d %H:%M:%S}"
        yield Wake(at, f"activeDeadlineSeconds: the pod is stopped at {time}")
