"""Processes that outlive the command that started them: in a session of their own, with a log file and a pid file.

`tempolet up` starts them, a later `tempolet up` or `down` finds them again. A pid may have been reused by then, so the
pid file also holds the process's start time and the boot id; if they do not match, the process is not ours.
"""

import json
import os
import select
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from worker.standalone.machine.private_files import PRIVATE_FOLDER, private_log

NOT_PASSED_ON: Final = ("TEMPORAL_", "NOTIFY_SOCKET", "WATCHDOG_")
"""The operator's own Temporal is not the node's, and a systemd that runs `up` waits for `up` alone."""
LAST_THREAD_WITHIN: Final = 10.0
"""Seconds for the other threads of a process to end after its first one."""
BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of a process: pid, start in clock ticks since boot, and boot id."""

    pid: int
    started: int
    boot: str


@dataclass(frozen=True, slots=True)
class Command:
    """What to start: program and arguments, additional variables, and the log file."""

    argv: Sequence[str | Path]
    log: Path
    environment: Mapping[str, str]
    umask: int = 0o077
    """Not the operator's."""


@dataclass(frozen=True, slots=True)
class Supervised:
    """One process, known by its pid file."""

    pid_file: Path

    def start(self, command: Command) -> Identity:
        """Start it in a session of its own unless it runs; raises OSError if it cannot be started."""
        if running := self.running():
            return running
        command.log.parent.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
        self.pid_file.parent.mkdir(parents=True, exist_ok=True)
        with private_log(command.log) as log:
            child = subprocess.Popen(
                [str(word) for word in command.argv],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env={**own_environment(), **command.environment},
                start_new_session=True,
                umask=command.umask,
            )
        child.returncode = 0  # it outlives this process: avoids the ResourceWarning for a running child
        identity = Identity(child.pid, _start_time(child.pid) or 0, _boot())
        scratch = self.pid_file.with_suffix(".new")
        scratch.write_text(json.dumps(asdict(identity)))
        scratch.replace(self.pid_file)
        return identity

    def running(self) -> Identity | None:
        """Return its identity; None if it does not run (any more)."""
        try:
            identity = Identity(**json.loads(self.pid_file.read_text()))
        except (OSError, ValueError, TypeError):
            return None
        return identity if identity.boot == _boot() and _start_time(identity.pid) == identity.started else None

    def stop(self, within: float) -> bool:
        """Ask it to stop, and kill it after `within` seconds; True if it stopped by itself."""
        identity = self.running()
        willing = identity is None or end_process(identity.pid, within)
        self.pid_file.unlink(missing_ok=True)
        return willing


def own_environment() -> dict[str, str]:
    """Return this process's environment without variables meant for other programs."""
    return {name: value for name, value in os.environ.items() if not name.startswith(NOT_PASSED_ON)}


def end_process(pid: int, within: float) -> bool:
    """Send SIGTERM, then SIGKILL after `within` seconds, and wait for the end; True if SIGTERM was enough."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        _signal(handle, signal.SIGTERM)
        willing = _ended(handle, within)
        if not willing:
            _signal(handle, signal.SIGKILL)
            _ended(handle, 10)
    finally:
        os.close(handle)
    _reap(pid)
    return willing


def wait_for_end(pid: int, within: float) -> bool:
    """Wait until a process has ended; False if it still runs after `within` seconds."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return _ended(handle, within)
    finally:
        os.close(handle)


def last_lines(log: Path, count: int = 5) -> str:
    """Read the end of a log, for an error message."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 8192))
            return "\n".join(file.read().decode(errors="replace").splitlines()[-count:])
    except OSError as error:
        return f"(no log: {error})"


def _signal(handle: int, number: signal.Signals) -> None:
    try:
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return


def _ended(handle: int, within: float) -> bool:
    poller = select.poll()
    poller.register(handle, select.POLLIN)
    return bool(poller.poll(max(0, round(within * 1000))))


def _reap(pid: int) -> None:
    """Reap the zombie if the process is our own child."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return


def _start_time(pid: int) -> int | None:
    """Read field 22 of /proc/<pid>/stat; None if the process has ended.

    A zombie may be the first thread alone: until the others are gone, too, the process keeps its ports and locks. So the end of
    a process that is being killed is awaited: who finds it running would not start another one.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        has_ended = fields[0] in "ZX" and wait_for_end(pid, LAST_THREAD_WITHIN)
    except OSError:
        return None
    return None if has_ended else int(fields[19])


def _boot() -> str:
    return BOOT_ID.read_text().strip()
