"""What readers of the node's cache learn of a pod."""

from datetime import datetime

from kubernetes.client.models.v1_pod_status import V1PodStatus

from proto.pod_snapshot import ContainerSnapshot, PodSnapshot
from proto.temporal.activities.requests import StartContainer
from proto.temporal.names import PodWorkflowId
from proto.temporal.pod import PodStart
from workflows.decide.ending.grace import end_awaited_until
from workflows.decide.eviction.local_storage import watched_limits
from workflows.decide.situation import Situation
from workflows.decide.status.status import PodSummary
from workflows.decide.steps.claims import may_have_claims
from workflows.decide.steps.termination import is_released
from workflows.decide.volumes.refresh import watched_objects


def snapshot(start: PodStart, situation: Situation, status: V1PodStatus, line: PodSummary) -> PodSnapshot:
    """Copy what readers of the node's cache need."""
    observed, pod, pending = situation.observed, situation.key, situation.observed.resize_pending
    eviction, until = observed.eviction, end_awaited_until(situation)
    return PodSnapshot(
        workflow_id=str(PodWorkflowId(start.node, pod.namespace, pod.name, pod.uid)),
        node=start.node,
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        source=start.source,
        path=start.path,
        lifecycle=observed.lifecycle.value,
        phase=line.phase,
        ready=line.ready,
        reason=line.reason,
        message=line.message,
        restarts=line.restarts,
        started_at=rfc3339(observed.started_at),
        updated_at=rfc3339(situation.now),
        deleting=observed.deletion is not None,
        released=is_released(situation),
        may_have_claims=may_have_claims(situation),
        sandbox_id=observed.sandbox.sandbox_id if observed.sandbox else "",
        sandbox_ready=bool(observed.sandbox and observed.sandbox.ready),
        containers={
            name: ContainerSnapshot(facts.container_id, facts.state.value if facts.state else "", facts.attempt)
            for name, facts in observed.containers.items()
        },
        ticket=start.ticket,
        pod=start.pod,
        objects=watched_objects(situation),
        storage_limits=watched_limits(situation),
        eviction_reason=eviction.reason if eviction else "",
        eviction_message=eviction.message if eviction else "",
        event_annotations=eviction.annotations if eviction else {},
        end_awaited_until=until.isoformat() if until else "",
        resize_cause=pending.cause if pending else "",
        resize_asked=pending.asked if pending else {},
        status=status.model_dump(by_alias=True, exclude_none=True, mode="json"),
        under_way=tuple(situation.busy),
        ends_awaited=tuple(
            one.container["name"]
            for one in situation.busy.values()
            if isinstance(one, StartContainer) and one.end_within
        ),
    )


def rfc3339(time: datetime | None) -> str:
    """Format a time as the API does."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ") if time else ""
