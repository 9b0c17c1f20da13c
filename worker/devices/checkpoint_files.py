"""The kubelet's checkpoint of device plugins, and beside it what it can't have.

`<root-dir>/device-plugins/kubelet_internal_checkpoint` has who has which devices, and what the plugins answered; the answers are nowhere
else, because they may contain secrets.
"""

import threading
from pathlib import Path
from typing import Final

import structlog

from activities.files.atomic_files import write_atomically
from proto.node_devices import UnansweredDevices, write_unanswered_devices
from workflows.decide.devices.allocation import ordered
from workflows.decide.devices.assignments import Assignments
from workflows.decide.devices.checkpoint import (
    STATE_FILE,
    Checkpoint,
    CheckpointError,
    read_checkpoint,
    written_checkpoint,
)
from workflows.decide.devices.inventory import Inventory

_log: Final = structlog.get_logger(__name__)


class CheckpointFiles:
    """Those of one node; may be written by several threads."""

    def __init__(self, root_dir: Path) -> None:
        """Take --root-dir."""
        self._root_dir, self._file = root_dir, root_dir / STATE_FILE
        self._unanswered: UnansweredDevices | None = None
        """As written last."""
        self.turn = threading.Lock()
        """To be held while what is written is read: then the last write is the newest."""

    def write(self, known: Assignments, inventory: Inventory) -> None:
        """Write both; raises OSError. Without plugins and devices there is no checkpoint, as after a kubelet without any."""
        registered = {name: ordered(one.healthy) for name, one in inventory.items()}
        if registered or known.pods or self._file.exists():
            self._file.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
            write_atomically(self._file, written_checkpoint(Checkpoint(known, registered)).encode())
        self._write_unanswered(known.unanswered())

    def _write_unanswered(self, unanswered: UnansweredDevices) -> None:
        """Leave to PodResources what the checkpoint can't have. Written after it, and read before it, so that nothing is missed."""
        if unanswered != self._unanswered:
            write_unanswered_devices(self._root_dir, unanswered)
            self._unanswered = unanswered


def load_checkpoint(root_dir: Path) -> Checkpoint:
    """Read what an earlier process or a kubelet has left; nothing if that cannot be used, as by the kubelet."""
    file = root_dir / STATE_FILE
    try:
        return read_checkpoint(file.read_text())
    except FileNotFoundError:
        return Checkpoint()
    except (OSError, UnicodeDecodeError, CheckpointError) as error:
        why = "not text" if isinstance(error, UnicodeDecodeError) else str(error)
        _log.error(
            "Continue after failing to read checkpoint file. Device allocation info may NOT be up-to-date",
            file=str(file),
            err=why,
        )
        return Checkpoint()
