"""Write a file whole or not at all: who reads it after a crash finds what stood there before, or all of the new.

For what is remembered of volumes beside them, and for the node's certificates and their keys. Blocks on files.
"""

import json
import os
from pathlib import Path
from typing import Any


def write_json(file: Path, content: Any, *, synced: bool = False) -> None:
    """Put JSON in a file's place; `synced`: it is on the disk before this returns. Raises OSError."""
    write_atomically(file, json.dumps(content).encode(), mode=0o666, synced=synced)


def write_atomically(file: Path, content: bytes, *, mode: int = 0o600, synced: bool = True) -> None:
    """Put bytes in a file's place, which has its mode from the first of them on. Raises OSError."""
    new = file.with_name(f".{file.name}")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(content)
        if synced:
            opened.flush()
            os.fsync(descriptor)
    new.replace(file)
