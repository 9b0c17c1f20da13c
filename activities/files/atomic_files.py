"""Writes a file atomically: after a crash a reader finds the old content or the complete new one.

For records of volumes, and for the node's certificates and keys. Blocks on files.
"""

import json
import os
from pathlib import Path
from typing import Any


def write_json(file: Path, content: Any) -> None:
    """Replace a file with JSON, which is on disk when this returns. Raises OSError."""
    write_atomically(file, json.dumps(content).encode(), mode=0o666)


def write_atomically(file: Path, content: bytes, *, mode: int = 0o600, synced: bool = True) -> None:
    """Replace a file; the new one has its mode before the first byte is written. Raises OSError.

    Without `synced` a power loss may leave an empty file: for what is made again, or read by nobody after a boot.
    """
    new = file.with_name(f".{file.name}")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(content)
        if synced:
            opened.flush()
            os.fsync(descriptor)
    new.replace(file)


def sync_folder(folder: Path) -> None:
    """Put the names in a folder on disk: a file that is synced may be lost with its name. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
