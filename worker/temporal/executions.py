"""Lists and reads workflow executions with their status as a number, also one that the SDK does not know.

The SDK's own calls raise ValueError for a status newer than its enum (8, paused, with 1.35), so one paused workflow would end
every list that it is in. Used by the poller, the worker and the commands. An unknown status counts as open: a pod whose
workflow is taken for closed would be started again, or removed.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from temporalio.api.common.v1 import WorkflowExecution as ExecutionKey
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.enums.v1 import WorkflowExecutionStatus as Status
from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.api.workflowservice.v1 import (
    DescribeWorkflowExecutionRequest,
    DescribeWorkflowExecutionResponse,
    GetWorkflowExecutionHistoryRequest,
    GetWorkflowExecutionHistoryReverseRequest,
    ListWorkflowExecutionsRequest,
)
from temporalio.client import Client
from temporalio.converter import WorkflowSerializationContext
from temporalio.service import RPCError, RPCStatusCode

OPEN: Final = "CloseTime IS NULL"
"""Part of a query. `ExecutionStatus = 'Running'` leaves out paused workflows, and older servers refuse 'Paused'."""
PAUSED: Final = int(Status.WORKFLOW_EXECUTION_STATUS_PAUSED)
COMPLETED: Final = int(Status.WORKFLOW_EXECUTION_STATUS_COMPLETED)
_CLOSED: Final = frozenset(
    {
        COMPLETED,
        int(Status.WORKFLOW_EXECUTION_STATUS_FAILED),
        int(Status.WORKFLOW_EXECUTION_STATUS_CANCELED),
        int(Status.WORKFLOW_EXECUTION_STATUS_TERMINATED),
        int(Status.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW),
        int(Status.WORKFLOW_EXECUTION_STATUS_TIMED_OUT),
    }
)
HELD_BY_A_WORKER: Final = frozenset(
    {
        PendingActivityState.PENDING_ACTIVITY_STATE_STARTED,
        PendingActivityState.PENDING_ACTIVITY_STATE_PAUSE_REQUESTED,
    }
)
"""States of an activity's attempt that a worker has; a pause takes effect when the attempt ends."""
_CALL_LIMIT: Final = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class Execution:
    """One run of a workflow, as visibility lists it."""

    id: str
    run_id: str
    workflow_type: str
    status: int
    start_time: datetime

    @property
    def is_open(self) -> bool:
        """Report whether it has not closed."""
        return is_open(self.status)

    @property
    def is_paused(self) -> bool:
        """Report whether an operator has paused it."""
        return self.status == PAUSED


@dataclass(frozen=True, slots=True)
class NewestRun:
    """The newest run of a workflow, and its input; to read it needs no worker, and no code that can replay the run."""

    run_id: str = ""
    """Empty if there is none."""
    status: int = 0
    start: Any = None
    """Its input; None if it cannot be read."""
    failed_tasks: int = 0
    """So many of its workflow tasks have failed in a row."""

    @property
    def is_open(self) -> bool:
        """Report whether it goes on."""
        return bool(self.run_id) and is_open(self.status)


def is_open(status: int) -> bool:
    """Report whether a status is not one of a closed run."""
    return status not in _CLOSED


def status_word(status: int) -> str:
    """Return a status in words, for example terminated."""
    name = next((name for name, number in Status.items() if number == status), str(status))
    return name.removeprefix("WORKFLOW_EXECUTION_STATUS_").lower().replace("_", " ")


async def list_executions(client: Client, query: str, *, limit: timedelta = _CALL_LIMIT) -> AsyncIterator[Execution]:
    """List what visibility has for a query; `limit` is for each page. Raises RPCError."""
    token = b""
    while True:
        request = ListWorkflowExecutionsRequest(namespace=client.namespace, query=query, next_page_token=token)
        page = await client.workflow_service.list_workflow_executions(request, retry=True, timeout=limit)
        for one in page.executions:
            yield _execution(one)
        token = page.next_page_token
        if not token:
            return


async def describe_execution(
    client: Client, workflow_id: str, *, limit: timedelta = _CALL_LIMIT
) -> DescribeWorkflowExecutionResponse:
    """Describe the newest run of a workflow; raises RPCError."""
    request = DescribeWorkflowExecutionRequest(
        namespace=client.namespace, execution=ExecutionKey(workflow_id=workflow_id)
    )
    return await client.workflow_service.describe_workflow_execution(request, retry=True, timeout=limit)


async def newest_run(client: Client, workflow_id: str, shape: type, *, limit: timedelta) -> NewestRun:
    """Look at the newest run, whose input is of this type; raises RPCError."""
    try:
        described = await describe_execution(client, workflow_id, limit=limit)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return NewestRun()
        raise
    info = described.workflow_execution_info
    start = await _input(client, info.execution, shape, limit)
    return NewestRun(info.execution.run_id, int(info.status), start, failed_tasks(described))


def failed_tasks(described: DescribeWorkflowExecutionResponse) -> int:
    """Return how many workflow tasks of a run have failed in a row."""
    return max(described.pending_workflow_task.attempt - 1, 0)


async def _input(client: Client, run: ExecutionKey, shape: type, limit: timedelta) -> Any:
    """Read a run's input; raises RPCError."""
    request = GetWorkflowExecutionHistoryRequest(namespace=client.namespace, execution=run, maximum_page_size=1)
    page = await client.workflow_service.get_workflow_execution_history(request, retry=True, timeout=limit)
    began = page.history.events[0].workflow_execution_started_event_attributes
    context = WorkflowSerializationContext(namespace=client.namespace, workflow_id=run.workflow_id)
    try:
        (start,) = await client.data_converter.with_context(context).decode(began.input.payloads, [shape])
    except Exception:  # noqa: BLE001 - a stranger may have started it
        return None
    return start if isinstance(start, shape) else None


async def last_event_time(client: Client, workflow_id: str, *, limit: timedelta = _CALL_LIMIT) -> datetime:
    """Return when the last event of a workflow's newest run was written, by Temporal's clock; raises RPCError."""
    request = GetWorkflowExecutionHistoryReverseRequest(
        namespace=client.namespace, execution=ExecutionKey(workflow_id=workflow_id), maximum_page_size=1
    )
    page = await client.workflow_service.get_workflow_execution_history_reverse(request, retry=True, timeout=limit)
    return page.history.events[0].event_time.ToDatetime(tzinfo=UTC)


def _execution(info: WorkflowExecutionInfo) -> Execution:
    return Execution(
        id=info.execution.workflow_id,
        run_id=info.execution.run_id,
        workflow_type=info.type.name,
        status=int(info.status),
        start_time=info.start_time.ToDatetime(tzinfo=UTC),
    )
