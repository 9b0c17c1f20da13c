"""What is known of a pod when its workflow begins: how its source listed it.

The API may already show an end, a deletion or conditions of others, and this node may have rejected the pod. Then
nothing of it is started, and what an earlier run may have left on the node is found and removed
(pkg/kubelet/pod_workers.go UpdatePod, kubelet.go HandlePodAdditions). A pod with a start time was here before, and
Temporal has lost its history: the runtime is read first, and no status is published until then, just as a restarted
kubelet publishes none before its first relist (pod_workers.go podWorkerLoop, GetNewerThan).
"""

from datetime import datetime
from typing import Final

from kubernetes.client.models.v1_pod_spec import V1PodSpec

from proto.kubernetes.pod_containers import every_container
from proto.temporal.pod import ContainerFacts, Lifecycle, Observed, PodJson, PodStart
from proto.temporal.pod_inputs import Deletion, Ended, FirstSight
from workflows.decide.ending.grace import pod_grace
from workflows.decide.lifecycle.admission import reject
from workflows.decide.steps.termination import prepare_termination
from workflows.decide.versions import RESTARTS_COUNT_ON

DELETED: Final = "PodDeleted"
DELETED_MESSAGE: Final = "its object was deleted in the API"


def initially_observed(start: PodStart, spec: V1PodSpec, now: datetime) -> Observed:
    """Return what is known of a pod whose workflow begins."""
    observed = Observed(started_at=now)
    if (seen := start.first_sight) is None:
        return observed
    observed.started_at = seen.started_at or now
    observed.unseen = observed.runtime_stale = seen.started_at is not None
    observed.given_conditions = dict(seen.conditions)
    if seen.ended:
        has_ended(observed, seen.ended)
    elif seen.rejected:
        reject(observed, seen.rejected, now)
    if seen.deleted:
        start_deleted(observed, seen, spec, now)
    return observed


def observed_again(before: Observed, pod: PodJson, now: datetime, behaviour: int) -> Observed:
    """Return what is known of a pod that starts again under its UID, as its source lists it now.

    Each container that ever ran counts it as a restart (kuberuntime_container.go startContainer).
    """
    again = Observed(started_at=now, heard=before.heard, requests=before.requests)
    if behaviour >= RESTARTS_COUNT_ON:
        ran = {name: facts for name, facts in before.containers.items() if facts.container_id or facts.attempt}
        again.containers = {
            one["name"]: ContainerFacts(attempt=facts.attempt + bool(facts.container_id))
            for one in every_container(pod["spec"])
            if (facts := ran.get(one["name"]))
        }
    return again


def start_deleted(observed: Observed, seen: FirstSight, spec: V1PodSpec, now: datetime) -> None:
    """Record that the pod was deleted before anything of it began."""
    observed.deletion = Deletion(now, pod_grace(spec, seen.grace), DELETED, DELETED_MESSAGE)
    prepare_termination(observed)


def has_ended(observed: Observed, ended: Ended) -> None:
    """Record that the API shows a final phase; ignored if the pod is terminating, or one is recorded."""
    if observed.ended or observed.lifecycle is not Lifecycle.SYNC:
        return
    observed.ended = ended
    prepare_termination(observed)
