"""A grace as the API says it, which bounds none: any number of an int64.

Read by the poller, without the Kubernetes models, and by `workflows/decide/ending/grace.py`. What would end beyond the last year that
a date can name is cut to what a manifest may ask for.
"""

from datetime import timedelta
from typing import Final

LONGEST_GRACE: Final = timedelta(seconds=2**31 - 1)


def grace_of_seconds(seconds: int) -> timedelta:
    """Read a grace in seconds."""
    return timedelta(seconds=max(0, min(seconds, int(LONGEST_GRACE.total_seconds()))))
