"""The gate before every activity: it compares the ticket that the activity shows with what the node holds.

What another run has scheduled is refused before anything is looked at or done, for good: the run has the refusal as the
failure of its action. What a run has scheduled whose pod something else leads by now waits until it is cancelled. A
refusal stops no container, because nothing of ours acts on one without an activity.
"""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final, NoReturn

import structlog
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from activities.execution.attempt import Attempt, Cancellation, current_attempt
from activities.execution.errors import retryable_failure
from activities.execution.present_attempts import PresentAttempts
from proto.temporal.failure_types import TICKET_REFUSED
from proto.temporal.ticket import UNTICKETED, Ticket
from worker.tickets.held import Verdict
from worker.tickets.seal import HEADER, TicketSeal, TicketUnreadable
from worker.tickets.tickets import Tickets

LONGEST_PAUSE: Final = timedelta(seconds=20)
"""Between two heartbeats of an activity that waits: a cancellation arrives only with one."""
_COUNTED: Final = 1024
"""Workflows whose refusals are counted."""

_log: Final = structlog.get_logger(__name__)


class Refusals:
    """Counts and logs what is refused."""

    def __init__(self, count: Callable[[], None], tell: Callable[[str, str], None]) -> None:
        """Take what counts each refusal in the metrics, and what is told the workflow and its run."""
        self._count, self._tell = count, tell
        self._by_workflow: dict[str, int] = {}

    def add(self, attempt: Attempt, why: str) -> None:
        """Count one; each time that the number of a workflow's refusals has doubled, log it."""
        self._count()
        workflow_id = attempt.workflow_id
        self._tell(workflow_id, attempt.asker[0])
        number = self._by_workflow.pop(workflow_id, 0) + 1
        self._by_workflow[workflow_id] = number
        if len(self._by_workflow) > _COUNTED:
            del self._by_workflow[next(iter(self._by_workflow))]
        if not number & (number - 1):
            _log.warning(
                "refused an activity that this node has not asked for",
                workflow=workflow_id,
                run=attempt.asker[0],
                activity=attempt.key,
                reason=why,
                refused=number,
            )


class TicketGate(Interceptor):
    """Wraps every activity; the outermost interceptor of those that act."""

    def __init__(self, tickets: Tickets, seal: TicketSeal, present: PresentAttempts, refusals: Refusals) -> None:
        self._tickets, self._seal, self._present, self._refusals = tickets, seal, present, refusals

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002 - the SDK's name
        """Wrap every activity."""
        return _Gated(next, self)

    def judge(self, input: ExecuteActivityInput, attempt: Attempt) -> tuple[Verdict, str]:  # noqa: A002 - the SDK's name
        """Judge an attempt, and say why it is refused; raises KeyMissing of `keys`."""
        workflow_id = attempt.workflow_id
        try:
            shown = self._shown(input, workflow_id, attempt.key)
        except TicketUnreadable as error:
            return Verdict.REFUSED, f"its ticket cannot be read: {error}"
        return self._tickets.judge(workflow_id, shown, attempt.asker[0]), (
            "its ticket is not the one of the pod as it runs now" if shown.incarnation else "it shows no ticket"
        )

    def _shown(self, input: ExecuteActivityInput, workflow_id: str, activity_id: str) -> Ticket:  # noqa: A002 - the SDK's name
        header = input.headers.get(HEADER)
        return UNTICKETED if header is None else self._seal.opened(header, workflow_id, activity_id)

    def refuse(self, attempt: Attempt, why: str) -> NoReturn:
        """Refuse an attempt: raises the failure that its workflow records."""
        self._refusals.add(attempt, why)
        raise ApplicationError(
            f"this node does not do {attempt.name} for this run: {why}. The run was not started by this node, or its pod "
            "was removed",
            type=TICKET_REFUSED,
            non_retryable=True,
            category=ApplicationErrorCategory.BENIGN,  # else the SDK would log each one
        )

    async def park(self, attempt: Attempt) -> NoReturn:
        """Wait until the attempt is cancelled."""
        pause = min(attempt.heartbeat_timeout / 3 if attempt.heartbeat_timeout else LONGEST_PAUSE, LONGEST_PAUSE)
        with self._present.one(attempt):
            try:
                while True:
                    attempt.say(*attempt.earlier)
                    await asyncio.sleep(pause.total_seconds())
            except asyncio.CancelledError:
                if Cancellation.CANCEL_REQUESTED in attempt.cancellation():
                    raise
                raise retryable_failure("Parked", "something else leads the pod") from None


class _Gated(ActivityInboundInterceptor):
    def __init__(self, following: ActivityInboundInterceptor, gate: TicketGate) -> None:
        super().__init__(following)
        self._gate = gate

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 - the SDK's name
        attempt = current_attempt()
        if attempt.is_local:
            return await super().execute_activity(input)
        verdict, why = self._gate.judge(input, attempt)
        if verdict is Verdict.REFUSED:
            self._gate.refuse(attempt, why)
        if verdict is Verdict.PARKED:
            await self._gate.park(attempt)
        return await super().execute_activity(input)
