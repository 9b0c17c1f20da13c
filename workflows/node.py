"""NodeWorkflow: the durable form of the loop that manages a node's images (`loops/node_loop.py`).

Each node has one such workflow, with the id `node/<node>`, for as long as the node exists. While there is nothing to do,
the history does not grow.
"""

from temporalio import workflow

from proto.temporal import names
from proto.temporal.node import NodeStart, NodeStatus
from workflows.decide.versions import NODE_ANSWERS_ENCRYPTED
from workflows.loops.node_loop import NodeLoop
from workflows.signalled import Signalled
from workflows.temporal_driver import TemporalDriver


@workflow.defn(name=names.NODE_WORKFLOW)
class NodeWorkflow(Signalled):
    """The workflow of one node."""

    loop: NodeLoop

    @workflow.init
    def __init__(self, start: NodeStart) -> None:
        self.loop = NodeLoop(start, TemporalDriver(encrypted=start.behaviour >= NODE_ANSWERS_ENCRYPTED))

    @workflow.run
    async def run(self, start: NodeStart) -> None:  # noqa: ARG002 - Temporal gives the input to both
        """Manage the node's images; never returns."""
        await self.loop.run()

    @workflow.query(name=names.NODE_STATUS, description="the images' disk, what was removed and why, what is prepulled")
    def node_status(self) -> NodeStatus:
        """Return the state of the images."""
        return self.loop.node_status()
