"""The processes of a node as services of systemd, which starts them again after a crash and at each boot.

`tempolet up` writes the units on a machine whose PID 1 is systemd, and `tempolet down` removes them. A node of the default run folder has
the names `tempolet-up-worker.service` and so on, another one's have its folder in them. The environment that a process needs of the
operator's (its PATH, a proxy) is in a file of root's, because everybody can read a unit.
"""

import contextlib
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final

from activities.clients.systemd.services import SystemdServices
from activities.clients.systemd.units import SystemdUnits
from activities.files.atomic_files import sync_folder, write_atomically
from worker.standalone.machine import unit_text
from worker.standalone.machine.private_files import PRIVATE_FILE, private_folder
from worker.standalone.machine.process_log import FileLog, JournalLog, ProcessLog
from worker.standalone.machine.unit_text import MARK, ServiceText

UNITS: Final = Path("/etc/systemd/system")
BOOTED: Final = Path("/run/systemd/system")
"""There if systemd is PID 1: sd_booted(3)."""
PASSED_ON: Final = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "OTEL_", "TEMPOLET_", "LC_", "SSL_CERT_")
PASSED_ON_ALONE: Final = frozenset({"PATH", "HOME", "LANG", "TZ", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"})
"""Of the operator's environment: what a process may need in it. More is for a drop-in (`systemctl edit`)."""
ORDER: Final = ("containerd", "temporal", "worker", "poller", "node")
"""In which they start at a boot: none waits for another one to be ready but for containerd."""
STARTED_WITHIN: Final = 30.0
"""Seconds until a service has a process."""
STOPPED_WITHIN: Final = 60.0
"""Seconds beside those of TimeoutStopSec, for a systemd that is busy."""
BETWEEN_LOOKS: Final = 0.05
UNIT_FILE: Final = 0o644
DEFAULT_RUN_DIR: Final = Path("/run/tempolet")
_TO_A_FILE: Final = "StandardOutput=append:"
_TEMPLATES: Final = frozenset({"worker", "poller", "node"})


class UnitNotOurs(OSError):
    """A unit of that name is there, and `tempolet up` did not write it."""


def has_systemd() -> bool:
    """Report whether systemd is this machine's PID 1."""
    return BOOTED.is_dir()


@dataclass(frozen=True, slots=True)
class UnitCommand:
    """What a service runs."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    umask: int = 0o077


@dataclass(frozen=True, slots=True)
class NodeUnits:
    """The units of one node; raises SystemdUnavailable and SystemdRefused, which are OSErrors."""

    run_dir: Path
    state_dir: Path
    folder: Path = UNITS
    given_runtime: bool = False
    """The container runtime is not the node's own: usually containerd's unit, which it then starts after."""

    @property
    def prefix(self) -> str:
        """What the names begin with."""
        if self.run_dir == DEFAULT_RUN_DIR:
            return "tempolet-up"
        words = str(self.run_dir).strip("/")
        escaped = "".join("-" if one == "/" else one if one.isalnum() else f"\\x{ord(one):02x}" for one in words)
        return f"tempolet-up-{escaped}"

    @property
    def target(self) -> str:
        """The unit that is enabled, and wants the others."""
        return f"{self.prefix}.target"

    @property
    def environments(self) -> Path:
        """The folder of EnvironmentFiles."""
        return self.state_dir / "units"

    def name(self, role: str) -> str:
        """Return the name of a process's unit."""
        return f"{self.prefix}-{role}.service"

    def log(self, role: str) -> ProcessLog:
        """Return where a process logs; a unit that an earlier release wrote has a file, until it is written again."""
        name = self.name(role)
        with contextlib.suppress(OSError):
            for line in (self.folder / name).read_text().splitlines():
                if line.startswith(_TO_A_FILE):
                    return FileLog(Path(line.removeprefix(_TO_A_FILE).replace("%%", "%")))
        return JournalLog(name)

    def start(self, role: str, command: UnitCommand) -> int:
        """Write a service, start it and wait for its process; returns its pid, 0 if it has ended already. Raises UnitNotOurs."""
        self.write(role, command)
        return self.start_as_written(role)

    def start_as_written(self, role: str) -> int:
        """Start a service whose unit is there; the rest as `start`."""
        services, name = SystemdServices(), self.name(role)
        if services.state(name) not in {"inactive", "failed"}:
            services.stop(name)  # it has no process: it waits to be started again
        services.start(name)
        until = time.monotonic() + STARTED_WITHIN
        while not (pid := services.main_pid(name)):
            if time.monotonic() > until or services.substate(name) in {"auto-restart", "failed"}:
                return 0
            time.sleep(BETWEEN_LOOKS)
        return pid

    def write(self, role: str, command: UnitCommand) -> None:
        """Write a service for its next start; its process, if it has one, runs on. Raises UnitNotOurs."""
        if self._write(role, command):
            SystemdServices().reload()
            self._sync()

    def write_boot(self, command: UnitCommand) -> None:
        """Write what makes the run folder again at a boot."""
        self.write("boot", command)

    def content(self) -> dict[Path, bytes]:
        """Read the services of this node and their environments, for `put_back`."""
        files = [self.folder / self.name(one) for one in ("boot", *self._roles())]
        return {one: one.read_bytes() for one in (*files, *self.environments.glob("*.env")) if one.exists()}

    def put_back(self, content: Mapping[Path, bytes]) -> None:
        """Let the next starts be as when `content` was read."""
        for path, text in content.items():
            if not path.exists() or path.read_bytes() != text:
                write_atomically(path, text, mode=PRIVATE_FILE if path.parent == self.environments else UNIT_FILE)
        SystemdServices().reload()
        self._sync()

    def enable(self) -> None:
        """Let the node start at each boot, and let its target stand for it until then."""
        services = SystemdServices()
        roles = ("boot", *self._roles())
        text = unit_text.target_text(f"tempolet node at {self.run_dir}", [self.name(one) for one in roles])
        self._write_unit(self.target, text)
        services.enable(self.target)
        services.reload()
        services.start(self.target, alone=True)
        self._sync()

    def remove(self) -> None:
        """Remove all units of this node, which are stopped; missing ones are fine."""
        ours = [one for one in (self.target, self.name("boot"), *map(self.name, ORDER)) if self._is_ours(one)]
        if ours:
            services = SystemdServices(SystemdUnits(seconds=STOPPED_WITHIN))
            services.disable(self.target)
            for name in ours:
                services.stop(name)
                (self.folder / name).unlink(missing_ok=True)
            services.reload()
            for name in ours:
                services.forget(name)
        for file in self.environments.glob("*.env"):
            file.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.environments.rmdir()

    def _sync(self) -> None:
        for folder in (self.folder, self.folder / "multi-user.target.wants", self.environments):
            with contextlib.suppress(FileNotFoundError):
                sync_folder(folder)  # the plug may be pulled at any moment

    def _roles(self) -> Iterable[str]:
        return (one for one in ORDER if (self.folder / self.name(one)).exists())

    def _write(self, role: str, command: UnitCommand) -> bool:
        """Write a service and its environment; True if systemd may know another text of it."""
        environment = private_folder(self.environments) / f"{role}.env"
        content = unit_text.environment_text({**passed_on(os.environ), **command.environment})
        write_atomically(environment, content.encode(), mode=PRIVATE_FILE)
        text = ServiceText(
            name=f"tempolet-{role}",
            description=f"tempolet {role} of the node at {self.run_dir}",
            settings=self._settings(role, [Path(word) for word in command.argv if word.startswith("/")]),
            argv=command.argv,
            environment_file=environment,
            umask=command.umask,
            after=self._after(role),
            part_of="" if role == "boot" else self.target,
            folders=(self.state_dir, Path(command.argv[0])),
        )
        return self._write_unit(self.name(role), str(text))

    def _settings(self, role: str, read: list[Path]) -> str:
        if role in _TEMPLATES:
            unit = files("worker") / "joining" / "units" / f"tempolet-{role}.service"
            return unit_text.settings_of(unit.read_text(), (self.state_dir, self.run_dir), read)
        return {"containerd": unit_text.CONTAINERD, "temporal": unit_text.TEMPORAL, "boot": unit_text.BOOT}[role]

    def _after(self, role: str) -> list[str]:
        """Name what starts before it at a boot, and at a shutdown outlives it; one that is not there is no matter."""
        given = ["containerd.service", "crio.service"] if self.given_runtime else []
        if role == "boot":
            return given
        of_pods = [self.name("containerd"), self.name("temporal"), *given] if role in _TEMPLATES else []
        return [self.name("boot"), *of_pods]

    def _write_unit(self, name: str, text: str) -> bool:
        path = self.folder / name
        before = path.read_text() if path.exists() else None
        if before == text:
            return False
        if before is not None and not before.startswith(MARK):
            raise UnitNotOurs(
                f"{path} is there, and `tempolet up` did not write it: remove it, or give another --run-dir"
            )
        write_atomically(path, text.encode(), mode=UNIT_FILE)
        return before is not None

    def _is_ours(self, name: str) -> bool:
        try:
            return (self.folder / name).read_text().startswith(MARK)
        except OSError:
            return False


def main_pid(name: str) -> int:
    """Return the main process of a service; 0 if it has none."""
    return SystemdServices().main_pid(name)


def stop_service(name: str, within: float) -> bool:
    """Stop a service; False if systemd had to kill it."""
    services = SystemdServices(SystemdUnits(seconds=within + STOPPED_WITHIN))
    services.stop(name)
    return services.result(name) != "timeout"


def passed_on(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what a service gets of the operator's environment."""
    return {
        name: value
        for name, value in environment.items()
        if name in PASSED_ON_ALONE or name.upper().startswith(PASSED_ON)
    }
