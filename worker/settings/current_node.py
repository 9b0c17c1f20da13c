"""Which node `tempolet pods`, `history` and `replay` are asked about when nothing is said: the one `tempolet up` started.

Written by `up`, removed by `down`, read by `cli`. It holds nothing but the node flags that a reader would otherwise have to
type each time; on a node that systemd runs there is none and the kubelet's default places hold.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

VARIABLE: Final = "TEMPOLET_NODE_FILE"
PLACE: Final = Path("/run/tempolet/node.json")


def node_file() -> Path:
    """Say where it lies: $TEMPOLET_NODE_FILE, or /run, which a reboot empties."""
    chosen = os.environ.get(VARIABLE)
    return Path(chosen) if chosen else PLACE


def write_current_node(flags: Sequence[str]) -> None:
    """Remember a node's flags, for example `["--root-dir", "/x", "--tempolet-config", "/y"]`; raises OSError."""
    path = node_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(json.dumps({"flags": list(flags)}))
    new.replace(path)


def read_current_node() -> list[str]:
    """Give the remembered flags, none when there is no such node."""
    try:
        return [str(one) for one in json.loads(node_file().read_bytes())["flags"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def forget_current_node() -> None:
    """Forget it; what is not there is forgotten."""
    node_file().unlink(missing_ok=True)
