"""Where a process of a node logs: a plain one into a file, a service of systemd into the journal.

Asked when a process has failed, for what the operator is told: where its log is, and how that ends. A log that cannot be read is
no other failure: then only its place is told.
"""

import os
import select
import shlex
import shutil
import subprocess
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from activities.clients.systemd.services import SystemdServices
from activities.clients.systemd.units import SystemdUnits
from worker.standalone.machine.programs import search_path

LINES: Final = 5
LONGEST: Final = 8192
"""Bytes of the end of a log."""
JOURNAL_WITHIN: Final = 10.0
"""Seconds for everything that is asked of systemd and its journal."""


class ProcessLog(ABC):
    """The log of one process."""

    __slots__ = ()

    @property
    @abstractmethod
    def where(self) -> str:
        """The file, or the command that shows it."""

    @abstractmethod
    def last_lines(self) -> str:
        """Read its end; empty if there is nothing to read."""

    def ending(self) -> str:
        """Say how it ends, or at least where it is."""
        lines = self.last_lines()
        return f"{self.where} ends:\n{lines}" if lines else f"see {self.where}"


@dataclass(frozen=True, slots=True)
class FileLog(ProcessLog):
    """A file."""

    path: Path

    @property
    def where(self) -> str:
        """The file."""
        return str(self.path)

    def last_lines(self) -> str:
        """Read the end of the file; why it cannot be read, if it cannot."""
        return last_lines(self.path)


@dataclass(frozen=True, slots=True)
class JournalLog(ProcessLog):
    """What the journal has of a service."""

    unit: str

    @property
    def where(self) -> str:
        """The command."""
        return f"`{journal_command(self.unit.removesuffix('.service'))}`"

    def last_lines(self) -> str:
        """Read what its processes said last since the service was started; empty if the journal does not answer."""
        until = time.monotonic() + JOURNAL_WITHIN
        try:
            invocation = SystemdServices(SystemdUnits(seconds=JOURNAL_WITHIN)).invocation(self.unit)
            if not invocation:
                return ""
            _journalctl("--sync", until=until)  # what was said just before the end may still be on its way
            words = ("--quiet", "--no-pager", "--output=cat", f"--lines={LINES}")
            return _last(_journalctl(*words, f"_SYSTEMD_INVOCATION_ID={invocation}", until=until), LINES)
        except OSError:
            return ""


def journal_command(unit: str) -> str:
    """Return the command that shows what a unit has said, or units by a pattern; names of nodes may have backslashes."""
    return f"journalctl -u {shlex.quote(unit)}"


def last_lines(file: Path, count: int = LINES) -> str:
    """Read the end of a log file, for an error message."""
    try:
        with file.open("rb") as log:
            log.seek(max(0, file.stat().st_size - LONGEST))
            return _last(log.read(), count)
    except OSError as error:
        return f"(no log: {error})"


def _last(said: bytes, count: int) -> str:
    return "\n".join(said.decode(errors="replace").splitlines()[-count:])


def _journalctl(*words: str, until: float) -> bytes:
    """Return the end of what journalctl says; raises OSError if it cannot be started, or takes longer."""
    program = shutil.which("journalctl", path=search_path())
    if program is None:
        raise FileNotFoundError("journalctl is not there")
    with subprocess.Popen(
        [program, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        try:
            assert process.stdout is not None
            return _end_of(process.stdout.fileno(), until)
        finally:
            process.kill()


def _end_of(descriptor: int, until: float) -> bytes:
    """Read to the end and keep the last bytes; raises TimeoutError."""
    said, poller = b"", select.poll()
    poller.register(descriptor)
    while (left := until - time.monotonic()) > 0 and poller.poll(left * 1000):
        chunk = os.read(descriptor, LONGEST)
        if not chunk:
            return said
        said = (said + chunk)[-LONGEST:]
    raise TimeoutError
