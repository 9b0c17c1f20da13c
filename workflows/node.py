"""NodeWorkflow: the durable form of the loop that manages a node's images and its exclusive hardware (`loops/node_loop.py`).

Each node has one such workflow, with the id `node/<node>`, for as long as the node exists. While there is nothing to do,
the history does not grow. Its Update is answered once the node has decided; the run does not continue as new before.
"""

from collections.abc import Sequence

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from proto.temporal import names
from proto.temporal.node import NodeStart, NodeStatus
from proto.temporal.operator import Rejection
from workflows.decide.refusal import Refusal
from workflows.decide.versions import NODE_ANSWERS_ENCRYPTED
from workflows.loops.node_loop import REQUESTS, NodeLoop
from workflows.received import MessageRefused, read, shortened
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

    @workflow.update(dynamic=True)
    async def requested(self, name: str, values: Sequence[RawValue]) -> None:
        """Do what the node's poller asks; fails with why a pod is rejected."""
        refuse(await self.loop.request(read(values, REQUESTS.get(name))))

    @requested.validator
    def refuse_request(self, name: str, values: Sequence[RawValue]) -> None:
        """Reject a malformed request, and one that is not possible, before the history stores it."""
        try:
            refusal = self.loop.refusal(read(values, REQUESTS.get(name)))
        except MessageRefused as refused:
            raise ApplicationError(
                f"the request {shortened(name)} is refused: {refused}", type="Malformed", non_retryable=True
            ) from None
        refuse(refusal)

    @workflow.query(name=names.WHY_NOT, description="why an Update would be rejected")
    def why_not(self, name: str, value: RawValue) -> Rejection | None:
        """Return why an Update would be rejected; None if it would be accepted. Asking leaves nothing in the history."""
        refusal = self.loop.refusal(read([value], REQUESTS.get(name)))
        return Rejection(refusal.reason, refusal.message) if refusal else None

    @workflow.query(
        name=names.NODE_STATUS,
        description="the images' disk, what was removed and why, what is prepulled, who has which hardware",
    )
    def node_status(self) -> NodeStatus:
        """Return the state of the images and the ledger of hardware."""
        return self.loop.node_status()


def refuse(refusal: Refusal | None) -> None:
    """Reject a request if there is a reason; raises ApplicationError."""
    if refusal:
        raise ApplicationError(refusal.message, type=refusal.reason, non_retryable=True)
