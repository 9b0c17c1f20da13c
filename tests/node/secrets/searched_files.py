"""Reads every file of a folder while processes write and delete there, for tests that search for a leaked secret."""

import os
from collections.abc import Iterator
from pathlib import Path


def files_below(folder: Path) -> Iterator[Path]:
    """Yield every regular file; folders may vanish meanwhile."""
    paths = (Path(place) / name for place, _, names in os.walk(folder) for name in names)
    return (path for path in paths if path.is_file() and not path.is_symlink())


def content_of(path: Path) -> bytes:
    """Read a file that may have been deleted."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def files_with(needle: bytes, folder: Path) -> list[Path]:
    """Return the files that contain the needle, except those of volumes, which belong to the container."""
    return [one for one in files_below(folder) if "volumes" not in one.parts and needle in content_of(one)]
