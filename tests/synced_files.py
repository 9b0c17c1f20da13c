"""What a test's process puts on disk: the names of the files and folders that it syncs, in order."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest


def watch_syncs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows by a name with each fsync and fdatasync; a file that is renamed afterwards has the name before."""
    synced: list[str] = []

    def watched(real: Callable[[int], None]) -> Callable[[int], None]:
        def sync(descriptor: int) -> None:
            synced.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
            real(descriptor)

        return sync

    for call in (os.fsync, os.fdatasync):
        monkeypatch.setattr(os, call.__name__, watched(call))
    return synced
