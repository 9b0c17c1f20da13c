"""Every file of a folder in which processes write and delete meanwhile, for tests that look for a secret where none may be."""

import os
from collections.abc import Iterator
from pathlib import Path


def files_below(folder: Path) -> Iterator[Path]:
    """Name every plain file; folders may vanish meanwhile."""
    paths = (Path(place) / name for place, _, names in os.walk(folder) for name in names)
    return (path for path in paths if path.is_file() and not path.is_symlink())


def content_of(path: Path) -> bytes:
    """Read a file that may be gone by now."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def files_with(needle: bytes, folder: Path) -> list[Path]:
    """Name the files that hold something; a volume's files are the container's."""
    return [one for one in files_below(folder) if "volumes" not in one.parts and needle in content_of(one)]
