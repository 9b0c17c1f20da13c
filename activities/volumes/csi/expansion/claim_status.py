"""Patches of a claim's status while its volume is expanded on the node (pkg/volume/util/resize_util.go); pure.

Each names the version of the claim that it is about, so that one that is outdated is refused and tried again.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from activities.volumes.csi.expansion.decision import IN_PROGRESS, INFEASIBLE
from proto.kubernetes.api_time import api_time

Json = dict[str, Any]
_FAILED: Final = "NodeResizeError"
_OF_RESIZES: Final = frozenset({"FileSystemResizePending", "Resizing", "ControllerResizeError", _FAILED})
LONGEST_MESSAGE: Final = 1024
"""Characters of a driver's error in a condition."""


def in_progress(claim: Mapping[str, Any]) -> Json:
    """Say that the node is expanding the volume."""
    return _patch(claim, {"allocatedResourceStatuses": {"storage": IN_PROGRESS}})


def finished(claim: Mapping[str, Any], size: str) -> Json:
    """Say that the volume has its new size."""
    left = [one for one in _conditions(claim) if one.get("type") not in _OF_RESIZES]
    return _patch(
        claim, {"capacity": {"storage": size}, "allocatedResourceStatuses": {"storage": None}, "conditions": left}
    )


def failed(claim: Mapping[str, Any], why: str, now: datetime, *, infeasible: bool) -> Json:
    """Say why the node could not expand the volume, and with `infeasible` that it does not try again."""
    message = f"failed to expand pvc with {why}"[:LONGEST_MESSAGE]
    new = {"type": _FAILED, "status": "True", "lastTransitionTime": api_time(now), "message": message}
    known = [one for one in _conditions(claim) if one.get("type") == _FAILED and one.get("status") == "True"]
    conditions = [one for one in _conditions(claim) if one.get("type") != _FAILED]
    status: Json = {"conditions": [*conditions, *(known[:1] or [new])]}
    return _patch(claim, status | ({"allocatedResourceStatuses": {"storage": INFEASIBLE}} if infeasible else {}))


def _patch(claim: Mapping[str, Any], status: Json) -> Json:
    return {"metadata": {"resourceVersion": claim["metadata"].get("resourceVersion")}, "status": status}


def _conditions(claim: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return (claim.get("status") or {}).get("conditions") or ()
