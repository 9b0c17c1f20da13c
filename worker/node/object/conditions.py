"""The node's conditions, in the kubelet's words (pkg/kubelet/nodestatus/setters.go).

Used by `status`. A condition whose status does not change keeps its lastTransitionTime. Ready comes last, as in the kubelet.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from proto.kubernetes.api_time import api_time
from worker.node.pressure.watch import HISTORY_PRESSURE
from worker.telemetry.workflow_engine import WorkflowEngine

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """An event of the node to send."""

    reason: str
    message: str = ""
    """Empty: "Node <name> status is now: <reason>"."""
    type: str = "Normal"


@dataclass(frozen=True, slots=True)
class _Pressure:
    """Reason and message of a condition while it is true, and while it is false."""

    under: tuple[str, str]
    without: tuple[str, str]
    events: tuple[str, str]


PRESSURES: Final[Mapping[str, _Pressure]] = {
    "MemoryPressure": _Pressure(
        ("KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
        ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("NodeHasInsufficientMemory", "NodeHasSufficientMemory"),
    ),
    "DiskPressure": _Pressure(
        ("KubeletHasDiskPressure", "kubelet has disk pressure"),
        ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("NodeHasDiskPressure", "NodeHasNoDiskPressure"),
    ),
    "PIDPressure": _Pressure(
        ("KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
        ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("NodeHasInsufficientPID", "NodeHasSufficientPID"),
    ),
}
_HISTORY: Final = {
    HISTORY_PRESSURE: _Pressure(
        ("HistoryOverLimit", "the database of histories exceeds history.databaseLimit"),
        ("HistoryWithinLimit", "the database of histories is within its limit"),
        ("NodeHasHistoryPressure", "NodeHasNoHistoryPressure"),
    )
}

LOOPS_FAILING: Final = "TempoletLoopsFailing"
WORKFLOW_ENGINE: Final = "WorkflowEngineAvailable"
LONGEST: Final = 1000
"""Characters of their messages."""


def conditions(
    before: Sequence[Json],
    *,
    pressures: Iterable[str],
    troubles: Sequence[str],
    now: datetime,
    history_limited: bool = False,
) -> tuple[list[Json], list[NodeEvent]]:
    """Return the conditions as of `now`, and events for what changed; conditions of others are kept."""
    known = {one["type"]: one for one in before}
    under, events = set(pressures), []
    own = {**PRESSURES, **(_HISTORY if history_limited else {})}
    found = [one for one in before if one["type"] not in own and one["type"] != "Ready"]
    for kind, words in own.items():
        holds = kind in under
        reason, message = words.under if holds else words.without
        condition, changed = _condition(known.get(kind), _new(kind, holds=holds, reason=reason, message=message), now)
        if changed:
            events.append(NodeEvent(words.events[0 if holds else 1]))
        found.append(condition)
    reason, message = (
        ("KubeletNotReady", joined(troubles)) if troubles else ("KubeletReady", "kubelet is posting ready status")
    )
    ready, changed = _condition(
        known.get("Ready"), _new("Ready", holds=not troubles, reason=reason, message=message), now
    )
    if changed and ("Ready" in known or not troubles):  # that a new node is not ready yet needs no event
        events.append(NodeEvent("NodeNotReady" if troubles else "NodeReady"))
    return [*found, ready], events


def with_failing_loops(found: list[Json], failing: Sequence[str], now: datetime) -> list[Json]:
    """Add the condition of our own that tells of loops that fail and are restarted; a node without any has none.

    The node stays Ready: pods run on, and their eviction would not help.
    """
    before = next((one for one in found if one["type"] == LOOPS_FAILING), None)
    if before is None and not failing:
        return found
    reason, message = ("LoopsFail", joined(failing)[:LONGEST]) if failing else ("LoopsRun", "all loops of tempolet run")
    condition, _ = _condition(before, _new(LOOPS_FAILING, holds=bool(failing), reason=reason, message=message), now)
    return [condition, *(one for one in found if one["type"] != LOOPS_FAILING)]


def with_workflow_engine(found: list[Json], engine: WorkflowEngine | None, now: datetime) -> list[Json]:
    """Add the condition of our own that tells whether Temporal is available, and how many pods this node leads itself.

    The node stays Ready meanwhile. If the worker tells nothing, the condition is Unknown, or absent if there was none.
    """
    before = next((one for one in found if one["type"] == WORKFLOW_ENGINE), None)
    if engine is None:
        if before is None:
            return found
        status, reason, message = "Unknown", "WorkerSilent", "the worker tells nothing of Temporal"
    elif engine.away_since is not None:
        status, reason = "False", "NodeNameTaken" if engine.name_taken else "TemporalAway"
        message = engine.message()
    else:
        status, reason = "True", "PodsLedByNode" if engine.pods_led else "TemporalAvailable"
        message = engine.message()
    new = {"type": WORKFLOW_ENGINE, "status": status, "reason": reason, "message": message[:LONGEST]}
    condition, _ = _condition(before, new, now)
    return [condition, *(one for one in found if one["type"] != WORKFLOW_ENGINE)]


def joined(troubles: Sequence[str]) -> str:
    """Join several errors into one message, like k8s.io/apimachinery pkg/util/errors."""
    once = list(dict.fromkeys(troubles))
    return once[0] if len(once) == 1 else f"[{', '.join(once)}]"


def is_ready(node: Mapping[str, Any]) -> bool:
    """Report whether a Node's Ready condition is true."""
    found = (node.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in found)


def _new(kind: str, *, holds: bool, reason: str, message: str) -> Json:
    return {"type": kind, "status": "True" if holds else "False", "reason": reason, "message": message}


def _condition(before: Json | None, new: Json, now: datetime) -> tuple[Json, bool]:
    """Add the times to a condition; reports whether its status changed."""
    changed = before is None or before["status"] != new["status"]
    since = api_time(now) if before is None or changed else before.get("lastTransitionTime")
    return {**new, "lastHeartbeatTime": api_time(now), "lastTransitionTime": since}, changed
