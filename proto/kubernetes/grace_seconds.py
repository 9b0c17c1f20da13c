"""Grace periods in the API, which are not bounded: any int64.

Used by the poller without the Kubernetes models, and by `workflows/decide/ending/grace.py`. A grace period that would
end beyond the last year of a datetime is cut to the longest that a manifest may have.
"""

from datetime import timedelta
from typing import Final

LONGEST_GRACE: Final = timedelta(seconds=2**31 - 1)


def grace_of_seconds(seconds: int) -> timedelta:
    """Convert a grace period from seconds."""
    return timedelta(seconds=max(0, min(seconds, int(LONGEST_GRACE.total_seconds()))))
