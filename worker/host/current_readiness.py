"""The readiness of containers in the node's status, also while the history does not have it yet.

A readiness probe that flaps is signalled to its workflow at growing intervals only (activities/probes/container_probes.py),
and not at all while Temporal is away. So each snapshot passes through here, and gets the newest result of each readiness
probe; a new result publishes the pod's last snapshot again. The API, `tempolet pods` and the node's API show it at once.
Only container statuses and the conditions Ready and ContainersReady change (pkg/kubelet/status/status_manager.go
SetContainerReadiness does the same).
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from proto.kubernetes.api_time import api_time
from proto.pod_snapshot import FINAL_PHASES, PodSnapshot, is_over
from proto.temporal.pod import PodKey
from workflows.decide.status.conditions import (
    CONTAINERS_READY,
    GATES_NOT_READY,
    INITIALIZED,
    NETWORK_READY,
    READY,
    Verdict,
    all_ready_but,
    gates_open,
    truth,
)
from workflows.decide.status.gates import OUR_OWN

Json = dict[str, Any]
Times = dict[str, tuple[str, str]]
"""Status and lastTransitionTime, by type of condition."""
_STATUSES: Final = ("initContainerStatuses", "containerStatuses")


@dataclass(slots=True)
class _Pod:
    """What is known of one pod."""

    published: PodSnapshot
    """By its workflow."""
    results: dict[str, bool] = field(default_factory=dict)
    """Of readiness probes, by container ID: those that `published` lacks."""
    times: Times = field(default_factory=dict)
    """Of what was shown last; empty while nothing but the workflow's snapshots was shown."""


class CurrentReadiness:
    """Stands between the workflows and the readers of snapshots; may be called from any thread."""

    def __init__(self, known: Iterable[PodSnapshot] = ()) -> None:
        """Take the snapshots of an earlier worker: a replay publishes nothing again."""
        self._pods = {one.uid: _Pod(one) for one in known}
        self._lock = threading.Lock()
        self._behind: Callable[[PodSnapshot], None] = _nowhere

    def pass_on(self, behind: Callable[[PodSnapshot], None]) -> None:
        """Set the function that gets each snapshot."""
        self._behind = behind

    def publish(self, snapshot: PodSnapshot) -> None:
        """Take a workflow's snapshot and pass it on with the newest readiness."""
        with self._lock:
            if is_over(snapshot):
                self._pods.pop(snapshot.uid, None)
                self._behind(snapshot)
                return
            pod = self._pods.setdefault(snapshot.uid, _Pod(snapshot))
            pod.published, pod.results = snapshot, lacking(snapshot, pod.results)
            self._show(pod)

    def probed(self, pod: PodKey, container_id: str, *, ready: bool, signalled: bool) -> None:
        """Take the result of a readiness probe; one that is signalled comes with the workflow's next snapshot."""
        with self._lock:
            known = self._pods.get(pod.uid)
            if known is None or (signalled and container_id not in known.results):
                return
            shown_before = known.results.get(container_id, _shown(known.published).get(container_id))
            known.results[container_id] = ready
            if ready is not shown_before:
                known.times = known.times or _times(known.published)
                self._show(known)

    def _show(self, pod: _Pod) -> None:
        shown = pod.published
        if pod.times:
            shown = with_readiness(shown, pod.results, pod.times, datetime.now(UTC))
            pod.times = _times(shown)
        self._behind(shown)


def lacking(snapshot: PodSnapshot, results: Mapping[str, bool]) -> dict[str, bool]:
    """Return the results of containers that the snapshot shows with another readiness."""
    shown = _shown(snapshot)
    return {one: ready for one, ready in results.items() if one in shown and shown[one] is not ready}


def with_readiness(snapshot: PodSnapshot, results: Mapping[str, bool], times: Times, now: datetime) -> PodSnapshot:
    """Return a snapshot with these results of readiness probes; `times` are those of what was shown last."""
    status = snapshot.status
    if status.get("phase") in FINAL_PHASES:
        return snapshot
    containers = {name: [_container(one, results) for one in status[name]] for name in _STATUSES if status.get(name)}
    verdicts = _verdicts(snapshot, containers)
    conditions = [
        _condition(one, verdicts[one["type"]], times.get(one["type"]), now) if one["type"] in verdicts else one
        for one in status.get("conditions") or ()
    ]
    ready = any(one["type"] == READY and one["status"] == "True" for one in conditions)
    return replace(snapshot, ready=ready, status={**status, **containers, "conditions": conditions})


def _container(status: Json, results: Mapping[str, bool]) -> Json:
    """Return a container's status with its result, if there is one and it runs."""
    result = results.get(_id(status))
    if result is None or not (status.get("state") or {}).get("running"):
        return status
    return {**status, "ready": result and bool(status.get("started"))}


def _verdicts(snapshot: PodSnapshot, containers: Mapping[str, list[Json]]) -> dict[str, Verdict]:
    """Judge Ready and ContainersReady, as the workflow does."""
    spec, init = snapshot.pod.get("spec"), containers.get("initContainerStatuses", ())
    if spec is None:  # of an earlier worker: a standalone node keeps no specs
        sidecars = {one["name"] for one in init if (one.get("state") or {}).get("running")}
    else:
        sidecars = {one["name"] for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"}
    lasting = [*(one for one in init if one["name"] in sidecars), *containers.get("containerStatuses", ())]
    all_ready = all_ready_but([one["name"] for one in lasting if not one.get("ready")])
    if not all_ready.holds:
        return {READY: all_ready, CONTAINERS_READY: all_ready}
    usable = {NETWORK_READY, INITIALIZED}
    found = snapshot.status.get("conditions") or ()
    known = {one["type"]: one["status"] for one in found if one["type"] in usable or one["type"] not in OUR_OWN}
    if spec is None and any(one.get("reason") == GATES_NOT_READY for one in found):
        return {CONTAINERS_READY: all_ready}  # which gates it has comes with the workflow's next snapshot
    gates = [one["conditionType"] for one in (spec or {}).get("readinessGates") or ()]
    return {READY: gates_open(gates, known), CONTAINERS_READY: all_ready}


def _condition(condition: Json, verdict: Verdict, before: tuple[str, str] | None, now: datetime) -> Json:
    """Return a condition as judged; its time changes only with its status."""
    status = truth(verdict.holds)
    kept = {name: value for name, value in condition.items() if name not in {"reason", "message"}}
    why = {"reason": verdict.reason, "message": verdict.message}
    since = before[1] if before and before[0] == status else api_time(now)
    return {**kept, "status": status, "lastTransitionTime": since, **{name: text for name, text in why.items() if text}}


def _times(snapshot: PodSnapshot) -> Times:
    found = snapshot.status.get("conditions") or ()
    return {one["type"]: (one["status"], one.get("lastTransitionTime") or "") for one in found}


def _shown(snapshot: PodSnapshot) -> dict[str, bool]:
    """Return the readiness of each container by its ID."""
    return {
        _id(one): bool(one.get("ready"))
        for field_name in _STATUSES
        for one in snapshot.status.get(field_name) or ()
        if one.get("containerID")
    }


def _id(status: Mapping[str, Any]) -> str:
    """Return a container's ID without the runtime's name."""
    return str(status.get("containerID") or "").rpartition("://")[2]


def _nowhere(_: PodSnapshot) -> None:
    """Drop a snapshot: nobody is set to get it yet."""
