"""What a pod of this node has to itself by the ledger, for `tempolet explain`, and whether the ledger is to be asked at all."""

import contextlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from proto.node_devices import unanswered_devices_path
from proto.temporal.hardware.ledger import PodAssignment
from worker.commands.access.unhealthy_devices import unhealthy_devices
from workflows.decide.devices.checkpoint import STATE_FILE as CHECKPOINT

STATE_FILES: Final = ("cpu_manager_state", "memory_manager_state", CHECKPOINT)
"""In --root-dir: who has which CPUs, memory and devices."""


def has_hardware(root_dir: Path, uid: str) -> bool:
    """Report whether a file of the resource managers names a pod: all others need no second question.

    Devices are in a file of their own while the answer of their plugin is lost with the checkpoint.
    """
    for file in (*(root_dir / name for name in STATE_FILES), unanswered_devices_path(root_dir)):
        with contextlib.suppress(OSError):
            if uid in file.read_text(errors="replace"):
                return True
    return False


def exclusive_hardware(root_dir: Path, given: PodAssignment, over: Collection[str]) -> Iterator[str]:
    """Say what a pod has, why, and which devices are not healthy; nothing of the containers that are over."""
    ended = tuple(f"container {name} " for name in over)
    yield from (one for one in given.why if not one.startswith(ended))
    left = {name: one for name, one in given.containers.items() if name not in over}
    yield from unhealthy_devices(root_dir, left)
