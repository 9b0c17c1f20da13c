"""A clock that nobody sets: it tells for how long something has been so, and not what time it is.

By the machine's own clock a runtime that answered a second ago would be silent for an hour when that is set forward, as by the first word
of a time server, and the node not Ready for it; a pressure would last until a clock that was set back has caught up.
"""

import time
from datetime import UTC, datetime, timedelta
from typing import Final

_BEGAN: Final = datetime.now(UTC) - timedelta(seconds=time.monotonic())


def monotonic_now() -> datetime:
    """Give a time that may only be compared with others of this clock."""
    return _BEGAN + timedelta(seconds=time.monotonic())
