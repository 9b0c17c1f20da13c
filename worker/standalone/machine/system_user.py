"""A user of the machine for one process of a node: made by systemd-sysusers, removed with the node's state.

What systemd-sysusers reads (sysusers.d(5)) stays in the state folder, as the mark that `tempolet up` has made the user. It is there before
the user is, so nothing of a start that was cut off is forgotten. A user that was there before is used, and stays: the Debian package brings
that of the default node.
"""

import grp
import hashlib
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from activities.files.atomic_files import write_atomically
from worker.standalone.machine import programs
from worker.standalone.machine.units import DEFAULT_RUN_DIR

DECLARATION: Final = "temporal-user.conf"
OF_TEMPORAL: Final = "tempolet-temporal"
_ID_DIGITS: Final = 8
"""Of the digest of a run folder; names have at most 31 characters: sysusers.d(5)."""
_CALL_LIMIT: Final = 30.0
"""Seconds; both programs may wait for another one that has /etc/passwd locked."""
_TRY: Final = 'cd "$1" && exec "$2" --version'


class NoUser(Exception):
    """There is no user to run a process as; the message says why."""


@dataclass(frozen=True, slots=True)
class SystemUser:
    """A user by name, with a group of the same name."""

    name: str
    declaration: Path
    """There if `up` has made the user."""

    @classmethod
    def of_temporal(cls, state_dir: Path, run_dir: Path = DEFAULT_RUN_DIR) -> Self:
        """Return the user of a node's Temporal: each node has its own."""
        declaration = state_dir / DECLARATION
        if run_dir == DEFAULT_RUN_DIR:
            return cls(OF_TEMPORAL, declaration)
        digest = hashlib.sha256(str(run_dir).encode()).hexdigest()[:_ID_DIGITS]
        return cls(f"{OF_TEMPORAL}-{digest}", declaration)

    def make(self) -> None:
        """Make the user unless it is there; raises NoUser."""
        if _uid(self.name) is None:
            self._make()
        match _uid(self.name):
            case None:
                raise NoUser(f"user {self.name} is not there, although systemd-sysusers has made it")
            case 0:
                raise NoUser(f"user {self.name} is root")

    def require_use(self, folder: Path, program: Path) -> None:
        """Raise NoUser if the user cannot enter the folder, or cannot run the program."""
        found = pwd.getpwnam(self.name)
        try:
            done = subprocess.run(
                ["/bin/sh", "-c", _TRY, "sh", folder, program],
                user=found.pw_uid,
                group=found.pw_gid,
                extra_groups=[],
                env={"HOME": "/", "PATH": programs.search_path()},
                cwd="/",
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_CALL_LIMIT,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NoUser(f"no process of user {self.name} can be started: {error}") from error
        if done.returncode:
            raise NoUser(f"user {self.name} cannot enter {folder} and run {program}: {_last_line(done.stderr)}")

    def remove(self) -> str:
        """Remove the user if `up` has made it; returns why it stays, which is empty if it does not."""
        if not self.declaration.exists():
            return ""
        try:
            if _uid(self.name) is not None:
                _run("userdel", self.name)
            if _has_group(self.name):  # where login.defs does not let userdel remove it
                _run("groupdel", self.name)
            self.declaration.unlink(missing_ok=True)
        except (NoUser, OSError) as error:
            return f"user {self.name}: {error}"
        return ""

    def _make(self) -> None:
        try:
            write_atomically(self.declaration, f'u {self.name} - "Temporal of a tempolet node"\n'.encode())
            _run("systemd-sysusers", str(self.declaration))
        except (NoUser, OSError) as error:
            if _uid(self.name) is None:
                self.declaration.unlink(missing_ok=True)
            raise NoUser(f"user {self.name} cannot be made: {error}") from error


def _uid(name: str) -> int | None:
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        return None


def _has_group(name: str) -> bool:
    try:
        grp.getgrnam(name)
    except KeyError:
        return False
    return True


def _run(name: str, argument: str) -> None:
    """Run a program of the machine; raises NoUser."""
    program = shutil.which(name, path=programs.search_path())
    if program is None:
        raise NoUser(f"{name} is not there")
    try:
        done = subprocess.run([program, argument], capture_output=True, timeout=_CALL_LIMIT, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoUser(f"{name}: {error}") from error
    if done.returncode:
        raise NoUser(f"{name}: {_last_line(done.stderr)}")


def _last_line(said: bytes) -> str:
    return (said.decode(errors="replace").strip().splitlines() or ["it said nothing"])[-1][:300]
