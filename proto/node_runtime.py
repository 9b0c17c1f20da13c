"""What the poller knows of the node's container runtime, `<root-dir>/tempolet/runtime.json`: a copy for readers.

Written by the poller on each change, read by `tempolet pods`: with containerd away pods keep their last state, and this
says why nothing moves.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

FILE_NAME: Final = "runtime.json"


@dataclass(frozen=True, slots=True)
class NodeRuntime:
    """Whether the runtime answers and is ready for pods, with its own reasons where not."""

    ready: bool
    endpoint: str
    network_ready: bool = True
    reason: str = ""
    message: str = ""
    name: str = ""
    version: str = ""
    since: str = ""
    """RFC 3339: since when this holds."""
    events: str = ""
    """How ends of containers are learned: stream or relist."""


def node_runtime_path(root_dir: Path) -> Path:
    """Say where it lies."""
    return root_dir / "tempolet" / FILE_NAME


def write_node_runtime(root_dir: Path, runtime: NodeRuntime) -> None:
    """Write it, atomically; raises OSError."""
    path = node_runtime_path(root_dir)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
    new = path.with_suffix(".new")
    new.write_text(json.dumps(asdict(runtime), indent=1))
    new.replace(path)


def read_node_runtime(root_dir: Path) -> NodeRuntime | None:
    """Read it; None when no poller has written it yet or another version did."""
    try:
        return NodeRuntime(**json.loads(node_runtime_path(root_dir).read_bytes()))
    except (OSError, ValueError, TypeError):
        return None
