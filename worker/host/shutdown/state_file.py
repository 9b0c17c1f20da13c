"""When the last graceful shutdown began and ended: the kubelet's file and JSON (pkg/kubelet/nodeshutdown/storage.go), read after the boot for the metrics."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from activities.files.atomic_files import write_atomically

FILE: Final = "graceful_node_shutdown_state"
_NEVER: Final = "0001-01-01T00:00:00Z"


@dataclass(frozen=True, slots=True)
class ShutdownTimes:
    """None: not known, or not ended."""

    start: datetime | None = None
    end: datetime | None = None


def write_times(root_dir: Path, times: ShutdownTimes) -> None:
    """Replace the file; raises OSError."""
    content = {"startTime": _written(times.start), "endTime": _written(times.end)}
    write_atomically(root_dir / FILE, json.dumps(content, separators=(",", ":")).encode(), mode=0o644)


def read_times(root_dir: Path) -> ShutdownTimes:
    """Read the file, which may not exist; raises OSError, ValueError."""
    try:
        content = json.loads((root_dir / FILE).read_bytes())
    except FileNotFoundError:
        return ShutdownTimes()
    if not isinstance(content, dict):
        raise ValueError(f"{FILE}: no JSON object")  # noqa: TRY004 - a damaged file, as other damage is reported
    return ShutdownTimes(_read(content.get("startTime")), _read(content.get("endTime")))


def _written(time: datetime | None) -> str:
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z") if time else _NEVER


def _read(text: Any) -> datetime | None:
    if not text or text == _NEVER:
        return None
    found = datetime.fromisoformat(str(text))
    if found.tzinfo is None:
        raise ValueError(f"{FILE}: a time without a zone")
    return found
