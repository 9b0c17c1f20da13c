"""The sign that this machine is shutting down: a file that the worker writes, and the node's other processes watch.

The worker hears of a shutdown (`worker/host/shutdown/`); the node process then shows that it is not Ready, and the poller admits no pod. The file
has the kernel's id of the boot, so one that a power loss left behind says nothing after it.
"""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Final

from activities.files.atomic_files import write_atomically
from activities.machine.boot_id import boot_id
from worker.machine.inotify import folder_changes

FOLDER: Final = "shutdown"
FILE: Final = "under-way"
_LOOK_AGAIN: Final = timedelta(minutes=1)
"""For a folder that cannot be watched."""


class ShutdownSign:
    """The sign of one node."""

    def __init__(self, state_dir: Path) -> None:
        self._folder = state_dir / FOLDER
        self._file = self._folder / FILE

    def is_set(self) -> bool:
        """Report whether this machine is shutting down."""
        try:
            return self._file.read_text().strip() == boot_id()
        except (OSError, ValueError):
            return False

    def set(self) -> None:
        """Say that it is; raises OSError."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(self._file, f"{boot_id()}\n".encode(), synced=False)

    def clear(self) -> None:
        """Say that it is not; raises OSError."""
        self._file.unlink(missing_ok=True)

    async def changes(self, every: timedelta = _LOOK_AGAIN) -> AsyncIterator[bool]:
        """Yield whether it is set now, then at each change of the folder, and at least this often; for ever."""
        async for _ in folder_changes(self._folder, every):
            yield self.is_set()
