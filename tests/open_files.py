"""Which files a process has open, for tests of what it may hold."""

import contextlib
from pathlib import Path


def open_files(pid: int) -> set[str]:
    """Return what its descriptors link to; one that is closed meanwhile is left out."""
    found = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.add(str(link.readlink()))
    return found
