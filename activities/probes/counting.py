"""Decides when a series of outcomes changes the result of a probe (pkg/kubelet/prober/worker.go doProbe); pure."""

from dataclasses import dataclass
from typing import Any, Final

from activities.probes.outcome import Outcome
from proto.temporal.activities.heartbeats import ProbeProgress
from proto.temporal.pod import ProbeKind

MAX_MESSAGE: Final = 1024
"""Bytes of a probe's output that are reported."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """How many consecutive outcomes change the result."""

    success: int
    failure: int

    @classmethod
    def of(cls, probe: dict[str, Any]) -> "Thresholds":
        """Read them from a probe."""
        return cls(probe.get("successThreshold") or 1, probe.get("failureThreshold") or 3)


def count(progress: ProbeProgress, outcome: Outcome, needed: Thresholds) -> None:
    """Count an outcome; a changed result gets the next number and counts as unreported."""
    progress.run = progress.run + 1 if progress.last is outcome.success else 1
    progress.last = outcome.success
    enough = progress.run >= (needed.success if outcome.success else needed.failure)
    if enough and progress.verdict is not outcome.success:
        progress.verdict, progress.message = outcome.success, shortened(outcome.output)
        progress.sequence += 1
        progress.turns += 1
        progress.told = False


def shortened(output: str) -> str:
    """Cut an output to MAX_MESSAGE bytes, between two characters."""
    return output.encode(errors="replace")[:MAX_MESSAGE].decode(errors="ignore")


def has_settled(kind: ProbeKind, *, verdict: bool | None) -> bool:
    """Report whether this instance needs no more of this probe: it has started, or will be restarted."""
    match kind:
        case ProbeKind.STARTUP:
            return verdict is not None
        case ProbeKind.LIVENESS:
            return verdict is False
        case ProbeKind.READINESS:
            return False
