"""Write a file whole or not at all: who reads it after a crash finds what stood there before, or all of the new.

For what is remembered of volumes beside them. Blocks on files.
"""

import json
import os
from pathlib import Path
from typing import Any


def write_json(file: Path, content: Any, *, synced: bool = False) -> None:
    """Put JSON in a file's place; `synced`: it is on the disk before this returns. Raises OSError."""
    new = file.with_name(f".{file.name}")
    with new.open("w") as opened:
        json.dump(content, opened)
        if synced:
            opened.flush()
            os.fsync(opened.fileno())
    new.replace(file)
