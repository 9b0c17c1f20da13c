"""What was last seen of the node's images, `<root-dir>/tempolet/images.json`: a copy for readers.

Written by the activity that watches them at each look, read by `tempolet images`: the node's workflow hears of them only when
something has to be done.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

FILE_NAME: Final = "images.json"


@dataclass(frozen=True, slots=True)
class NodeImages:
    """How many images there are, and how full their disk is."""

    images: int
    capacity_bytes: int
    used_percent: int
    at: str
    """RFC 3339: when that was seen."""


def node_images_path(root_dir: Path) -> Path:
    """Say where it lies."""
    return root_dir / "tempolet" / FILE_NAME


def write_node_images(root_dir: Path, seen: NodeImages) -> None:
    """Write it, atomically; raises OSError."""
    path = node_images_path(root_dir)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
    new = path.with_suffix(".new")
    new.write_text(json.dumps(asdict(seen), indent=1))
    new.replace(path)


def read_node_images(root_dir: Path) -> NodeImages | None:
    """Read it; None when no worker has written it yet or another version did."""
    try:
        return NodeImages(**json.loads(node_images_path(root_dir).read_bytes()))
    except (OSError, ValueError, TypeError):
        return None
