"""What the poller did not take and why, `<root-dir>/tempolet/refused.json`: a copy for readers, never authoritative.

Written whole by the poller on each change, read by `tempolet pods`, so that an operator sees a bad manifest beside the
pods that run.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

FILE_NAME: Final = "refused.json"


@dataclass(frozen=True, slots=True)
class Refusal:
    """One manifest (or the folder itself) that was not taken."""

    path: str
    reason: str
    """One CamelCase word."""
    message: str
    """What, which field, and what now."""
    since: str
    """RFC 3339."""
    pod: str = ""
    """namespace/name, where it is known."""
    pod_kept: bool = False
    """The pod of an earlier, good version of this file goes on."""


def refusals_path(root_dir: Path) -> Path:
    """Say where the refusals lie."""
    return root_dir / "tempolet" / FILE_NAME


def write_refusals(root_dir: Path, refusals: Sequence[Refusal]) -> None:
    """Write them all, atomically; raises OSError."""
    path = refusals_path(root_dir)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
    new = path.with_suffix(".new")
    new.write_text(json.dumps([asdict(one) for one in refusals], indent=1))
    new.replace(path)


def read_refusals(root_dir: Path) -> list[Refusal]:
    """Read them; none when nothing was written yet or another version wrote it."""
    try:
        return [Refusal(**one) for one in json.loads(refusals_path(root_dir).read_bytes())]
    except (OSError, ValueError, TypeError):
        return []
