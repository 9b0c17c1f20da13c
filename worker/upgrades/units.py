"""The processes of a node as units of systemd (`deploy/systemd/`).

All units start one link, `/usr/local/bin/tempolet` unless a drop-in names another one, which leads into the virtual environment of a release.
An upgrade lets the link lead into another one.
"""

import contextlib
import os
import re
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from worker.upgrades.health import Process
from worker.upgrades.services import ORDER, CannotUpgrade

PROPERTIES: Final = "LoadState,ActiveState,SubState,MainPID,NRestarts,StatusText,ExecStart"
CALL_LIMIT: Final = 90.0
"""Seconds; a stop of the worker may take 20."""
_PATH: Final = re.compile(r"\bpath=(?P<path>/[^ ;]+)")

Systemctl = Callable[..., str]


def systemctl(*words: str) -> str:
    """Run systemctl; raises CannotUpgrade."""
    try:
        done = subprocess.run(
            ["systemctl", "--no-pager", *words], capture_output=True, text=True, timeout=CALL_LIMIT, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotUpgrade(f"systemctl {' '.join(words)}: {error}") from error
    if done.returncode:
        raise CannotUpgrade(f"systemctl {' '.join(words)}: {(done.stderr or done.stdout).strip()[:500]}")
    return done.stdout


def unit_of(role: str) -> str:
    """Return the name of a process's unit."""
    return f"tempolet-{role}.service"


@dataclass(slots=True)
class Units:
    """The units of this machine's node."""

    roles: tuple[str, ...]
    link: Path
    """What the units start."""
    old: Path
    """Where it led when the upgrade began."""
    new: Path
    """The program of this release."""
    run: Systemctl = systemctl
    _ended: dict[str, int] = field(default_factory=dict)
    """NRestarts of each unit before the upgrade started it."""

    @classmethod
    def found(cls, new: Path, *, old: str = "", run: Systemctl = systemctl) -> Self:
        """Find the units that run, and their link; raises CannotUpgrade. `old`: the release before an interrupted upgrade."""
        shown = {role: show(run, role) for role in ORDER}
        roles = tuple(role for role in ORDER if shown[role].get("ActiveState") not in (None, "", "inactive"))
        if not {"worker", "poller"} <= set(roles):
            raise CannotUpgrade(
                "tempolet-worker and tempolet-poller do not run: start them, or use `tempolet up` of this release"
            )
        links = {_started(shown[role]) for role in roles}
        if len(links) != 1:
            raise CannotUpgrade(f"the units start different programs: {', '.join(sorted(map(str, links)))}")
        (link,) = links
        if not link.is_symlink():
            raise CannotUpgrade(
                f"{link}, which the units start, is no link to the program of a release (deploy/cluster.md, step 2)"
            )
        leads_to = Path(old) if old else link.parent / link.readlink()
        if leads_to == new or leads_to.resolve() == new.resolve():
            raise CannotUpgrade(
                f"{link} leads to this release already: set the new release up in a folder of its own, and run its `tempolet upgrade`"
            )
        return cls(roles, link, leads_to, new, run)

    @property
    def before(self) -> str:
        """Say where the release before is."""
        return str(self.old)

    def use_new(self) -> None:
        """Let the link lead to this release."""
        self._lead_to(self.new)

    def use_before(self) -> None:
        """Let it lead to the release before."""
        self._lead_to(self.old)

    def restart(self, role: str) -> None:
        """Restart a unit."""
        self._ended[role] = _number(show(self.run, role), "NRestarts")
        self.run("restart", "--no-block", unit_of(role))

    def look(self, role: str) -> Process:
        """Ask systemd for a unit."""
        told = show(self.run, role)
        active = (told.get("ActiveState"), told.get("SubState")) == ("active", "running")
        restarts = _number(told, "NRestarts")
        if restarts < self._ended.get(role, 0):  # a start by hand counts anew
            self._ended[role] = 0
        words = told.get("StatusText") or f"{told.get('ActiveState')} ({told.get('SubState')})"
        return Process(_number(told, "MainPID"), active, restarts - self._ended.get(role, 0), words=words)

    def _lead_to(self, program: Path) -> None:
        new = self.link.with_name(f".{self.link.name}.new")
        with contextlib.suppress(FileNotFoundError):
            new.unlink()
        new.symlink_to(program)
        os.replace(new, self.link)  # noqa: PTH105 - Path.replace does the same, and this one is known to be atomic


def show(run: Systemctl, role: str) -> Mapping[str, str]:
    """Read the properties of a unit."""
    lines = run("show", f"--property={PROPERTIES}", unit_of(role)).splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def _started(told: Mapping[str, str]) -> Path:
    if found := _PATH.search(told.get("ExecStart", "")):
        return Path(found["path"])
    raise CannotUpgrade(f"what a unit starts cannot be read: {told.get('ExecStart', '')[:200]}")


def _number(told: Mapping[str, str], name: str) -> int:
    value = told.get(name, "")
    return int(value) if value.isdecimal() else 0
