"""systemctl, as far as join and leave need it: the state of a unit, and the commands that change it."""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from worker.joining.refusal import JoinRefused

ROLES: Final = ("worker", "poller", "node")
STOPPED_IN: Final = ("node", "poller", "worker")
"""The order of leaving: a Node that is gone from the API would be made again while `tempolet node` runs."""
CALL_LIMIT: Final = 120.0
"""Seconds; a stop of the worker may take 20."""
_PROPERTIES: Final = "Id,LoadState,ActiveState,SubState,UnitFileState,StatusText,NRestarts,Result"
_MOST: Final = 500


def unit_of(role: str) -> str:
    """Return the name of a process's unit."""
    return f"tempolet-{role}.service"


UNITS: Final = tuple(map(unit_of, ROLES))


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit as systemd sees it."""

    id: str = ""
    """Its own name, if it was asked for by an alias."""
    loaded: str = ""
    active: str = ""
    sub: str = ""
    enabled: str = ""
    status: str = ""
    """What the service says of itself."""
    restarts: int = 0
    result: str = ""

    @property
    def runs(self) -> bool:
        """Report whether it runs, starts or is started again and again."""
        return self.active in {"active", "activating", "reloading"}

    @property
    def keeps_ending(self) -> bool:
        """Report whether it was started again more often than a slow start explains."""
        return self.active == "failed" or (self.sub == "auto-restart" and self.restarts > 2)

    def words(self) -> str:
        """Say what it waits for, or why it does not run."""
        state = f"{self.active} ({self.sub})" if self.sub else self.active or "unknown"
        if self.keeps_ending or not self.runs:
            return f"{state}, result {self.result or 'unknown'}, restarted {self.restarts} times"
        return self.status or state


@dataclass(frozen=True, slots=True)
class Systemd:
    """The machine's systemd, by its systemctl."""

    program: str = "systemctl"

    def unit(self, name: str) -> Unit:
        """Read the state of a unit; raises JoinRefused."""
        lines = self._run("show", f"--property={_PROPERTIES}", name).splitlines()
        told = dict(line.split("=", 1) for line in lines if "=" in line)
        restarts = told.get("NRestarts", "")
        return Unit(
            id=told.get("Id", ""),
            loaded=told.get("LoadState", ""),
            active=told.get("ActiveState", ""),
            sub=told.get("SubState", ""),
            enabled=told.get("UnitFileState", ""),
            status=told.get("StatusText", ""),
            restarts=int(restarts) if restarts.isdecimal() else 0,
            result=told.get("Result", ""),
        )

    def reload(self) -> None:
        """Let it read the unit files again."""
        self._run("daemon-reload")

    def enable(self, units: Sequence[str]) -> None:
        """Enable units and start them, without waiting until they are ready."""
        self._run("enable", "--now", "--no-block", *units)

    def enable_at_boot(self, units: Sequence[str]) -> None:
        """Enable units, and do not start them."""
        self._run("enable", *units)

    def restart(self, units: Sequence[str]) -> None:
        """Restart units, without waiting until they are ready."""
        self._run("restart", "--no-block", *units)

    def disable(self, unit: str) -> None:
        """Stop a unit, and start it at no boot."""
        self._run("disable", "--now", unit)

    def _run(self, *words: str) -> str:
        command = f"systemctl {' '.join(words)}"
        try:
            done = subprocess.run(
                [self.program, "--no-pager", *words], capture_output=True, text=True, timeout=CALL_LIMIT, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise JoinRefused(f"`{command}`: {error}") from error
        if done.returncode:
            raise JoinRefused(f"`{command}` failed: {(done.stderr or done.stdout).strip()[:_MOST]}")
        return done.stdout
