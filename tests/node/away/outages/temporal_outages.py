"""The ways in which a Temporal goes away, and how it comes back."""

import os
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.node.away.stopped_temporal import resume, server_pid, suspend
from worker.standalone.temporal_server import TemporalServer


@dataclass(frozen=True, slots=True)
class Outage:
    """One way to lose Temporal."""

    begin: Callable[[TemporalServer], None]
    end: Callable[[TemporalServer], None]
    loses_history: bool = False
    """Whether Temporal comes back without what it had."""


def kill(server: TemporalServer) -> None:
    """Kill the server; its gateway, and so its socket, ends with it."""
    os.kill(server_pid(server), signal.SIGKILL)
    server.stop()


def start(server: TemporalServer) -> None:
    """Start it again."""
    server.start()


def cut(server: TemporalServer) -> None:
    """Take down the network between the gateway and the server: packets are lost, connections stay."""
    _set_link(server, "down")


def mend(server: TemporalServer) -> None:
    """Bring that network back."""
    _set_link(server, "up")


def copy_database(server: TemporalServer) -> None:
    """Copy the database while the server writes it, as a backup does."""
    copy = _copy_of(server)
    copy.unlink(missing_ok=True)
    with closing(sqlite3.connect(server.database)) as database, closing(sqlite3.connect(copy)) as target:
        database.backup(target)


def start_empty(server: TemporalServer) -> None:
    """Start it with an empty database."""
    _remove_database(server)
    server.start()


def start_restored(server: TemporalServer) -> None:
    """Start it with the copy that was taken before."""
    _remove_database(server)
    shutil.copyfile(_copy_of(server), server.database)
    server.start()


KEEPING: Final = {
    "suspended": Outage(suspend, resume),
    "killed": Outage(kill, start),
    "network": Outage(cut, mend),
}
"""Temporal comes back with everything that it had."""
LOSING: Final = {
    "deleted": Outage(kill, start_empty, loses_history=True),
    "restored": Outage(kill, start_restored, loses_history=True),
}
"""It comes back with less."""
KINDS: Final = KEEPING | LOSING


def _set_link(server: TemporalServer, state: str) -> None:
    network = f"--net=/proc/{server_pid(server)}/ns/net"
    subprocess.run(["nsenter", network, "ip", "link", "set", "lo", state], check=True)


def _copy_of(server: TemporalServer) -> Path:
    return server.database.with_suffix(".copy")


def _remove_database(server: TemporalServer) -> None:
    for file in server.database.parent.glob(f"{server.database.name}*"):
        file.unlink()
