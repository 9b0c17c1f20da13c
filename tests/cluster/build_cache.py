"""Programs built from source, cached for every checkout of this user on the machine.

Used by `binaries`. A folder's name contains a digest of the programs' sources, so a checkout with another version builds its own.
Programs are built elsewhere and renamed into the cache: nobody sees an incomplete one.
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
"""Number of folders that are kept: the checkout's own, and the one used last before it."""


def cache_root() -> Path:
    """Return the folder of this user's caches: $XDG_CACHE_HOME, or /var/cache for root and ~/.cache for others."""
    if chosen := os.environ.get("XDG_CACHE_HOME"):
        return Path(chosen) / "tempolet"
    return (Path("/var/cache") if os.geteuid() == 0 else Path.home() / ".cache") / "tempolet"


def digest(files: Iterable[Path], *words: str) -> str:
    """Return a short digest of files with their names, and of words."""
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
    """What the programs are; the folder's name before the version."""
    version: str

    @property
    def folder(self) -> Path:
        """The folder of the programs."""
        return self.root / f"{self.name}-{self.version}"

    def lacking(self, names: Iterable[str], access: int = os.X_OK) -> list[str]:
        """Return the programs, or with R_OK the files, that are missing; marks the folder as used."""
        with contextlib.suppress(OSError):  # it does not exist, or belongs to another user
            os.utime(self.folder)
        return [name for name in names if not os.access(self.folder / name, access)]

    @contextlib.contextmanager
    def building(self) -> Iterator[Path]:
        """Yield an empty folder to build in, to one builder at a time; its content is then moved into the cache.

        Nothing is kept of a build that raises. Unused versions are removed.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            fresh = self.root / ".building"
            shutil.rmtree(fresh, ignore_errors=True)  # leftovers of a builder that was killed
            fresh.mkdir()
            try:
                yield fresh
                self.folder.mkdir(exist_ok=True)
                # what a program reads is moved first: once the program is there, it is complete
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
