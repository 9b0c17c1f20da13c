"""What goes wrong in the loops and threads of this process now, and how often each has failed.

There is one record a process. `loop_restarts` and the writers of files fill it. It is read by /healthz, by the metrics
and, over the metrics' socket, by the node process and `tempolet pods`. The watchdog does not read it: a restart of the
process does not help against a full disk or one bad object, and would stop all other loops.
"""

import threading
from collections import Counter
from typing import Final

LONGEST: Final = 300
"""Characters of one message."""


class Troubles:
    """The record; every method may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now: dict[str, str] = {}
        self._failures: Counter[str] = Counter()

    def failed(self, part: str, why: BaseException | str) -> None:
        """Record a failure of a part, which is in trouble until `works`."""
        text = why if isinstance(why, str) else ": ".join(filter(None, (type(why).__name__, str(why))))
        with self._lock:
            self._failures[part] += 1
            self._now[part] = " ".join(text.split())[:LONGEST]

    def works(self, part: str) -> None:
        """Record that a part works (again)."""
        with self._lock:
            self._now.pop(part, None)

    def lines(self) -> tuple[str, ...]:
        """Return one line for each part that is in trouble now."""
        with self._lock:
            return tuple(f"{part}: {why}" for part, why in sorted(self._now.items()))

    def failures(self) -> dict[str, tuple[int, bool]]:
        """Return for each part that ever failed how often, and whether it is in trouble now."""
        with self._lock:
            return {part: (count, part in self._now) for part, count in self._failures.items()}


TROUBLES: Final = Troubles()
"""Those of this process."""
