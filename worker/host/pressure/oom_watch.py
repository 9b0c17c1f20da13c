"""Tells an event SystemOOM when the machine is out of memory and the kernel ends a process (pkg/kubelet/oom/oom_watcher_linux.go).

The kernel keeps records of the time before this process started, also of what ended it. The last one that was told is kept in a
file, so that a restart does not tell it again, as that of a kubelet does.
"""

import asyncio
import contextlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from activities.machine.boot_id import boot_id
from proto.node_files import write_node_file
from worker.events.event import WARNING, TellOfNode
from worker.host.pressure.kernel_log import KMSG, open_kernel_log, records
from workflows.decide.node.oom_kills import SYSTEM_OOM, OomKill, Report, follow, kernel_record

FILE_NAME: Final = "oom.json"
"""In the node's state folder: boot, and the number of the last record that was told."""
_log: Final = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class OomWatch:
    """Watches one machine."""

    state_dir: Path
    tell: TellOfNode
    path: Path = KMSG

    async def run(self) -> None:
        """Watch until cancelled; without a log to read say so, and end."""
        try:
            log = open_kernel_log(self.path)
        except OSError as error:
            _log.warning("the kernel's log can't be read, so no event tells of a machine out of memory", err=str(error))
            return
        try:
            await self._follow(log)
        finally:
            os.close(log)

    async def _follow(self, log: int) -> None:
        report: Report | None = None
        told = await asyncio.to_thread(self._told)
        async with contextlib.aclosing(records(log)) as found:
            async for raw in found:
                record = kernel_record(raw)
                if record is None or record.sequence <= told:
                    continue
                report, kill = follow(report, record.text)
                if kill and kill.of_the_system:
                    self._tell(kill)
                    told = record.sequence
                    await asyncio.to_thread(self._keep, told)

    def _tell(self, kill: OomKill) -> None:
        _log.warning("the machine is out of memory, and the kernel ended a process", process=kill.process, pid=kill.pid)
        self.tell(WARNING, SYSTEM_OOM, kill.message)

    def _told(self) -> int:
        """Return the number of the last record that was told since the boot; -1 if there is none, or the file is damaged."""
        try:
            found = json.loads((self.state_dir / FILE_NAME).read_bytes())
            return int(found["told"]) if found["boot"] == boot_id() else -1
        except (OSError, ValueError, TypeError, KeyError):
            return -1

    def _keep(self, told: int) -> None:
        try:
            write_node_file(self.state_dir / FILE_NAME, {"boot": boot_id(), "told": told})
        except OSError as error:
            _log.warning("could not keep which record of the kernel's log was told", err=str(error))
