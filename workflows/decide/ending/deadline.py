"""spec.activeDeadlineSeconds: how long a pod may be active, counted from status.startTime.

When the deadline is exceeded the node ends the pod like a deleted one, but keeps its containers and logs until its
source no longer lists it (pkg/kubelet/active_deadline.go). The kubelet checks every second; the workflow has an exact
timer.
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
    """Return until when the pod may be active; None if there is no limit, or it waits for its predecessor."""
    seconds, started_at = situation.spec.active_deadline_seconds, situation.observed.started_at
    if seconds is None or started_at is None or situation.observed.waiting_for:
        return None
    return started_at + timedelta(seconds=seconds)


def deadline_exceeded(situation: Situation) -> bool:
    """Report whether the pod's deadline has passed."""
    at = deadline(situation)
    return at is not None and at <= situation.now


def await_deadline(situation: Situation) -> Iterator[Wake]:
    """Wake when the deadline is exceeded."""
    if at := deadline(situation):
        time = f"{at:%H:%M:%S}" if at - situation.now < A_DAY else f"{at:%Y-%m-%d %H:%M:%S}"
        yield Wake(at, f"activeDeadlineSeconds: the pod is stopped at {time}")
