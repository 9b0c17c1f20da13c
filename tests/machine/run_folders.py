"""Folders of running machines: each is locked by the process that made it, so that one whose process was killed can be removed.

QEMU dies with that process (`machine`), so nobody uses such a folder.
"""

import contextlib
import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

PREFIX: Final = "tempolet-machine."


@contextlib.contextmanager
def run_folder() -> Iterator[Path]:
    """Yield an empty folder, which is removed afterwards; removes those of killed processes first."""
    remove_leftovers(Path(tempfile.gettempdir()))
    fresh = Path(tempfile.mkdtemp(prefix=f"new-{PREFIX}"))
    folder = fresh.with_name(fresh.name.removeprefix("new-"))
    try:
        with (fresh / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            fresh.rename(folder)  # once it is locked: nobody takes it for a killed one's
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_leftovers(below: Path) -> list[Path]:
    """Remove the folders that nobody has locked and return them."""
    removed = []
    for folder in below.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError), (folder / "lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
            removed.append(folder)
    return removed
