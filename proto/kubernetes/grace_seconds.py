"""Grace periods in the API, which are not bounded: any int64.

Used by the poller without the Kubernetes models, and by `workflows/decide/ending/grace.py`. A grace period that would
end beyond the last year of a datetime is cut to the longest that a manifest may have.
"""

from datetime import timedelta
from typing import Final

LONGEST_GRACE: Final = timedelta(seconds=2**31 - 1)
SHORTEST_END: Final = timedelta(seconds=10)
"""The least time in which a pod that its node ends has to have ended: a runtime may have to kill it."""


def grace_of_seconds(seconds: int) -> timedelta:
    """Convert a grace period from seconds."""
    return timedelta(seconds=max(0, min(seconds, int(LONGEST_GRACE.total_seconds()))))


def longest_end(grace: timedelta) -> timedelta:
    """Return how long a pod that its node ends may take at most: one and a half grace periods (pod_workers.go killPodNow)."""
    seconds = int(grace.total_seconds())
    return max(SHORTEST_END, timedelta(seconds=seconds + seconds // 2))
