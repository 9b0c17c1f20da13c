"""Sequence numbers of one process's signals, increasing across restarts and clock changes.

A workflow treats a signal with a lower number than its source's newest as late (workflows/decide/record/signals.py), so a
restarted process must not start below its last number. It starts at the clock's milliseconds, which no run counts up
to, and keeps the start in `<root-dir>/tempolet/<process>.signals`.
"""

import time
from pathlib import Path
from typing import Final

import structlog

from activities.files.atomic_files import write_atomically

LEAP: Final = 100_000_000
"""Gap above the last start if the clock is behind it: more signals than one run ever sends."""

_log: Final = structlog.get_logger(__name__)


class SignalNumbers:
    """Counts on from `last`."""

    def __init__(self, last: int = 0) -> None:
        self._last = last

    def next(self) -> int:
        """Return the next number."""
        self._last += 1
        return self._last


def signal_numbers(state_dir: Path, process: str) -> SignalNumbers:
    """Start above all numbers that this process of this node has sent; blocks on a small file."""
    file = state_dir / f"{process}.signals"
    first = beginning(time.time_ns() // 1_000_000, _last_start(file))
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, f"{first}\n".encode())
    except OSError as error:
        _log.warning("could not write down the start of the signal numbers", path=str(file), err=str(error))
    return SignalNumbers(first)


def beginning(now: int, last: int) -> int:
    """Choose the first number from the clock's milliseconds and the previous start (0: not known)."""
    return now if now > last else last + LEAP


def _last_start(file: Path) -> int:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return 0
