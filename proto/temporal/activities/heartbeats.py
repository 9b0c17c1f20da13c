"""What long activities leave to their next try, in another worker: the details of their heartbeats."""

from dataclasses import dataclass


@dataclass(slots=True)
class ProbeProgress:
    """How far a probe has come: what ProbeContainer's heartbeats leave to its next try."""

    verdict: bool | None = None
    """None until one is reached; liveness begins with success."""
    message: str = ""
    last: bool | None = None
    run: int = 0
    """How often in a row the last outcome came."""
    sequence: int = 0
    told: bool = True
    """Whether the workflow has been signalled the present verdict."""


@dataclass(slots=True)
class HookProgress:
    """What RunHook's heartbeats leave to its next try."""

    doing: str
    failed: int = 0
    """How many tries are known to have failed; the outcome of any other nobody knows."""
