"""The files of checkpoints in `<root-dir>/checkpoints`: room is asked for first, and only the newest are kept.

Used by /checkpoint, in a thread. A checkpoint has a container's memory and what it has written; a kubelet makes as many
as are asked for, until the disk is full.
"""

import shutil
from pathlib import Path
from typing import Final

from proto.cri.v1 import api_pb2 as cri

KEPT: Final = 10
"""Checkpoints on the node; older ones are removed when another was made."""
SPARE: Final = 0.1
"""The part of the disk that stays free: the kubelet's default of evictionHard for nodefs.available."""


def needed_bytes(stats: cri.ContainerStats) -> int:
    """Return about how large the checkpoint of a container will be."""
    return int(stats.memory.usage_bytes.value + stats.writable_layer.used_bytes.value)


def lack_of_room(folder: Path, needed: int) -> str:
    """Say why a file of this size may not be written; empty if it may. Raises OSError."""
    disk = shutil.disk_usage(folder)
    spare = int(disk.total * SPARE)
    if disk.free - needed >= spare:
        return ""
    return f"the disk has {disk.free} bytes free: {needed} are needed, and {spare} must stay free"


def remove_older(folder: Path, kept: int = KEPT) -> None:
    """Remove all but the newest checkpoints. Raises OSError."""
    found = [(path.lstat().st_mtime_ns, path) for path in folder.glob("checkpoint-*.tar")]
    for _, path in sorted(found)[: max(len(found) - kept, 0)]:
        path.unlink(missing_ok=True)
