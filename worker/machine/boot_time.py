"""When the machine was booted."""

import time
from functools import cache


@cache
def boot_time() -> float:
    """Return the boot time in seconds since 1970, to the second."""
    return float(int(time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)))
