"""The processes of a node that `tempolet up` has started: its worker, poller and, in a cluster, node process.

The release before is that of the running processes: their command lines say how to start it. containerd and Temporal run on, with the programs of the
release that has started them.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Self

from activities.files.atomic_files import write_atomically
from worker.standalone.machine.process import Command, last_lines
from worker.standalone.machine.units import UnitCommand
from worker.standalone.node_config import boot_command, log_of, node_command, node_process, roles, write_configuration
from worker.standalone.settings import Settings
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
        return cls(settings, commands, files)

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
        """Write the configuration files of this release, and let it prepare the node at a boot."""
        write_configuration(self.settings)
        self._prepare_boots_by(boot_command(self.settings))
        self._uses_new = True

    def use_before(self) -> None:
        """Write back those of the release before."""
        self._uses_new = False
        for path, content in self._configuration.items():
            write_atomically(path, content, synced=False)
        worker, boot = self.commands["worker"], boot_command(self.settings)
        environment = {name: value for name, value in worker.environment.items() if name == PASSED_ON}
        self._prepare_boots_by(replace(boot, argv=(str(worker.argv[0]), *boot.argv[1:]), environment=environment))

    def _prepare_boots_by(self, command: UnitCommand) -> None:
        if units := self.settings.units:
            units.write_boot(command)

    def restart(self, role: str) -> None:
        """Stop a process, and start the one of the chosen release."""
        process = node_process(self.settings, role)
        process.stop(STOP_WITHIN)
        process.start(node_command(self.settings, role) if self._uses_new else self.commands[role])

    def look(self, role: str) -> Process:
        """Look whether a process runs; whether it is ready it tells itself."""
        running = node_process(self.settings, role).running()
        if running is None:
            return Process(
                is_over=True, words=f"it has ended; its log ends:\n{last_lines(log_of(self.settings, role))}"
            )
        return Process(running.pid, is_active=True)


def _command(settings: Settings, role: str, pid: int) -> Command:
    """Return the command of a running process; raises CannotUpgrade."""
    try:
        argv = [os.fsdecode(one) for one in _read(pid, "cmdline").split(b"\0")[:-1]]
        variables = [one.partition(b"=") for one in _read(pid, "environ").split(b"\0")]
    except OSError as error:
        raise CannotUpgrade(f"how the {role} was started cannot be read: {error}") from error
    named = {os.fsdecode(name): os.fsdecode(value) for name, _, value in variables}
    ours = node_command(settings, role)
    kept = {name: value for name, value in named.items() if name in {PASSED_ON, *ours.environment}}
    return Command(argv, ours.log, kept, ours.umask)


def _read(pid: int, name: str) -> bytes:
    with Path(f"/proc/{pid}/{name}").open("rb") as file:
        return file.read(LONGEST)


def _program(command: Command) -> tuple[str, str]:
    """Return what tells two releases apart: their Python, and their folder if it is not installed there."""
    return str(command.argv[0]), command.environment.get(PASSED_ON, "")
