"""`<root-dir>/tempolet/refused.json`: the manifests that the poller rejected, and pods that have not begun yet; a copy, never authoritative.

Written as a whole by the poller on each change, read by `tempolet pods`, so that an operator sees a bad manifest beside
the running pods.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from proto.node_files import write_node_file

FILE_NAME: Final = "refused.json"
BEING_ADMITTED: Final = "AdmissionPending"
"""The reason of a pod whose admission takes long."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """One rejected manifest, or the directory itself."""

    path: str
    reason: str
    """One CamelCase word."""
    message: str
    """What is wrong, with which field, and what to do."""
    since: str
    """RFC 3339."""
    pod: str = ""
    """namespace/name, if known."""
    pod_kept: bool = False
    """The pod of an earlier, valid version of this file keeps running."""
    waits: bool = False
    """Nothing is rejected: the pod begins by itself, and this is what it waits for."""


def refusals_path(root_dir: Path) -> Path:
    """Return the file's path."""
    return root_dir / "tempolet" / FILE_NAME


def write_refusals(root_dir: Path, refusals: Sequence[Refusal]) -> None:
    """Write the file atomically; raises OSError."""
    write_node_file(refusals_path(root_dir), [asdict(one) for one in refusals])


def read_refusals(root_dir: Path) -> list[Refusal]:
    """Read the file; empty if nothing was written yet, or another version wrote it."""
    try:
        return [Refusal(**one) for one in json.loads(refusals_path(root_dir).read_bytes())]
    except (OSError, ValueError, TypeError):
        return []
