"""The node's own Updates to pods' workflows: delivered to whoever leads the pod, as an operator's are."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from temporalio.client import Client, WorkflowUpdateFailedError, WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.service import RPCError, RPCStatusCode

from activities.execution.attempt import NotDelivered
from proto.temporal import names
from proto.temporal.operator import EvictPod, PodEvicted, PodStops, Rejection, StopPod
from worker.delivery.deliveries import Deliveries
from worker.delivery.lead import LeadUnavailable, Message, Reply
from worker.delivery.workflow_updates import WorkflowPaused, new_number, rejection_of, send_update, why_not
from worker.temporal.call_budget import CallBudget

SOURCE: Final = "worker"
"""Who numbers them."""
ANSWERED_WITHIN: Final = timedelta(seconds=10)
_UPDATES: Final[Mapping[type, tuple[str, type]]] = {
    EvictPod: (names.EVICT_POD, PodEvicted),
    StopPod: (names.STOP_POD, PodStops),
}
"""The name and the answer of each."""
UNANSWERED: Final = (LeadUnavailable, NotDelivered, RPCError, RuntimeError)
"""What `ask` raises where nobody has answered."""
BY_THE_NODE: Final = ""
"""The operator in requests of the node itself."""
GONE: Final = Rejection("Gone", "the pod's workflow has ended")


class PodRequests:
    """Sends requests; used from one event loop."""

    def __init__(
        self, client: Client, budget: CallBudget, deliveries: Deliveries, *, reads_answers: bool = True
    ) -> None:
        """Take the client and the budget of the process's calls, and what knows who leads each pod.

        `reads_answers` is False in a process whose converter only sends (`worker/payloads/sending.py`).
        """
        self._client, self._budget, self._deliveries = client, budget, deliveries
        self._reads_answers = reads_answers

    async def ask(self, workflow_id: str, asked: EvictPod | StopPod) -> Rejection | None:
        """Send a request; returns why the pod rejects it. Raises UNANSWERED."""
        name, shape = _UPDATES[type(asked)]
        answer: Any = shape if self._reads_answers else Any
        asked = replace(asked, source=SOURCE, sequence=new_number())
        told = await self._deliveries.ask(
            Message(workflow_id, name, asked, SOURCE, asked.sequence),
            lambda: self._update(workflow_id, name, asked, answer),
            lambda said: self._deliveries.lead.update(said, answer),
        )
        return told.refusal if isinstance(told, Reply) else told

    async def _update(self, workflow_id: str, name: str, asked: EvictPod | StopPod, answer: Any) -> Rejection | None:
        handle = self._client.get_workflow_handle(workflow_id)
        try:
            async with self._budget.call(), asyncio.timeout(ANSWERED_WITHIN.total_seconds()):
                if rejection := await why_not(handle, asked, name):
                    return rejection
                await send_update(handle, asked, update=name, answer=answer)
        except WorkflowUpdateFailedError as error:
            return rejection_of(error)
        except (TimeoutError, WorkflowUpdateRPCTimeoutOrCancelledError) as error:
            raise NotDelivered(f"no answer of {workflow_id} within {ANSWERED_WITHIN.total_seconds():g} s") from error
        except WorkflowPaused as error:
            raise LeadUnavailable(f"workflow {error} is paused") from error
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return GONE
            raise
        return None
