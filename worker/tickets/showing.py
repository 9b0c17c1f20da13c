"""What a run does with its ticket: it shows it with each activity, passes it on, and gives it up when it completes.

An interceptor, so that no workflow code has to think of it. A header is no command: a replay neither reads nor makes one. Local
activities show none; they run inside the workflow task of this very process, and only read.

A run that does not lead its workflow (any more) refuses Updates: whoever sends one to Temporal would be answered, and what it
changed would be lost when the node hands the pod back. No replay validates an Update, and a rejected one is in no history.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NoReturn

import structlog
from temporalio import workflow
from temporalio.exceptions import ApplicationError
from temporalio.worker import (
    ContinueAsNewInput,
    ExecuteWorkflowInput,
    HandleQueryInput,
    HandleUpdateInput,
    Interceptor,
    StartActivityInput,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
    WorkflowOutboundInterceptor,
)

from proto.temporal.names import WHY_NOT
from proto.temporal.node import NodeStart
from proto.temporal.operator import Rejection
from proto.temporal.pod import PodStart
from proto.temporal.ticket import UNTICKETED, Ticket
from worker.tickets.held import Verdict
from worker.tickets.seal import HEADER, TicketSeal
from worker.tickets.tickets import Tickets

NOT_LEADING: Final = Rejection(
    "LedByNode",
    "this run does not lead the pod: Temporal was away, and the node leads it until it is handed back. Use the commands of "
    "tempolet on the node, which reach whoever leads",
)

_log = structlog.get_logger(__name__)


class ShowingTickets(Interceptor):
    """Installs it in every workflow."""

    def __init__(self, tickets: Tickets, seal: TicketSeal) -> None:
        self._tickets, self._seal = tickets, seal

    def workflow_interceptor_class(self, input: WorkflowInterceptorClassInput) -> type[WorkflowInboundInterceptor]:  # noqa: A002, ARG002 - the SDK's names
        """Return the class for a workflow's runs."""
        tickets, seal = self._tickets, self._seal

        class Run(_Run):
            def init(self, outbound: WorkflowOutboundInterceptor) -> None:
                self.tickets, self.outbound = tickets, _Commands(outbound, tickets, seal)
                super().init(self.outbound)

        return Run


class _Run(WorkflowInboundInterceptor):
    tickets: Tickets
    outbound: "_Commands"
    has_begun = False

    async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:  # noqa: A002 - the SDK's name
        self.outbound.ticket = ticket_of(input.args)
        self.has_begun = True
        outcome = await super().execute_workflow(input)  # continue-as-new raises
        if not workflow.unsafe.is_replaying():
            info = workflow.info()
            self.tickets.complete(info.workflow_id, self.outbound.ticket, info.run_id)
        return outcome

    def handle_update_validator(self, input: HandleUpdateInput) -> None:  # noqa: A002 - the SDK's name
        if not self._leads():
            raise ApplicationError(NOT_LEADING.message, type=NOT_LEADING.reason, non_retryable=True)
        super().handle_update_validator(input)

    async def handle_query(self, input: HandleQueryInput) -> Any:  # noqa: A002 - the SDK's name
        if input.query == WHY_NOT and not self._leads():
            return NOT_LEADING
        return await super().handle_query(input)

    def _leads(self) -> bool:
        """Report whether the run may act; what it holds is known once it has begun."""
        info = workflow.info()
        held = self.tickets.held(info.workflow_id)
        passes = held is not None and held.verdict(self.outbound.ticket, info.run_id) is Verdict.PASSES
        return passes or not self.has_begun


class _Commands(WorkflowOutboundInterceptor):
    def __init__(self, following: WorkflowOutboundInterceptor, tickets: Tickets, seal: TicketSeal) -> None:
        super().__init__(following)
        self._tickets, self._seal = tickets, seal
        self.ticket = UNTICKETED

    def start_activity(self, input: StartActivityInput) -> workflow.ActivityHandle[Any]:  # noqa: A002 - the SDK's name
        if self.ticket.incarnation and input.activity_id and not workflow.unsafe.is_replaying():
            sealed = self._seal.sealed(self.ticket, workflow.info().workflow_id, input.activity_id)
            input.headers = {**input.headers, HEADER: sealed}
        return super().start_activity(input)

    def continue_as_new(self, input: ContinueAsNewInput) -> NoReturn:  # noqa: A002 - the SDK's name
        if not workflow.unsafe.is_replaying():
            input.args = [self._with_newer_ticket(one) for one in input.args]
        super().continue_as_new(input)

    def _with_newer_ticket(self, start: Any) -> Any:
        """Give the next run the ticket that was drawn since this one began."""
        info = workflow.info()
        held = self._tickets.held(info.workflow_id)
        if not isinstance(start, PodStart | NodeStart) or held is None or not held.is_earlier(self.ticket, info.run_id):
            return start
        try:
            return replace(start, ticket=self._tickets.draw(info.workflow_id))
        except OSError as error:
            _log.warning("no ticket can be drawn; the run keeps its own", workflow=info.workflow_id, err=str(error))
            return start


def ticket_of(arguments: Sequence[Any]) -> Ticket:
    """Return the ticket in a run's input."""
    return arguments[0].ticket if arguments and isinstance(arguments[0], PodStart | NodeStart) else UNTICKETED
