"""Whether the machine was restarted since a process of this node last did what a boot asks for.

The poller then tells the pods that are known from before, with the hint to read the runtime, and their histories tell it; the worker
judges whether pods still have their devices. Each keeps the kernel's id of the boot in a file of the state folder. A node that has
none there yet, at its first start or after an upgrade, was not restarted.
"""

import contextlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from activities.files.atomic_files import sync_folder, write_atomically
from activities.machine.boot_id import BOOT_ID

OF_POLLER: Final = "boot-id"
OF_DEVICES: Final = "devices-boot-id"
"""The names of the files."""
_LONGEST: Final = 64


@dataclass(slots=True)
class Boots:
    """The boot of now, and the one that was kept."""

    file: Path
    source: Path = BOOT_ID
    now: str = field(init=False)
    before: str = field(init=False)

    def __post_init__(self) -> None:
        self.now, self.before = _read(self.source), _read(self.file)

    @property
    def is_new(self) -> bool:
        """Report whether the machine was restarted since."""
        return bool(self.before and self.now) and self.before != self.now

    def keep(self) -> None:
        """Remember the boot, also over a power loss: without it the next one is not noticed. A disk that takes no file is no matter."""
        if self.now and self.now != self.before:
            with contextlib.suppress(OSError):
                write_atomically(self.file, f"{self.now}\n".encode())
                sync_folder(self.file.parent)
                self.before = self.now


def _read(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return opened.read(_LONGEST).decode("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
