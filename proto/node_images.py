"""`<root-dir>/tempolet/images.json`: what was last seen of the node's images, a copy for readers.

Written by the activity that watches the images, read by `tempolet images`. The node's workflow learns of the images
only when something has to be done.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from proto.node_files import write_node_file

FILE_NAME: Final = "images.json"


@dataclass(frozen=True, slots=True)
class NodeImages:
    """The number of images, and how full their disk is."""

    images: int
    capacity_bytes: int
    used_percent: int
    at: str
    """RFC 3339: when this was seen."""


def node_images_path(root_dir: Path) -> Path:
    """Return the file's path."""
    return root_dir / "tempolet" / FILE_NAME


def write_node_images(root_dir: Path, seen: NodeImages) -> None:
    """Write the file atomically; raises OSError."""
    write_node_file(node_images_path(root_dir), asdict(seen))


def read_node_images(root_dir: Path) -> NodeImages | None:
    """Read the file; None if no worker has written it yet, or another version did."""
    try:
        return NodeImages(**json.loads(node_images_path(root_dir).read_bytes()))
    except (OSError, ValueError, TypeError):
        return None
