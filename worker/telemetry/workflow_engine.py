"""What the worker tells of Temporal: whether it takes what is due, and how many pods this node leads itself.

The worker's metrics and its status line have it. The node process, for the Node's condition, and `tempolet pods` ask for it over
the local socket. Only the worker can tell: the others have nothing due.
"""

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from worker.telemetry.local_socket import TextUnavailable, fetch_text, socket_path

WORKFLOW_ENGINE: Final = "workflow-engine"
"""The name of the text."""
LONGEST_WHY: Final = 300


@dataclass(frozen=True, slots=True)
class WorkflowEngine:
    """Temporal, as the worker finds it."""

    away_since: datetime | None = None
    """None: it is available."""
    why: str = ""
    """What is due while it is away; otherwise why pods are led without it."""
    pods_led: int = 0
    """Pods that this node leads itself."""
    pods_kept: int = 0
    """Among them those whose own workflows failed again after a hand-back."""
    name_taken: bool = False
    """Another machine has this node's name, so this one does nothing."""

    def leading(self) -> str:
        """Say how many pods this node leads itself."""
        return f"this node leads {self.pods_led} {'pod' if self.pods_led == 1 else 'pods'} itself"

    def message(self) -> str:
        """Say what is due, and who leads the pods."""
        if self.name_taken and self.away_since is not None:
            return f"since {self.away_since:%Y-%m-%dT%H:%M:%SZ} this machine does nothing about its pods: {self.why}"
        if self.away_since is not None:
            return f"since {self.away_since:%Y-%m-%dT%H:%M:%SZ}: {self.why}; {self.leading()}"
        return f"{self.leading()}: {self.why}" if self.pods_led else "Temporal takes what is due"


def as_text(engine: WorkflowEngine | None) -> bytes:
    """Write it for the socket, as one line; None: the worker cannot tell yet."""
    if engine is None:
        return b""
    since = engine.away_since.isoformat() if engine.away_since else ""
    told = {"awaySince": since, "why": engine.why[:LONGEST_WHY], "podsLed": engine.pods_led}
    if engine.pods_kept:
        told["podsKept"] = engine.pods_kept
    if engine.name_taken:
        told["nameTaken"] = True
    return json.dumps(told).encode() + b"\n"


async def workflow_engine(state_dir: Path, within: timedelta) -> WorkflowEngine | None:
    """Ask the worker; None if it does not answer in time, or cannot tell yet."""
    try:
        told = json.loads(await fetch_text(socket_path(state_dir, "worker"), WORKFLOW_ENGINE, within))
        since = datetime.fromisoformat(told["awaySince"]) if told["awaySince"] else None
        taken, kept = told.get("nameTaken") is True, int(told.get("podsKept", 0))
        return WorkflowEngine(since, str(told["why"])[:LONGEST_WHY], int(told["podsLed"]), kept, taken)
    except (TextUnavailable, ValueError, KeyError, TypeError):
        return None
