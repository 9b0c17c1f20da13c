"""What Temporal has of this node's workflows, as of the moment before the worker asks for work.

Comparison, replay and take-over need the same facts. Until this node polls nothing goes on there, so each workflow is described once
for all three, and visibility is asked once: a start with 110 pods is the moment at which Temporal has most to do.
"""

import asyncio
from datetime import timedelta
from typing import Final

import structlog
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionResponse
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from proto.temporal.names import POD_WORKFLOW
from worker.temporal.call_budget import CallBudget
from worker.temporal.executions import OPEN, describe_execution, list_executions

FIRST_ANSWER: Final = timedelta(seconds=5)
"""If Temporal's visibility takes longer, only the workflows that this node knows by itself are looked at."""

_log: Final = structlog.get_logger(__name__)


class FirstLook:
    """One look at Temporal, within the budget of the process's calls."""

    def __init__(self, client: Client, node: str, budget: CallBudget) -> None:
        self.client, self.node, self.budget = client, node, budget
        self._described: dict[str, DescribeWorkflowExecutionResponse | None] = {}
        self._open: set[str] | None = None
        self._was_listed = False

    async def open_pods(self) -> set[str] | None:
        """Return the ids of this node's open pod workflows; None if visibility does not answer."""
        if not self._was_listed:
            self._open, self._was_listed = await self._list(), True
        return self._open

    async def describe(self, workflow_id: str) -> DescribeWorkflowExecutionResponse | None:
        """Describe the newest run of a workflow; None if there is none. Raises RPCError, also RuntimeError if it cannot connect."""
        if workflow_id not in self._described:
            self._described[workflow_id] = await self._describe(workflow_id)
        return self._described[workflow_id]

    async def _list(self) -> set[str] | None:
        query = f"WorkflowType = '{POD_WORKFLOW}' AND PodNode = '{self.node}' AND {OPEN}"
        try:
            async with asyncio.timeout(FIRST_ANSWER.total_seconds()), self.budget.call():
                return {execution.id async for execution in list_executions(self.client, query)}
        except (RPCError, RuntimeError, TimeoutError) as error:  # RuntimeError: the SDK's core could not connect
            _log.warning("visibility does not answer: only what this node knows itself is looked at", err=str(error))
            return None

    async def _describe(self, workflow_id: str) -> DescribeWorkflowExecutionResponse | None:
        try:
            async with self.budget.call():
                return await describe_execution(self.client, workflow_id)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return None
            raise
