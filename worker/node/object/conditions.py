"""The node's conditions, in the kubelet's words (pkg/kubelet/nodestatus/setters.go).

Asked by `status` with what is wrong and what was said before; a condition that holds keeps the time since when it does. Ready stands
last, as the kubelet puts it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from proto.kubernetes.api_time import api_time

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """Something to tell about the node, once."""

    reason: str
    message: str = ""
    """Empty: "Node <name> status is now: <reason>"."""
    type: str = "Normal"


@dataclass(frozen=True, slots=True)
class _Pressure:
    """What a condition says while it holds, and while it does not: reason and message."""

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


def conditions(
    before: Sequence[Json], *, pressures: Iterable[str], troubles: Sequence[str], now: datetime
) -> tuple[list[Json], list[NodeEvent]]:
    """Give the conditions as of `now`, and what has changed; others' conditions stay as they are."""
    known = {one["type"]: one for one in before}
    under, events = set(pressures), []
    found = [one for one in before if one["type"] not in PRESSURES and one["type"] != "Ready"]
    for kind, words in PRESSURES.items():
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
    if changed and ("Ready" in known or not troubles):  # a new node that is not ready yet is no news
        events.append(NodeEvent("NodeNotReady" if troubles else "NodeReady"))
    return [*found, ready], events


def joined(troubles: Sequence[str]) -> str:
    """Put several troubles into one message, as k8s.io/apimachinery pkg/util/errors does."""
    once = list(dict.fromkeys(troubles))
    return once[0] if len(once) == 1 else f"[{', '.join(once)}]"


def is_ready(node: Mapping[str, Any]) -> bool:
    """Say whether a Node is Ready by its own word."""
    found = (node.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in found)


def _new(kind: str, *, holds: bool, reason: str, message: str) -> Json:
    return {"type": kind, "status": "True" if holds else "False", "reason": reason, "message": message}


def _condition(before: Json | None, new: Json, now: datetime) -> tuple[Json, bool]:
    """Date a condition; says whether its status is another one than before."""
    changed = before is None or before["status"] != new["status"]
    since = api_time(now) if before is None or changed else before.get("lastTransitionTime")
    return {**new, "lastHeartbeatTime": api_time(now), "lastTransitionTime": since}, changed
