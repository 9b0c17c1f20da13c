"""`<root-dir>/tempolet/runtime.json`: the state of the node's container runtime, a copy for readers.

Written by the poller on each change, read by `tempolet pods`: while containerd is unavailable pods keep their last state, and
this says why nothing changes.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from proto.node_files import write_node_file

FILE_NAME: Final = "runtime.json"


@dataclass(frozen=True, slots=True)
class NodeRuntime:
    """Whether the runtime answers and is ready for pods, with its own reasons if not."""

    ready: bool
    endpoint: str
    network_ready: bool = True
    reason: str = ""
    message: str = ""
    name: str = ""
    version: str = ""
    since: str = ""
    """RFC 3339: since when this is so."""
    events: str = ""
    """How the poller learns of container ends: stream or relist."""


def node_runtime_path(root_dir: Path) -> Path:
    """Return the file's path."""
    return root_dir / "tempolet" / FILE_NAME


def write_node_runtime(root_dir: Path, runtime: NodeRuntime) -> None:
    """Write the file atomically; raises OSError."""
    write_node_file(node_runtime_path(root_dir), asdict(runtime))


def read_node_runtime(root_dir: Path) -> NodeRuntime | None:
    """Read the file; None if no poller has written it yet, or another version did."""
    try:
        return NodeRuntime(**json.loads(node_runtime_path(root_dir).read_bytes()))
    except (OSError, ValueError, TypeError):
        return None
