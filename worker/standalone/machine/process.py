"""Processes that outlive the command that started them: in a session of their own, or as services of systemd, with a log and a pid file.

`tempolet up` starts them, a later `tempolet up` or `down` finds them again. A pid may have been reused by then, so the
pid file also holds the process's start time and the boot id; if they do not match, the process is not ours. The pid file of a
service has the name of its unit: systemd knows the process, which is another one after a crash.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from activities.machine.boot_id import boot_id
from worker.standalone.machine.oom_protection import spared_by_the_oom_killer
from worker.standalone.machine.private_files import PRIVATE_FOLDER, private_log
from worker.standalone.machine.process_log import FileLog, ProcessLog
from worker.standalone.machine.units import NodeUnits, UnitCommand, main_pid, stop_service

NOT_PASSED_ON: Final = ("TEMPORAL_", "NOTIFY_SOCKET", "WATCHDOG_")
"""The operator's own Temporal is not the node's, and a systemd that runs `up` waits for `up` alone."""
LAST_THREAD_WITHIN: Final = 10.0
"""Seconds for the other threads of a process to end after its first one."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of a process: pid, start in clock ticks since boot, and boot id."""

    pid: int
    started: int
    boot: str


@dataclass(frozen=True, slots=True)
class Command:
    """What to start: program and arguments, and additional variables."""

    argv: Sequence[str | Path]
    log: Path
    """The file that a plain process logs to."""
    environment: Mapping[str, str]
    umask: int = 0o077
    """Not the operator's."""


@dataclass(frozen=True, slots=True)
class Supervised:
    """One process, known by its pid file, whose name is its role."""

    pid_file: Path
    units: NodeUnits | None = None
    """What it is started by; None: by itself, and nothing starts it again."""

    def log(self, file: Path) -> ProcessLog:
        """Return where it logs, which is in a file if it is a plain process."""
        return self.units.log(self.pid_file.stem) if self.units else FileLog(file)

    def start(self, command: Command) -> Identity:
        """Start it in a session of its own, or as a service, unless it runs; raises OSError if it cannot be started."""
        if running := self.running():
            return running
        self.pid_file.parent.mkdir(parents=True, exist_ok=True)
        if self.units:
            return self._start_service(self.units, command)
        command.log.parent.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
        with private_log(command.log) as log, spared_by_the_oom_killer():
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
        identity = Identity(child.pid, _start_time(child.pid) or 0, boot_id())
        self._record(asdict(identity))
        return identity

    def _start_service(self, by: NodeUnits, command: Command) -> Identity:
        return self._record_service(by, by.start(self.pid_file.stem, unit_command(command)))

    def start_as_written(self) -> Identity:
        """Start a stopped process whose unit is there, by that unit."""
        if self.units is None:
            raise ValueError(f"{self.pid_file.stem} has no unit")
        return self._record_service(self.units, self.units.start_as_written(self.pid_file.stem))

    def _record_service(self, by: NodeUnits, pid: int) -> Identity:
        identity = Identity(pid, _start_time(pid) or 0, boot_id())
        self._record({"unit": by.name(self.pid_file.stem), **asdict(identity)})
        return identity

    def belongs_to(self, unit: str) -> None:
        """Record that it is a service of systemd."""
        self._record({"unit": unit})

    def _recorded(self) -> dict[str, Any]:
        """Read the pid file; empty if there is none."""
        try:
            found = json.loads(self.pid_file.read_text())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _record(self, content: Mapping[str, object]) -> None:
        scratch = self.pid_file.with_suffix(".new")
        scratch.write_text(json.dumps(content))
        scratch.replace(self.pid_file)

    def running(self) -> Identity | None:
        """Return its identity; None if it does not run (any more)."""
        found = self._recorded()
        unit = found.pop("unit", "")
        with contextlib.suppress(TypeError):
            identity = Identity(**found)
            if identity.boot == boot_id() and _start_time(identity.pid) == identity.started:
                return identity
        return self._now_in(unit) if unit else None

    def _now_in(self, unit: str) -> Identity | None:
        """Ask systemd for the process, and record it: the next look need not ask."""
        pid = main_pid(unit)
        started = _start_time(pid) if pid else None
        if started is None:
            return None
        identity = Identity(pid, started, boot_id())
        with contextlib.suppress(OSError):
            self._record({"unit": unit, **asdict(identity)})
        return identity

    def stop(self, within: float) -> bool:
        """Ask it to stop, and kill it after `within` seconds; True if it stopped by itself.

        A service has the time that its unit gives it, and is not started again.
        """
        if unit := self._recorded().get("unit"):
            willing = stop_service(unit, within)
        else:
            identity = self.running()
            willing = identity is None or end_process(identity.pid, within)
        self.pid_file.unlink(missing_ok=True)
        return willing


def unit_command(command: Command) -> UnitCommand:
    """Return the same command for a service."""
    argv = tuple(str(word) for word in command.argv)
    return UnitCommand(argv, command.environment, command.umask)


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
