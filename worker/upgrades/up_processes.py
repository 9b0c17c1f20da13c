"""The processes of a node that `tempolet up` has started: its worker, poller and, in a cluster, node process.

The release before is that of the running processes: their command lines say how to start it, and where they are units of systemd, the units do.
containerd and Temporal run on, with the programs of the release that has started them; Temporal's unit starts it with the gateway of this
release the next time, after a crash or a boot, because nothing says that the folder of the release before is still there then.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from activities.files.atomic_files import write_atomically
from worker.standalone.gateway.server_account import STATE, USER
from worker.standalone.machine.process import Command, unit_command
from worker.standalone.node_config import boot_command, log_of, node_command, node_process, roles, write_configuration
from worker.standalone.settings import Settings
from worker.standalone.temporal_server import ENVIRONMENT, gateway_command
from worker.upgrades.health import Process
from worker.upgrades.services import CannotUpgrade

STOP_WITHIN: Final = 20.0
"""Seconds; as for `tempolet down`."""
PASSED_ON: Final = "PYTHONPATH"
LONGEST: Final = 64 << 10
"""Bytes that are read of a command line, or of an environment."""


@dataclass(slots=True)
class UpProcesses:
    """The processes of one node of `tempolet up`."""

    settings: Settings
    commands: Mapping[str, Command]
    """How the processes of the release before were started."""
    _configuration: Mapping[Path, bytes] = field(default_factory=dict)
    """The files that it reads."""
    _units: Mapping[Path, bytes] = field(default_factory=dict)
    """Its units and their environments."""
    _uses_new: bool = False

    @classmethod
    def found(cls, settings: Settings) -> Self:
        """Find the processes; raises CannotUpgrade."""
        commands = dict[str, Command]()
        for role in roles(settings):
            running = node_process(settings, role).running()
            if running is None:
                raise CannotUpgrade(
                    f"the {role} of the node at {settings.run_dir} does not run: run `tempolet up` of its release first"
                )
            commands[role] = _command(settings, role, running.pid)
        if all(_program(one) == _program(node_command(settings, role)) for role, one in commands.items()):
            raise CannotUpgrade(
                "the node runs this release already: set the new release up in a folder of its own, and run its `tempolet upgrade`"
            )
        files = {path: path.read_bytes() for path in settings.configuration.glob("*.yaml")}
        return cls(settings, commands, files, settings.units.content() if settings.units else {})

    @property
    def roles(self) -> tuple[str, ...]:
        """Name the processes."""
        return tuple(self.commands)

    @property
    def before(self) -> str:
        """Say where the release before is."""
        one = self.commands["worker"]
        return one.environment.get(PASSED_ON) or str(one.argv[0])

    def use_new(self) -> None:
        """Write the configuration files of this release, and let it prepare the node at a boot, and start Temporal the next time."""
        write_configuration(self.settings)
        if units := self.settings.units:
            units.write_boot(boot_command(self.settings))
            if (running := self.settings.temporal.process.running()) is not None:
                units.write("temporal", unit_command(_temporal_by_this_release(self.settings, running.pid)))
        self._uses_new = True

    def use_before(self) -> None:
        """Write back those of the release before, and its units as they were."""
        self._uses_new = False
        for path, content in self._configuration.items():
            write_atomically(path, content, synced=False)
        if units := self.settings.units:
            units.put_back(self._units)

    def restart(self, role: str) -> None:
        """Stop a process, and start the one of the chosen release."""
        process = node_process(self.settings, role)
        process.stop(STOP_WITHIN)
        if self._uses_new:
            process.start(node_command(self.settings, role))
        elif self.settings.units:
            process.start_as_written()
        else:
            process.start(self.commands[role])

    def look(self, role: str) -> Process:
        """Look whether a process runs; whether it is ready it tells itself."""
        running = node_process(self.settings, role).running()
        if running is None:
            return Process(is_over=True, words=log_of(self.settings, role).ending())
        return Process(running.pid, is_active=True)


def _command(settings: Settings, role: str, pid: int) -> Command:
    """Return the command of a running process; raises CannotUpgrade."""
    argv, named = _started_by(role, pid)
    ours = node_command(settings, role)
    kept = {name: value for name, value in named.items() if name in {PASSED_ON, *ours.environment}}
    return Command(argv, ours.log, kept, ours.umask)


def _temporal_by_this_release(settings: Settings, pid: int) -> Command:
    """Return how this release's gateway starts Temporal as the running one did: with its arguments, as its user. Raises CannotUpgrade."""
    argv, named = _started_by("Temporal", pid)
    gateway = gateway_command()
    kept = {name: value for name, value in named.items() if name in {USER, STATE, *ENVIRONMENT}}
    arguments = argv[len(gateway.argv) :]
    return Command([*gateway.argv, *arguments], settings.temporal.log_file, kept | gateway.environment)


def _started_by(role: str, pid: int) -> tuple[list[str], dict[str, str]]:
    """Return command line and environment of a running process; raises CannotUpgrade."""
    try:
        argv = [os.fsdecode(one) for one in _read(pid, "cmdline").split(b"\0")[:-1]]
        variables = [one.partition(b"=") for one in _read(pid, "environ").split(b"\0")]
    except OSError as error:
        raise CannotUpgrade(f"how the {role} was started cannot be read: {error}") from error
    return argv, {os.fsdecode(name): os.fsdecode(value) for name, _, value in variables}


def _read(pid: int, name: str) -> bytes:
    with Path(f"/proc/{pid}/{name}").open("rb") as file:
        return file.read(LONGEST)


def _program(command: Command) -> tuple[str, str]:
    """Return what tells two releases apart: their Python, and their folder if it is not installed there."""
    return str(command.argv[0]), command.environment.get(PASSED_ON, "")
