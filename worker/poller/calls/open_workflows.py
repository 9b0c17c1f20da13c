"""What visibility lists as open on this node: pods, the node's own workflow, and workflows that nobody here has started.

Anybody with access to the namespace can start a workflow of our types on this node's queue, for example by the UI's "start
like this". Its id is not one of ours, so it is left alone and told, and never stops the others from being listed.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from proto.interventions import FOREIGN_WORKFLOW, Intervention
from proto.temporal.names import NODE_WORKFLOW, PodWorkflowId, node_workflow_id
from worker.temporal.executions import Execution
from worker.temporal.interventions import LONGEST


@dataclass(frozen=True, slots=True)
class OpenPod:
    """A pod whose workflow is open; its source and the path of its manifest if they are known."""

    workflow_id: str
    path: str = ""
    source: str = ""
    """file, http or api; empty if not known."""

    @property
    def id(self) -> PodWorkflowId:
        """The parts of the workflow id."""
        return PodWorkflowId.parse(self.workflow_id)


@dataclass(frozen=True, slots=True)
class OpenWorkflows:
    """The open workflows of one node, by their ids."""

    pods: tuple[str, ...] = ()
    node: bool = False
    """The node's own is open."""
    paused: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()


def sort_out(found: Iterable[Execution], node: str) -> OpenWorkflows:
    """Sort what visibility lists by whose it is."""
    pods: list[str] = []
    paused: list[str] = []
    foreign: list[str] = []
    own = False
    for one in found:
        if one.workflow_type == NODE_WORKFLOW and one.id == node_workflow_id(node):
            own = True
        elif one.workflow_type != NODE_WORKFLOW and is_pod_of(node, one.id):
            pods.append(one.id)
        else:
            foreign.append(one.id)
            continue
        if one.is_paused:
            paused.append(one.id)
    return OpenWorkflows(tuple(pods), own, tuple(paused), tuple(foreign))


def with_led(found: OpenWorkflows, led: Collection[str], node: str) -> OpenWorkflows:
    """Add what the worker leads: Temporal may not know of it yet, and it must not be taken for gone."""
    pods = sorted(one for one in led if one not in found.pods and is_pod_of(node, one))
    return replace(found, pods=(*found.pods, *pods), node=found.node or node_workflow_id(node) in led)


def is_pod_of(node: str, workflow_id: str) -> bool:
    """Report whether this is the id of a pod of this node."""
    try:
        return PodWorkflowId.parse(workflow_id).node == node
    except ValueError:
        return False


def told_foreign(workflow_id: str) -> Intervention:
    """Tell of a workflow that is not ours."""
    shown = workflow_id[:LONGEST]
    message = (
        "this open workflow claims to be one of this node, but has no id of its pods; it is not looked after. "
        f"Whoever started it may end it: `temporal workflow terminate --workflow-id {shown}`"
    )
    return Intervention(shown, FOREIGN_WORKFLOW, message)
