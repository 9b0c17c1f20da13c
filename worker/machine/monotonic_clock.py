"""A monotonic clock: unaffected by changes of the system time.

Used to measure how long a state has lasted. With the system clock, a time server that sets it forward by an hour would make a
runtime that answered a second ago look dead, and the node not Ready; set back, it would keep a pressure condition.
"""

import time
from datetime import UTC, datetime, timedelta
from typing import Final

_BEGAN: Final = datetime.now(UTC) - timedelta(seconds=time.monotonic())


def monotonic_now() -> datetime:
    """Return a time that may only be compared with others of this clock."""
    return _BEGAN + timedelta(seconds=time.monotonic())
