"""`<root-dir>/tempolet/interventions-<role>.json`: what others did in Temporal that keeps pods from being acted on.

Paused workflows and activities, and workflows that nobody of this node has started. Written as a whole by the poller (workflows)
and the worker (activities) on each change, read by `tempolet pods` and `tempolet explain`; a copy, never authoritative.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from proto.node_files import write_node_file

ROLES: Final = ("poller", "worker")
WORKFLOW_PAUSED: Final = "WorkflowPaused"
ACTIVITY_PAUSED: Final = "ActivityPaused"
FOREIGN_WORKFLOW: Final = "ForeignWorkflow"


@dataclass(frozen=True, slots=True)
class Intervention:
    """One of them."""

    workflow_id: str
    reason: str
    """One CamelCase word."""
    message: str
    """Who did what when, what follows, and what to do."""
    pod: str = ""
    """namespace/name; empty if it concerns no pod, or the node itself."""


def interventions_path(root_dir: Path, role: str) -> Path:
    """Return the path of one role's file."""
    return root_dir / "tempolet" / f"interventions-{role}.json"


def write_interventions(root_dir: Path, role: str, found: Sequence[Intervention]) -> None:
    """Write the file atomically; raises OSError."""
    write_node_file(interventions_path(root_dir, role), [asdict(one) for one in found])


def read_interventions(root_dir: Path) -> list[Intervention]:
    """Read the files of both roles; what was not written yet, or by another version, is left out."""
    found: list[Intervention] = []
    for role in ROLES:
        try:
            found += [Intervention(**one) for one in json.loads(interventions_path(root_dir, role).read_bytes())]
        except (OSError, ValueError, TypeError):
            continue
    return found
