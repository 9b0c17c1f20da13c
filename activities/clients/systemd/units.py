"""Transient units of systemd: made, limited, stopped, as opencontainers/cgroups does (systemd/common.go).

Each operation may run twice: a unit that exists is started, one that is gone is stopped. A connection that breaks, as at
systemd's own restart (`daemon-reexec`), is made anew within the operation's time; so is one to a systemd that has answered
before, and is not there now.
"""

import contextlib
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

from activities.clients.systemd.bus import (
    MANAGER,
    MANAGER_ADDRESS,
    PROPERTIES_ADDRESS,
    SYSTEMD,
    Bus,
    Sockets,
    SystemdRefused,
    SystemdUnavailable,
    opened,
)

SECONDS: Final = 30.0
"""The time of one operation, with every try of it."""
_TRIES: Final = 20
_PAUSE: Final = 0.25
"""Seconds between tries: systemd restarts itself in a second, on a busy machine in some."""
REPLACE: Final = "replace"
_EXISTS: Final = f"{SYSTEMD}.UnitExists"
_MISSING: Final = f"{SYSTEMD}.NoSuchUnit"

_Answer = TypeVar("_Answer")


class SystemdUnits:
    """The units of this machine; may be used from many threads. Raises SystemdUnavailable, SystemdRefused: OSErrors."""

    def __init__(self, sockets: Sockets | None = None, seconds: float = SECONDS) -> None:
        """Take where systemd listens, and the time of one operation."""
        self._sockets, self._seconds = sockets or Sockets(), seconds
        self._version = 0

    def version(self) -> int:
        """Return systemd's version; asked once."""
        if not self._version:
            self._version = self.operation(_version)
        return self._version

    def start(self, name: str, properties: list[tuple[str, tuple[str, object]]]) -> None:
        """Make a transient unit and start it; start one that exists already."""

        def start(bus: Bus) -> str:
            try:
                return bus.job("StartTransientUnit", "ssa(sv)a(sa(sv))", (name, REPLACE, properties, []), name)
            except SystemdRefused as error:
                if error.name != _EXISTS:
                    raise
                return bus.job("StartUnit", "ss", (name, REPLACE), name)

        result = self.operation(start)
        if result not in ("done", "skipped"):
            self._forget_failure(name)
            raise SystemdRefused(f"start {name}", result, f"the job ended with {result!r}; see systemctl status {name}")

    def limit(self, name: str, properties: list[tuple[str, tuple[str, object]]]) -> None:
        """Set properties of a unit until the next boot."""
        self.operation(lambda bus: bus.call(MANAGER_ADDRESS, "SetUnitProperties", "sba(sv)", (name, True, properties)))

    def stop(self, name: str) -> None:
        """Stop a unit; a missing one is fine."""

        def stop(bus: Bus) -> None:
            with contextlib.suppress(SystemdRefused):
                bus.call(MANAGER_ADDRESS, "ResetFailedUnit", "s", (name,))
            stop_unit(bus, name)

        self.operation(stop)

    def _forget_failure(self, name: str) -> None:
        """Let systemd drop a failed unit."""
        with contextlib.suppress(OSError):
            self.operation(lambda bus: bus.call(MANAGER_ADDRESS, "ResetFailedUnit", "s", (name,)))

    def operation(self, act: Callable[[Bus], _Answer]) -> _Answer:
        """Do something on a connection of its own; a broken connection is tried again."""
        until = time.monotonic() + self._seconds
        for left in reversed(range(_TRIES)):
            try:
                with opened(self._sockets, until) as bus:
                    return act(bus)
            except SystemdUnavailable as error:
                away = (ConnectionError, FileNotFoundError) if self._version else ConnectionError
                broken = isinstance(error.__cause__, away)
                if not broken or not left or time.monotonic() + _PAUSE > until:
                    raise
                time.sleep(_PAUSE)
        raise AssertionError("unreachable")


def systemd_error() -> str:
    """Return why systemd cannot make slices here, or nothing; blocks until it answers."""
    try:
        SystemdUnits().version()
    except OSError as error:
        return str(error)
    return ""


def stop_unit(bus: Bus, name: str) -> None:
    """Stop a unit, and wait until it has ended; a missing one is fine."""
    try:
        bus.job("StopUnit", "ss", (name, REPLACE), name)
    except SystemdRefused as error:
        if error.name != _MISSING:
            raise


def _version(bus: Bus) -> int:
    """Ask for the version: `252.39-1~deb12u2`, `v245.4-1.fc32`."""
    body: Any = bus.call(PROPERTIES_ADDRESS, "Get", "ss", (MANAGER, "Version")).body()
    text = str(body[0][1]).lstrip("v") if body else ""
    digits = text[: next((at for at, sign in enumerate(text) if not sign.isdigit()), len(text))]
    if not digits.isascii() or not 0 < len(digits) < 6:
        raise ValueError(f"no version: {text[:40]!r}")
    return int(digits)
