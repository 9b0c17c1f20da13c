"""Asks Temporal what it has of a workflow: its newest run, and the run that the node knows."""

from datetime import UTC, datetime, timedelta
from typing import Final

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.api.workflowservice.v1 import (
    DescribeNamespaceRequest,
    DescribeWorkflowExecutionRequest,
    GetWorkflowExecutionHistoryReverseRequest,
)
from temporalio.service import RPCError, RPCStatusCode

from worker.host.temporal.first_look import FirstLook
from worker.stand_in.comparing.judgement import Seen
from worker.stand_in.journal.kept import Place
from worker.temporal.executions import is_open

CALL_LIMIT: Final = timedelta(seconds=10)
MOST_EVENTS: Final = 200
"""Of a history's end, that are read to find the last decision of this node; one that lies further back is not looked for."""


class Looking:
    """What Temporal has, asked within the budget of the process's calls."""

    def __init__(self, first: FirstLook) -> None:
        self._first, self._client, self._budget = first, first.client, first.budget

    async def namespace_id(self) -> str:
        """Return the id of the namespace, which another one of its name does not have; raises RPCError."""
        request = DescribeNamespaceRequest(namespace=self._client.namespace)
        async with self._budget.call():
            answer = await self._client.workflow_service.describe_namespace(request, retry=True, timeout=CALL_LIMIT)
        return answer.namespace_info.id

    async def open_pods(self) -> set[str] | None:
        """Return the workflows of this node's pods that visibility has as open; None if it does not answer."""
        return await self._first.open_pods()

    async def see(self, workflow_id: str, place: Place) -> Seen:
        """Look at a workflow; raises RPCError."""
        found = await self._first.describe(workflow_id)
        if found is None:
            return Seen(is_known=False)
        newest = found.workflow_execution_info
        known = newest if newest.execution.run_id == place.run_id else await self._run(workflow_id, place.run_id)
        if known is None:
            return Seen(is_open=is_open(newest.status))
        is_going, length = is_open(newest.status), known.history_length
        if place.at is None or not place.length <= length < place.length + MOST_EVENTS:
            return Seen(is_open=is_going, length=length)
        return Seen(is_open=is_going, length=length, written=await self._written(workflow_id, place, length))

    async def _run(self, workflow_id: str, run_id: str) -> WorkflowExecutionInfo | None:
        """Describe an older run; None if Temporal does not have it."""
        execution = WorkflowExecution(workflow_id=workflow_id, run_id=run_id)
        request = DescribeWorkflowExecutionRequest(namespace=self._client.namespace, execution=execution)
        try:
            async with self._budget.call():
                answer = await self._client.workflow_service.describe_workflow_execution(
                    request, retry=True, timeout=CALL_LIMIT
                )
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return None
            raise
        return answer.workflow_execution_info

    async def _written(self, workflow_id: str, place: Place, length: int) -> datetime | None:
        """Return when the event at the place was written; None if it is not there any more."""
        request = GetWorkflowExecutionHistoryReverseRequest(
            namespace=self._client.namespace,
            execution=WorkflowExecution(workflow_id=workflow_id, run_id=place.run_id),
            maximum_page_size=length - place.length + 1,
        )
        while True:
            async with self._budget.call():
                page = await self._client.workflow_service.get_workflow_execution_history_reverse(
                    request, retry=True, timeout=CALL_LIMIT
                )
            for event in page.history.events:
                if event.event_id == place.length:
                    return event.event_time.ToDatetime(tzinfo=UTC)
            if not page.next_page_token or not page.history.events:
                return None
            request.next_page_token = page.next_page_token
