"""Sequence numbers of one process's signals, increasing across restarts and clock changes.

A workflow treats a signal with a lower number than its source's newest as late (workflows/decide/record/numbers.py), so a
restarted process must not start below its last number. It starts at the clock's milliseconds, which no run counts up
to, and keeps the start in `<root-dir>/tempolet/<process>.signals`. If that file is lost, the clock may have been set back
since: then the numbers are unsettled, and the poller first asks Temporal when the node's workflows last heard anything.
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

    def __init__(self, last: int = 0, *, unsettled: bool = False) -> None:
        self._last = last
        self.unsettled = unsettled
        """Earlier numbers are not known, and may be higher."""
        self.outdated = 0
        """A number up to this one, drawn before the numbers were settled, counts as late: draw another."""

    def next(self) -> int:
        """Return the next number."""
        self._last += 1
        return self._last

    def settle(self, newest: int) -> None:
        """Count on above all numbers that were sent until a time, in the clock's milliseconds (0: none were)."""
        if newest >= self._last:
            _log.warning("the clock is behind the last signals that were sent; counting on above them")
            self._last, self.outdated = newest + LEAP, newest
        self.unsettled = False


def signal_numbers(state_dir: Path, process: str) -> SignalNumbers:
    """Start above all numbers that this process of this node has sent; blocks on a small file."""
    file = state_dir / f"{process}.signals"
    last = _last_start(file)
    first = beginning(time.time_ns() // 1_000_000, last)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, f"{first}\n".encode())
    except OSError as error:
        _log.warning("could not write down the start of the signal numbers", path=str(file), err=str(error))
    return SignalNumbers(first, unsettled=not last)


def beginning(now: int, last: int) -> int:
    """Choose the first number from the clock's milliseconds and the previous start (0: not known)."""
    return now if now > last else last + LEAP


def _last_start(file: Path) -> int:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return 0
