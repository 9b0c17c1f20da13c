"""Moves the node's processes into the cgroups that kubeletCgroups and systemCgroups name, each minute, as the kubelet does.

Run by the worker for all three processes of the node: the units of the other two may not write cgroups.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import timedelta
from typing import Final

import structlog

from activities.machine.process_cgroups import ProcessCgroups
from worker.daemon.background import in_background
from worker.settings.cgroups.agent import AgentProcesses

EVERY: Final = timedelta(minutes=1)
_ROUNDS: Final = 11
"""Processes start processes while they are moved."""

_log: Final = structlog.get_logger(__name__)


def moving_processes(
    settings: AgentProcesses, cgroups: ProcessCgroups, own: Callable[[], Iterable[int]], every: timedelta = EVERY
) -> AbstractAsyncContextManager[None]:
    """Move them while the block runs, if a cgroup is configured; `own` returns the node's processes."""
    if not settings.cgroup and not settings.system_cgroup:
        return nullcontext()

    async def move() -> None:
        while True:
            await asyncio.to_thread(move_processes, settings, cgroups, own)
            await asyncio.sleep(every.total_seconds())

    return in_background("cgroups of the node's processes", move)


def move_processes(settings: AgentProcesses, cgroups: ProcessCgroups, own: Callable[[], Iterable[int]]) -> None:
    """Move those that are not there yet; what fails is logged, and tried again the next time."""
    try:
        if settings.system_cgroup:
            _move_all_in_none(settings.system_cgroup, cgroups)
    except OSError as error:
        _log.warning("systemCgroups: processes could not be moved", cgroup=settings.system_cgroup, error=str(error))
    for pid in own() if settings.cgroup else ():
        try:
            if cgroups.move(pid, settings.cgroup):
                _log.info("moved a process into kubeletCgroups", pid=pid, cgroup=settings.cgroup)
        except OSError as error:
            _log.warning("kubeletCgroups: a process could not be moved", pid=pid, error=str(error))


def _move_all_in_none(cgroup: str, cgroups: ProcessCgroups) -> None:
    failed: OSError | None = None
    for _ in range(_ROUNDS):
        if not (pids := cgroups.in_none()):
            return
        failed = None
        for pid in pids:
            try:
                cgroups.move(pid, cgroup)
            except ProcessLookupError:
                continue  # it has ended
            except OSError as error:
                failed = error
    if failed:
        raise failed
