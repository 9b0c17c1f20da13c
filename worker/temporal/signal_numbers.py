"""The numbers of the signals of one process, each higher than all before it: over restarts, too, and over a clock that was set back.

A workflow takes a signal for late whose number is below the newest of its source (workflows/decide/record/signals.py), so a process that began
again below its last number would be heard by nobody. It begins at the clock's milliseconds, which no run counts up to, and keeps in
`<root-dir>/tempolet/<process>.signals` where it began.
"""

import time
from pathlib import Path
from typing import Final

import structlog

from activities.files.whole_files import write_whole

LEAP: Final = 100_000_000
"""What is left free above the last beginning where the clock is behind it: more than one run ever sends."""

_log: Final = structlog.get_logger(__name__)


class SignalNumbers:
    """Counts on from `last`."""

    def __init__(self, last: int = 0) -> None:
        self._last = last

    def next(self) -> int:
        """Give the next number."""
        self._last += 1
        return self._last


def signal_numbers(state_dir: Path, process: str) -> SignalNumbers:
    """Begin above all that this process of this node has sent; blocks on a small file, without which the clock alone decides."""
    file = state_dir / f"{process}.signals"
    first = beginning(time.time_ns() // 1_000_000, _kept(file))
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, f"{first}\n".encode())
    except OSError as error:
        _log.warning("where signals are numbered from could not be written down", path=str(file), err=str(error))
    return SignalNumbers(first)


def beginning(now: int, last: int) -> int:
    """Choose where to begin, by the clock's milliseconds and where the last run began (0: not known)."""
    return now if now > last else last + LEAP


def _kept(file: Path) -> int:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return 0
