"""Whether a process of this node does its work: served by each process on its local socket, asked for by `tempolet upgrade`."""

import json
import os
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from worker.daemon.service import Service
from worker.telemetry.local_socket import TextUnavailable, fetch_text, socket_path

PROCESS: Final = "process"
"""The name of the text."""
LONGEST_STATUS: Final = 500


@dataclass(frozen=True, slots=True)
class ProcessState:
    """One process, as it tells."""

    pid: int
    ready: bool
    """The worker serves its loops, the poller has listed its manifests, the node process has its certificate."""
    hosts: bool
    """The worker takes tasks of this node's workflows."""
    status: str
    """What it does, or waits for."""


def state_of(service: Service, *, hosts: bool = False) -> bytes:
    """Write the state of this process for the socket."""
    told = {"pid": os.getpid(), "ready": service.is_ready, "hosts": hosts, "status": service.line}
    return json.dumps(told).encode() + b"\n"


async def process_state(state_dir: Path, role: str, within: timedelta) -> ProcessState | None:
    """Ask a process; None if it does not answer in time, or is of a release that tells nothing."""
    try:
        told = json.loads(await fetch_text(socket_path(state_dir, role), PROCESS, within))
        status = str(told["status"])[:LONGEST_STATUS]
        return ProcessState(int(told["pid"]), bool(told["ready"]), bool(told["hosts"]), status)
    except (TextUnavailable, ValueError, KeyError, TypeError):
        return None
