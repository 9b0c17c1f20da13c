"""Writes the files by which the processes of a node tell each other, below `<root-dir>/tempolet`."""

import json
from pathlib import Path
from typing import Any


def write_node_file(path: Path, content: Any) -> None:
    """Replace a file with JSON atomically, and make its folder; raises OSError. A file has one writer."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
    new = path.with_suffix(".new")
    new.write_text(json.dumps(content, indent=1))
    new.replace(path)
