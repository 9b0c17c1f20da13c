"""Programs built from source, kept for every checkout of this user on the machine.

Asked by `binaries`. A folder's name carries a digest of what its programs are built from, so a checkout with another version builds
its own. Programs are built elsewhere and renamed into it: nobody sees a half of one.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MOST: Final = 2
"""Folders that are kept: a checkout's own, and the one that was used last beside it."""


def cache_root() -> Path:
    """Name the folder of this user's caches: $XDG_CACHE_HOME, else /var/cache for root and ~/.cache for others."""
    if chosen := os.environ.get("XDG_CACHE_HOME"):
        return Path(chosen) / "tempolet"
    return (Path("/var/cache") if os.geteuid() == 0 else Path.home() / ".cache") / "tempolet"


def digest(files: Iterable[Path], *words: str) -> str:
    """Give a short digest of files with their names, and of words."""
    found = hashlib.sha256()
    for file in sorted(files):
        found.update(file.name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    for word in words:
        found.update(word.encode() + b"\0")
    return found.hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class BuildCache:
    """The built programs of one version."""

    root: Path
    name: str
    """What the programs are; the part of a folder's name before its version."""
    version: str

    @property
    def folder(self) -> Path:
        """Where the programs are."""
        return self.root / f"{self.name}-{self.version}"

    def lacking(self, names: Iterable[str]) -> list[str]:
        """Name the programs that are not there; notes that the folder was used."""
        with contextlib.suppress(OSError):  # it is not there, or is another user's
            os.utime(self.folder)
        return [name for name in names if not os.access(self.folder / name, os.X_OK)]

    @contextlib.contextmanager
    def building(self) -> Iterator[Path]:
        """Give an empty folder to build in, to one builder at a time; what is in it at the end is moved to where it is kept.

        Nothing is kept of a build that raises. Versions that are not used any more are removed.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            fresh = self.root / ".building"
            shutil.rmtree(fresh, ignore_errors=True)  # what a builder that was killed has left
            fresh.mkdir()
            try:
                yield fresh
                self.folder.mkdir(exist_ok=True)
                # what a program reads comes before it: with the program everything of it is there
                for path in sorted(fresh.iterdir(), key=lambda one: os.access(one, os.X_OK)):
                    path.replace(self.folder / path.name)
            finally:
                shutil.rmtree(fresh, ignore_errors=True)
            self._remove_old()

    def _remove_old(self) -> None:
        others = [one for one in self.root.glob(f"{self.name}-*") if one != self.folder]
        others.sort(key=lambda one: one.stat().st_mtime, reverse=True)
        for one in others[MOST - 1 :]:
            shutil.rmtree(one, ignore_errors=True)
