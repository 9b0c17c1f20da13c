"""Publishes a pod's state: search attributes, the UI's card, and the node's cache.

Nothing is decided here, and the history grows only by search attributes that changed. The cache is written outside the
workflow by an extern function that the worker installs (`worker/host/pod_cache.py`), and never during a replay.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Final

from kubernetes.client.models.v1_pod_status import V1PodStatus
from temporalio import workflow
from temporalio.common import SearchAttributeKey

from proto.pod_snapshot import ContainerSnapshot, PodSnapshot
from proto.temporal.activities.requests import StartContainer
from proto.temporal.names import PodWorkflowId
from proto.temporal.pod import PodStart
from workflows.card import card, strangers_words
from workflows.decide.operator.local_storage import watched_limits
from workflows.decide.situation import Situation
from workflows.decide.status.status import ORDINARY_WAITS, PodSummary, pod_summary
from workflows.decide.volumes.refresh import watched_objects

EXTERN: Final = "tempolet_publish_pod"
"""The extern function's name: (PodSnapshot) -> None."""

PHASE: Final = SearchAttributeKey.for_keyword("PodPhase")
READY: Final = SearchAttributeKey.for_keyword("PodReady")
REASON: Final = SearchAttributeKey.for_keyword("PodReason")
RESTARTS: Final = SearchAttributeKey.for_int("PodRestarts")


def announced() -> PodSummary:
    """Read the search attributes that the start of this workflow or its previous run set."""
    known = workflow.info().typed_search_attributes
    return PodSummary(
        phase=known.get(PHASE, "Pending"),
        ready=known.get(READY, "False") == "True",
        reason=known.get(REASON, ""),
        restarts=known.get(RESTARTS, 0),
    )


def publish(
    start: PodStart, situation: Situation, status: V1PodStatus, before: PodSummary, *, refused_requests: int
) -> PodSummary:
    """Publish the pod's state; returns what the search attributes then say."""
    line = pod_summary(situation, status)
    strangers = strangers_words(situation.observed.dropped, refused_requests)
    workflow.set_current_details(card(status, line, situation.busy) + strangers)
    write: Callable[[PodSnapshot], None] | None = workflow.extern_functions().get(EXTERN)
    if write is not None and not workflow.unsafe.is_replaying():
        write(snapshot(start, situation, status, line))
    return announce(line, before)


def announce(line: PodSummary, before: PodSummary) -> PodSummary:
    """Upsert the search attributes that changed; an ordinary wait is not shown as a reason."""
    after = replace(line, reason="" if line.reason in ORDINARY_WAITS else line.reason, message="")
    updates = [
        key.value_set(new)
        for key, old, new in (
            (PHASE, before.phase, after.phase),
            (READY, str(before.ready), str(after.ready)),
            (REASON, before.reason, after.reason),
        )
        if old != new
    ]
    if before.restarts != after.restarts:
        workflow.upsert_search_attributes([*updates, RESTARTS.value_set(after.restarts)])
    elif updates:
        workflow.upsert_search_attributes(updates)
    return after


def snapshot(start: PodStart, situation: Situation, status: V1PodStatus, line: PodSummary) -> PodSnapshot:
    """Copy what readers of the node's cache need."""
    observed, pod = situation.observed, situation.key
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
