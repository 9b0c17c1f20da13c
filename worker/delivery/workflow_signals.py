"""The signals of the worker's own loops to pods' workflows: numbered, and delivered to whoever leads the pod."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Final

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from activities.execution.attempt import NotDelivered
from proto.temporal.names import PROBE_VERDICT
from proto.temporal.signals import ObjectsChanged, PressureJudged, ProbeVerdict, StorageExceeded
from worker.delivery.deliveries import Deliveries
from worker.delivery.lead import Lead, LeadUnavailable, Message
from worker.temporal.call_budget import CallBudget
from worker.temporal.signal_numbers import SignalNumbers

SENDER: Final = "worker"
"""Who numbers them."""
_CALL_LIMIT: Final = timedelta(seconds=10)


class WorkflowSignals:
    """Sends signals; used from one event loop. A workflow that has ended needs none."""

    def __init__(self, client: Client, budget: CallBudget, numbers: SignalNumbers, lead: Lead) -> None:
        """Take the client and the budget of the process's calls, its numbers, and who may lead pods."""
        self._client, self._numbers = client, numbers
        self.budget = budget
        """Of all calls of the process."""
        self.deliveries = Deliveries(lead, is_away)

    async def send(
        self, workflow_id: str, name: str, signal: StorageExceeded | ObjectsChanged | PressureJudged
    ) -> None:
        """Send a signal; raises RPCError, RuntimeError and LeadUnavailable."""
        value = replace(signal, sequence=self._numbers.next(), sender=SENDER)
        message = Message(workflow_id, name, value, SENDER, value.sequence)
        await self.deliveries.send(message, lambda: self._signal(message), taken=None)

    async def tell_verdict(self, workflow_id: str, verdict: ProbeVerdict, tell: Callable[[], Awaitable[None]]) -> None:
        """Tell a probe's verdict, which has a number of its own, by `tell`, or to the worker; raises NotDelivered, too."""
        message = Message(workflow_id, PROBE_VERDICT, verdict, SENDER, verdict.sequence)
        try:
            await self.deliveries.send(message, tell, taken=None)
        except LeadUnavailable as error:
            raise NotDelivered(str(error)) from error

    async def _signal(self, message: Message) -> None:
        try:
            handle = self._client.get_workflow_handle(message.workflow_id)
            async with self.budget.call():
                await handle.signal(message.name, message.value, rpc_timeout=_CALL_LIMIT)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise


def is_away(error: Exception) -> bool:
    """Report whether a call failed because Temporal did not answer; a refusal for good is an answer."""
    if isinstance(error, RPCError):
        return error.status in _AWAY
    return isinstance(error, NotDelivered | RuntimeError)  # the latter by the SDK's core if it cannot connect


_AWAY: Final = frozenset(
    {
        RPCStatusCode.UNAVAILABLE,
        RPCStatusCode.DEADLINE_EXCEEDED,
        RPCStatusCode.RESOURCE_EXHAUSTED,
        RPCStatusCode.CANCELLED,
        RPCStatusCode.ABORTED,
        RPCStatusCode.UNKNOWN,
        RPCStatusCode.INTERNAL,
    }
)
