"""The embedded Temporal as a release had it that ran it as root, and what tests ask of one."""

import subprocess
from pathlib import Path

from worker.standalone.machine import programs
from worker.standalone.temporal_server import TemporalServer


class EarlierServer(TemporalServer):
    """The database in the state folder, all of root's, and a gateway that is told nothing of users."""

    @property
    def database(self) -> Path:
        """The database's name in that release."""
        return self.linked_database


def earlier(server: TemporalServer) -> EarlierServer:
    """Return the server as the release before has it."""
    return EarlierServer(server.root, server.run, server.ui_port, user="")


def temporal_pid(gateway: int) -> int:
    """Return the pid of Temporal itself, the only child of its gateway."""
    return int(Path(f"/proc/{gateway}/task/{gateway}/children").read_text())


def status(pid: int) -> dict[str, list[str]]:
    """Read what the kernel says of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: rest.split() for name, _, rest in (line.partition(":") for line in lines)}


def make_namespace(server: TemporalServer, name: str) -> None:
    """Write something into the database."""
    argv = [*operator(server), "create", "--namespace", name]
    subprocess.run(argv, capture_output=True, check=True)


def namespaces(server: TemporalServer) -> str:
    """List what the database has."""
    return subprocess.run([*operator(server), "list"], capture_output=True, text=True, check=True).stdout


def operator(server: TemporalServer) -> list[str]:
    """Return the beginning of a command about namespaces."""
    return [str(programs.find_program(programs.TEMPORAL)), "operator", "namespace", "--address", server.address]
