"""Merges this node's status of a pod into the API's: fields of others are kept, and nothing that ended restarts.

A function of two statuses, used by the keeper before each patch (pkg/kubelet/status/status_manager.go mergePodStatus,
updateStatusInternal; pkg/kubelet/kubelet_pods.go generateAPIPodStatus).
"""

from collections.abc import Mapping
from typing import Any, Final

from proto.pod_snapshot import FINAL_PHASES
from proto.temporal.resources import RESIZE_IN_PROGRESS, RESIZE_PENDING
from worker.status.normalize import Json, normalize

OWN_CONDITIONS: Final = frozenset(
    {
        "PodScheduled",
        "Ready",
        "Initialized",
        "ContainersReady",
        RESIZE_IN_PROGRESS,
        RESIZE_PENDING,
        "PodReadyToStartContainers",
        "AllContainersRestarting",
    }
)
"""Conditions owned by the node (pkg/kubelet/types/pod_status.go)."""
SHARED_CONDITION: Final = "DisruptionTarget"
"""Set by the node too, but only for a pod that it has ended."""
OF_OTHERS: Final = ("resourceClaimStatuses", "extendedResourceClaimStatus", "nodeAllocatableResourceClaimStatuses")
_KEPT_IPS: Final = ("podIP", "podIPs")
_STATUSES: Final = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
_READINESS: Final = ("Ready", "ContainersReady")
_WHY_UNREADY: Final = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}


def merge_status(api: Mapping[str, Any], ours: Mapping[str, Any], *, stopped: bool, mirror: bool = False) -> Json:
    """Return the status to write; `api` is normalized, `stopped`: nothing of the pod can run any more, nor is a claim prepared.

    `mirror`: the object only shows a static pod, which starts again under its UID when its manifest comes back.
    """
    new = normalize(ours)
    ends = ours.get("phase") in FINAL_PHASES and api.get("phase") not in FINAL_PHASES
    new["conditions"] = _conditions(api, new, disrupted=ends and stopped)
    _copy_fields(new, api, OF_OTHERS)
    if "startTime" in api:
        new["startTime"] = api["startTime"]
    if "podIP" not in new:  # a pod that has ended, or is between two sandboxes, keeps its last address (pleg getPodIPs)
        _copy_fields(new, api, _KEPT_IPS)
    if (newest := max(api.get("observedGeneration", 0), ours.get("observedGeneration", 0))) > 0:
        new["observedGeneration"] = newest
    if ends and not stopped:
        _copy_fields(new, api, ("phase", "reason", "message"))
    elif api.get("phase") in FINAL_PHASES and not mirror:
        _keep_ended(new, api)
    if new.get("phase") == api.get("phase"):  # another client may have given a reason for this phase
        new |= {name: api[name] for name in ("reason", "message") if name in api and not new.get(name)}
    if new.get("phase") in FINAL_PHASES:
        _set_unready(new)
    return new


def _copy_fields(new: Json, api: Mapping[str, Any], fields: tuple[str, ...]) -> None:
    for name in fields:
        new.pop(name, None)
        if name in api:
            new[name] = api[name]


def _conditions(api: Mapping[str, Any], ours: Mapping[str, Any], *, disrupted: bool) -> list[Json]:
    """Return others' conditions, then the node's; an unchanged status keeps its lastTransitionTime."""
    known = {one["type"]: one for one in api.get("conditions", ())}
    timed = [_timed(one, known.get(one["type"])) for one in ours.get("conditions", ())]
    shared = [one for one in timed if one["type"] == SHARED_CONDITION and disrupted]
    of_others = [one for name, one in known.items() if name not in OWN_CONDITIONS]
    if shared:
        of_others = [one for one in of_others if one["type"] != SHARED_CONDITION]
    return [*of_others, *shared, *(one for one in timed if one["type"] in OWN_CONDITIONS)]


def _timed(ours: Json, api: Json | None) -> Json:
    if api is None or api["status"] != ours["status"] or "lastTransitionTime" not in api:
        return ours
    return {**ours, "lastTransitionTime": api["lastTransitionTime"]}


def _keep_ended(new: Json, api: Mapping[str, Any]) -> None:
    """Keep the phase and the terminated containers of a pod that has ended."""
    new["phase"] = api["phase"]
    for field in _STATUSES:
        ended = {one["name"]: one for one in api.get(field, ()) if "terminated" in one.get("state", {})}
        if field in new:
            new[field] = [
                one if "terminated" in one.get("state", {}) else ended.get(one["name"], one) for one in new[field]
            ]


def _set_unready(new: Json) -> None:
    """Set the readiness conditions of a pod that has ended to false."""
    reason = _WHY_UNREADY[new["phase"]]
    for one in new["conditions"]:
        if one["type"] in _READINESS and one["status"] == "True":
            one["status"], one["reason"] = "False", reason
