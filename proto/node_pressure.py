"""`<root-dir>/tempolet/pressure.json`: the pressure conditions of the node, as its worker last judged them.

Written by the worker when they change (`worker/host/pressure/`). Read by the node process for the Node's conditions, and by the
poller, which refuses pods for them.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from proto.node_files import write_node_file

FILE_NAME: Final = "pressure.json"
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


def node_pressure_path(root_dir: Path) -> Path:
    """Return the file's path."""
    return root_dir / "tempolet" / FILE_NAME


def write_node_pressure(root_dir: Path, conditions: Iterable[str]) -> None:
    """Write the file atomically; raises OSError."""
    write_node_file(node_pressure_path(root_dir), {"boot": _boot(), "conditions": list(conditions)})


def read_node_pressure(root_dir: Path) -> frozenset[str]:
    """Read the conditions that are true; none if no worker has judged them since the boot, or the file is damaged."""
    try:
        found = json.loads(node_pressure_path(root_dir).read_bytes())
        known = found["conditions"] if found["boot"] == _boot() else ()
        return frozenset(one for one in known if isinstance(one, str))
    except (OSError, ValueError, TypeError, KeyError):
        return frozenset()


def _boot() -> str:
    return _BOOT_ID.read_text().strip()
