"""Writes the newest value of each key to disk in one thread, so that neither a workflow task nor the event loop waits for it.

Used for what is written after each decision about a pod. Of several values of one key only the newest is written. A disk that
takes no file is told (`Troubles`); what it did not take waits, and is tried again with growing pauses. No error of one value
ends the thread.
"""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, Self, TypeVar

import structlog

from worker.daemon.troubles import TROUBLES, Troubles

FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 30.0
"""Seconds until values that could not be written are tried again."""
_CLOSED_WITHIN: Final = 5
"""Seconds."""

_log: Final = structlog.get_logger(__name__)
Value = TypeVar("Value")


def newest(_: Any, after: Value) -> Value:
    """Return the newer of two values."""
    return after


class NewestWriter(Generic[Value]):
    """The thread, and the values that wait for it."""

    def __init__(
        self,
        part: str,
        write: Callable[[str, Value], None],
        *,
        merge: Callable[[Value, Value], Value] = newest,
        gather: float = 0.0,
        troubles: Troubles = TROUBLES,
    ) -> None:
        """Take the words for the values in messages, and the function that writes one; `merge`: an older value and a newer one.

        `gather`: how many seconds to wait for newer values before any is written.
        """
        self._part = part
        self._write = write
        self._merge = merge
        self._gather = gather
        self._troubles = troubles
        self._pause = 0.0
        """Seconds between the last failure and the next try; 0: nothing failed."""
        self._retry_at = 0.0
        self._waiting: dict[str, Value] = {}
        self._failed: dict[str, Value] = {}
        """The disk did not take them, and they are tried again."""
        self._given_up: set[str] = set()
        """Keys whose newest value cannot be written at all."""
        self._writing: frozenset[str] = frozenset()
        self._flushing = 0
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._write_all, name=part, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(timeout=_CLOSED_WITHIN)

    def put(self, key: str, value: Value) -> None:
        """Take a value; returns at once."""
        with self._changed:
            if not self._waiting:
                self._changed.notify_all()  # else the thread knows already: each time that it wakes costs the caller, too
            self._waiting[key] = self._merge(self._waiting[key], value) if key in self._waiting else value

    def flush(self, key: str, timeout: float) -> bool:
        """Wait until the key's newest value is written; returns whether it is, within so many seconds."""
        with self._changed:
            self._flushing += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: key not in self._waiting and key not in self._writing, timeout)
            self._flushing -= 1
            return not any(key in one for one in (self._waiting, self._writing, self._failed, self._given_up))

    def _write_all(self) -> None:
        while batch := self._next_batch():
            failed: dict[str, Exception] = {}
            for key, value in batch.items():
                if why := self._try_to_write(key, value):
                    failed[key] = why
                with self._changed:
                    self._settle(key, value, why)
                    self._changed.notify_all()
            self._note(failed)

    def _next_batch(self) -> dict[str, Value]:
        """Wait for values to write, or until those that failed are due; empty: the writer is closed."""
        with self._changed:
            left = max(self._retry_at - time.monotonic(), 0.0) if self._failed else None
            self._changed.wait_for(lambda: bool(self._waiting) or self._closing, left)
            if self._waiting and self._gather:
                self._changed.wait_for(lambda: self._closing or bool(self._flushing), self._gather)
            batch, self._waiting = self._waiting, {}
            if self._failed and not self._closing and time.monotonic() >= self._retry_at:
                batch = self._failed | batch
            for key in batch.keys() & self._failed.keys():
                if batch[key] is not self._failed[key]:
                    batch[key] = self._merge(self._failed[key], batch[key])
            self._writing = frozenset(batch)
            return batch

    def _try_to_write(self, key: str, value: Value) -> Exception | None:
        """Write one value; returns why it failed."""
        try:
            self._write(key, value)
        except Exception as error:  # noqa: BLE001 - the thread must not end, and other values must be written
            if not isinstance(error, OSError):
                _log.exception("a file cannot be written", what=self._part, key=key)
            return error
        return None

    def _settle(self, key: str, value: Value, why: Exception | None) -> None:
        """Note that a value was written, or that it waits for the next try; only a failure of the disk passes."""
        self._writing -= {key}
        self._failed.pop(key, None)
        self._given_up.discard(key)
        if isinstance(why, OSError):
            self._failed[key] = value
        elif why:
            self._given_up.add(key)

    def _note(self, failed: Mapping[str, Exception]) -> None:
        """Tell of what failed, and that all is written again."""
        if failed:
            why = next(iter(failed.values()))
            if not self._pause:
                _log.error(f"{self._part} cannot be written, trying again", number=len(failed), err=str(why))
            if time.monotonic() >= self._retry_at:
                self._pause = min(self._pause * 2, LONGEST_PAUSE) or FIRST_PAUSE
                self._retry_at = time.monotonic() + self._pause
            self._troubles.failed(self._part, f"{len(self._failed)} wait to be written: {type(why).__name__}: {why}")
        elif not self._failed:
            if self._pause:
                _log.info(f"{self._part} can be written again")
            self._pause = 0.0
            self._troubles.works(self._part)
