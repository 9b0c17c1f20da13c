"""Whether a process that was started for an upgrade does its work. Pure."""

from dataclasses import dataclass
from typing import Final

from worker.telemetry.process_state import ProcessState

ENDS_AT_MOST: Final = 2
"""After so many restarts by systemd a process is given up."""


@dataclass(frozen=True, slots=True)
class Process:
    """One of the node's processes, as whoever supervises it sees it."""

    pid: int = 0
    """0: it does not run."""
    is_active: bool = False
    """It is ready, as far as the supervisor can tell."""
    ends: int = 0
    """How often it has ended and was started again since the upgrade started it."""
    is_over: bool = False
    """It has ended, and nothing starts it again."""
    words: str = ""
    """What is known of it: its status, or the end of its log."""


def waits_for(role: str, process: Process, told: ProcessState | None, before: int) -> str:
    """Return what a process of this release still lacks; empty if it works. `before`: the pid of the one that it replaces."""
    if process.pid in (0, before):
        return f"it does not run: {process.words}" if process.words else "it does not run"
    if not process.is_active:
        return process.words or "it is not ready"
    if told is None or told.pid != process.pid:
        return "it does not answer on its socket"
    if not told.ready:
        return told.status or "it is not ready"
    if role == "worker" and not told.hosts:
        return f"it takes no tasks of workflows: {told.status}"
    return ""


def has_failed(process: Process) -> bool:
    """Report whether it is needless to wait longer."""
    return process.is_over or process.ends > ENDS_AT_MOST


def runs_again(process: Process, before: int) -> bool:
    """Report whether a process of the release before, which may tell nothing of itself, runs."""
    return process.pid not in (0, before) and process.is_active
