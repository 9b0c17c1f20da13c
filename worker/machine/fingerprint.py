"""Detects whether a file has changed since it was last read, without reading it."""

import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Attributes that change with a file, or with the target of a link that was followed."""

    device: int
    inode: int
    size: int
    modified: int
    changed: int
    """Nanoseconds; also of the last change of owner or mode."""

    @property
    def version(self) -> str:
        """A version that reveals neither content nor size."""
        return f"{self.changed:x}.{self.inode:x}"


def fingerprint_of(found: os.stat_result) -> Fingerprint:
    """Return the fingerprint of a file's status."""
    return Fingerprint(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
