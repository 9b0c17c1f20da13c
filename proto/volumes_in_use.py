"""`<root-dir>/tempolet/volumes_in_use/`: the volumes that pods wait for until they are attached, and those that the Node lists.

The worker writes `wanted.json`; the node process adds these volumes to the Node's status.volumesInUse, and writes `reported.json` when the
API server has them. Only then a volume is mounted: the attach/detach controller detaches none that is listed.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from proto.node_files import write_node_file

UNIQUE_NAME: Final = "uniqueName"
"""The field of a disk's record that has its name in the Node's status.volumesInUse."""
_WANTED: Final = "wanted.json"
_REPORTED: Final = "reported.json"
_MOST: Final = 4 * 1024 * 1024


def in_use_folder(root_dir: Path) -> Path:
    """Return the folder of both files."""
    return root_dir / "tempolet" / "volumes_in_use"


def write_wanted_volumes(root_dir: Path, names: Iterable[str]) -> None:
    """Write the first file, atomically; raises OSError."""
    write_node_file(in_use_folder(root_dir) / _WANTED, sorted(names))


def wanted_volumes(root_dir: Path) -> frozenset[str]:
    """Read it."""
    return _read(in_use_folder(root_dir) / _WANTED)


def write_reported_volumes(root_dir: Path, names: Iterable[str]) -> None:
    """Write the second file, atomically; raises OSError."""
    write_node_file(in_use_folder(root_dir) / _REPORTED, sorted(names))


def reported_volumes(root_dir: Path) -> frozenset[str]:
    """Read it."""
    return _read(in_use_folder(root_dir) / _REPORTED)


def _read(path: Path) -> frozenset[str]:
    """Read a file; nothing if there is none, or it is damaged or too long."""
    try:
        with path.open("rb") as file:
            return frozenset(one for one in json.loads(file.read(_MOST)) if isinstance(one, str))
    except (OSError, ValueError, TypeError):
        return frozenset()
