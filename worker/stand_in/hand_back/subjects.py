"""What is handed back, a pod or the node's images: how its runs are started, and with what.

Everything else is the same for both (`handing_back.py`).
"""

from dataclasses import dataclass, replace
from typing import Any

from temporalio.common import TypedSearchAttributes

from proto.temporal import names
from proto.temporal.away import HandedBack, NodeHandedBack
from proto.temporal.names import PodWorkflowId
from proto.temporal.node import NodeStart
from proto.temporal.pod import PodStart
from worker.stand_in.journal.kept import Start, is_node
from worker.temporal.pod_attributes import initial_attributes, node_attributes
from workflows.decide.record.hand_back import next_node_start, next_start

State = HandedBack | NodeHandedBack
_DETAILS = "Handed back by the node after Temporal was away"


@dataclass(frozen=True, slots=True)
class Begin:
    """How the runs of a workflow are started."""

    workflow: str
    shape: type[PodStart] | type[NodeStart]
    """Of a run's input."""
    task_queue: str
    search_attributes: TypedSearchAttributes
    summary: str
    details: str


def begin_of(workflow_id: str) -> Begin:
    """Return how the runs of a workflow are started."""
    if is_node(workflow_id):
        node = workflow_id.partition("/")[2]
        queue = names.node_task_queue(node)
        return Begin(names.NODE_WORKFLOW, NodeStart, queue, node_attributes(node), f"node {node}", _DETAILS)
    pod = PodWorkflowId.parse(workflow_id)
    return Begin(
        names.POD_WORKFLOW,
        PodStart,
        names.node_task_queue(pod.node),
        initial_attributes(pod),
        f"{pod.namespace}/{pod.name} on {pod.node}",
        f"{_DETAILS}, pod UID `{pod.uid}`",
    )


def waiting(start: Start) -> Start:
    """Return the input of a run that is told its story first: its epoch is the one before."""
    before = replace(start.ticket, epoch=start.ticket.epoch - 1)
    return replace(start, ticket=before, under_way=()) if isinstance(start, PodStart) else replace(start, ticket=before)


def handed_on(start: Start, state: State) -> Start:
    """Return the input of the run that goes on with what is handed back, if another run cannot take it."""
    if isinstance(start, PodStart):
        assert isinstance(state, HandedBack)
        return next_start(start, state)
    assert isinstance(state, NodeHandedBack)
    return next_node_start(start, state)


def state_of(start: Start, **told: Any) -> State:
    """Return the signal that hands the state back; `told`: what it says of the story."""
    assert start.observed is not None
    if isinstance(start, PodStart):
        return HandedBack(observed=start.observed, pod=start.pod, under_way=start.under_way, **told)
    return NodeHandedBack(observed=start.observed, **told)
