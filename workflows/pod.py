"""PodWorkflow: the durable form of one pod's life (`loops/pod_loop.py`).

An Update is rejected by the validator before it is recorded in the history. Its handler queues the request, answers what it
will do, and awaits nothing, so that none is running at continue-as-new. Both take raw values, so that a malformed request
is refused like any other.
"""

from collections.abc import Sequence
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from proto.temporal import names
from proto.temporal.operator import Explanation, Rejection
from proto.temporal.pod import PodOutcome, PodStart
from workflows.decide.refusal import Refusal
from workflows.decide.versions import ANSWERS_ENCRYPTED, SHORT_RUNS
from workflows.loops.operator_requests import REQUESTS
from workflows.loops.pod_loop import PodLoop
from workflows.received import MessageRefused, read, shortened
from workflows.signalled import Signalled
from workflows.temporal_driver import TemporalPodDriver


@workflow.defn(name=names.POD_WORKFLOW)
class PodWorkflow(Signalled):
    """The workflow of one pod."""

    loop: PodLoop

    @workflow.init
    def __init__(self, start: PodStart) -> None:
        driver = TemporalPodDriver(
            encrypted=start.behaviour >= ANSWERS_ENCRYPTED, short_run=start.behaviour >= SHORT_RUNS
        )
        self.loop = PodLoop(start, driver)

    @workflow.run
    async def run(self, start: PodStart) -> PodOutcome:  # noqa: ARG002 - Temporal gives the input to both
        """Run the pod as its source wants it, until it is deleted and gone."""
        return await self.loop.run()

    @workflow.update(dynamic=True)
    def requested(self, name: str, values: Sequence[RawValue]) -> Any:
        """Queue a request and answer what it will do; it may have become impossible since its validation."""
        answer = self.loop.request(name, read_request(name, values))
        refuse(answer if isinstance(answer, Refusal) else None)
        return answer

    @requested.validator
    def refuse_request(self, name: str, values: Sequence[RawValue]) -> None:
        """Reject a malformed request, and one that is not possible, before the history stores it."""
        try:
            refusal = self.loop.refusal(name, read_request(name, values))
        except MessageRefused as refused:
            self.loop.refused_requests += 1
            why = f"the request {shortened(name)} is refused: {refused}; use the commands of tempolet"
            raise ApplicationError(why, type="Malformed", non_retryable=True) from None
        refuse(refusal)

    @workflow.query(name=names.WHY_NOT, description="why an Update would be rejected")
    def why_not(self, name: str, value: RawValue) -> Rejection | None:
        """Return why an Update would be rejected; None if it would be accepted. Asking leaves nothing in the history."""
        refusal = self.loop.refusal(name, read_request(name, [value]))
        return Rejection(refusal.reason, refusal.message) if refusal else None

    @workflow.query(name=names.EXPLAIN, description="what the pod waits for, and what would happen next")
    def explain(self) -> Explanation:
        """Explain what the pod waits for and what would happen next."""
        return self.loop.explain()

    @workflow.query(name=names.POD_STATUS, description="the pod's status, as the API shows it")
    def pod_status(self) -> dict[str, Any]:
        """Return V1PodStatus as JSON."""
        return self.loop.pod_status()


def read_request(name: str, values: Sequence[RawValue]) -> Any:
    """Read a request; raises MessageRefused."""
    request = REQUESTS.get(name)
    return read(values, request.shape if request else None)


def refuse(refusal: Refusal | None) -> None:
    """Reject an Update if there is a reason; raises ApplicationError."""
    if refusal:
        raise ApplicationError(refusal.message, type=refusal.reason, non_retryable=True)
