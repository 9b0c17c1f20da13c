"""A pod as the API server returns it, reduced to what its readers need.

Created by `api_source` from each object of the watch. A pod's workflow gets metadata and spec only, and of the status the names of its
ResourceClaims: with managed
fields, resource version and status, each of our own status patches would count as a change of the pod.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from proto.dra.pod_claims import STATUS_FIELDS
from proto.kubernetes.api_time import read_api_time
from proto.kubernetes.grace_seconds import grace_of_seconds
from proto.kubernetes.source_annotations import MIRROR_ANNOTATION, SEEN_ANNOTATION, SOURCE_ANNOTATION
from proto.pod_snapshot import FINAL_PHASES
from proto.temporal.names import API_SOURCE
from proto.temporal.pod import PodJson
from proto.temporal.pod_inputs import Ended, GivenCondition
from proto.temporal.resources import PendingResize
from worker.poller.cluster.hook_annotations import without_refused_hooks
from worker.poller.manifests.static_pod import timestamp

DISRUPTION_TARGET: Final = "DisruptionTarget"
_NOT_KEPT: Final = frozenset(
    {"managedFields", "resourceVersion", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "finalizers"}
)
_NEVER: Final = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
"""The time of a condition that was set without one."""


@dataclass(frozen=True, slots=True)
class ApiPod:
    """One pod that the API binds to this node."""

    pod: PodJson
    uid: str
    namespace: str
    name: str
    mirror: str = ""
    """The hash of the static pod that it mirrors; empty if it is not a mirror pod."""
    owner_uid: str = ""
    """The Node object's uid, for a mirror pod."""
    deleted: bool = False
    grace: timedelta | None = None
    """The grace period of its deletion."""
    held: bool = False
    """Whether finalizers keep its object after the pod has ended."""
    ended: Ended | None = None
    """The final phase that its status shows."""
    started_at: datetime | None = None
    conditions: Mapping[str, GivenCondition] = field(default_factory=dict)
    """Conditions set by others that the node must know."""
    pending_resize: PendingResize | None = None
    """What it asks for besides the resources that `pod` has, which this node grants."""

    @property
    def full_name(self) -> str:
        """namespace/name."""
        return f"{self.namespace}/{self.name}"


def read_api_pod(document: Mapping[str, Any], now: datetime, *, hooks: bool = False) -> ApiPod:
    """Read an object of the API; `now` becomes the annotation of when it was first seen, `hooks` allows hooks of ours."""
    metadata, status = document["metadata"], document.get("status") or {}
    annotations = metadata.get("annotations") or {}
    kept = {name: value for name, value in metadata.items() if name not in _NOT_KEPT}
    kept["annotations"] = {**annotations, SEEN_ANNOTATION: timestamp(now), SOURCE_ANNOTATION: API_SOURCE}
    spec = document.get("spec") or {}
    seconds = metadata.get("deletionGracePeriodSeconds")
    owners = metadata.get("ownerReferences") or ()
    listed = {"apiVersion": "v1", "kind": "Pod", "metadata": kept, "spec": spec}
    if claims := {name: status[name] for name in STATUS_FIELDS if status.get(name)}:
        listed["status"] = claims
    pod = _without_nulls(listed)
    mirror = annotations.get(MIRROR_ANNOTATION) or ""
    return ApiPod(
        pod=pod if mirror else without_refused_hooks(pod, allowed=hooks),
        uid=metadata["uid"],
        namespace=metadata["namespace"],
        name=metadata["name"],
        mirror=mirror,
        owner_uid=next((one["uid"] for one in owners if one.get("kind") == "Node"), ""),
        deleted=bool(metadata.get("deletionTimestamp")),
        grace=grace_of_seconds(seconds) if seconds is not None else None,
        held=bool(metadata.get("finalizers")),
        ended=_ended(status),
        started_at=read_api_time(status.get("startTime")),
        conditions=_conditions(spec, status),
    )


def _ended(status: Mapping[str, Any]) -> Ended | None:
    phase = status.get("phase")
    return Ended(phase, status.get("reason") or "", status.get("message") or "") if phase in FINAL_PHASES else None


def _conditions(spec: Mapping[str, Any], status: Mapping[str, Any]) -> dict[str, GivenCondition]:
    """Return the conditions that readiness gates wait for, and the one that announces an eviction."""
    desired = {one.get("conditionType") for one in spec.get("readinessGates") or ()} | {DISRUPTION_TARGET}
    return {
        one["type"]: GivenCondition(
            status=one.get("status") or "Unknown",
            since=read_api_time(one.get("lastTransitionTime")) or _NEVER,
            reason=one.get("reason") or "",
            message=one.get("message") or "",
        )
        for one in status.get("conditions") or ()
        if one.get("type") in desired
    }


def _without_nulls(value: Any) -> Any:
    match value:
        case dict():
            return {name: _without_nulls(one) for name, one in value.items() if one is not None}
        case list():
            return [_without_nulls(one) for one in value]
        case _:
            return value
