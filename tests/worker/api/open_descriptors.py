"""Counting what must not remain."""

import os


def descriptors() -> int:
    """Count this process's open descriptors."""
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - only their number is needed
