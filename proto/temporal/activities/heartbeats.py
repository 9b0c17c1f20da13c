"""Heartbeat details of long activities: what their next try, in another worker, starts from, or what they wait for."""

from dataclasses import dataclass


@dataclass(slots=True)
class ProbeProgress:
    """The heartbeat details of ProbeContainer."""

    verdict: bool | None = None
    """None until there is one; liveness begins with success."""
    message: str = ""
    last: bool | None = None
    run: int = 0
    """How often in a row the last outcome occurred."""
    sequence: int = 0
    told: bool = True
    """Whether the workflow was signalled the current verdict."""
    turns: int = 0
    """How often the verdict changed since the last signal."""
    recent_signals: float = 0.0
    """Readiness only: how many signals count as recent (activities/execution/growing_intervals.py)."""
    signalled_at: float = 0.0
    """When the last one was sent, in seconds since the epoch."""


@dataclass(slots=True)
class HookProgress:
    """The heartbeat details of RunHook."""

    doing: str
    failed: int = 0
    """How many tries are known to have failed; the outcome of any other is unknown."""


@dataclass(frozen=True, slots=True)
class Waits:
    """The heartbeat details of an activity that waits for others; `tempolet explain` and Temporal's UI show them."""

    doing: str
    waits: tuple[str, ...]
    """Clauses that will hold: "volume data is attached to node node-7"."""
