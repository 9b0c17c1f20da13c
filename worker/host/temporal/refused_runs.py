"""Ends runs under the ids of this node's workflows that the gate has refused, or whose snapshots were.

Somebody else has started such a run, or the node has lost its ticket. It could do nothing, but it would keep the id: the poller would
take it for the pod's own run and signal it. Once it has ended, the poller starts a run of ours if a source lists the pod, and
that finds the containers by their labels.
"""

from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from functools import partial
from typing import Final

import structlog
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from proto.temporal.names import PodWorkflowId, node_workflow_id
from worker.daemon.background import in_background, repeat
from worker.temporal.call_budget import CallBudget
from worker.temporal.executions import describe_execution, is_open

EVERY: Final = timedelta(seconds=10)
REASON: Final = "tempolet: this run does not hold the ticket of its pod; its activities were refused"
_MOST: Final = 256
"""Runs that are remembered at a time."""

_log: Final = structlog.get_logger(__name__)


class RefusedRuns:
    """The refused runs of one node that may still be open; used on its event loop."""

    def __init__(self, client: Client, node: str, budget: CallBudget) -> None:
        self._client, self._node, self._budget = client, node, budget
        self._refused: set[tuple[str, str]] = set()

    def add(self, workflow_id: str, run_id: str) -> None:
        """Take a run with a refused activity or snapshot; one that is refused later is taken then."""
        if len(self._refused) < _MOST and self._is_ours(workflow_id):
            self._refused.add((workflow_id, run_id))

    async def look(self) -> None:
        """End those that are still open; if Temporal does not answer, the next look does."""
        for workflow_id, run_id in sorted(self._refused):
            try:
                await self._end(workflow_id, run_id)
            except RPCError as error:
                if error.status is not RPCStatusCode.NOT_FOUND:  # else it has ended meanwhile
                    _log.debug("a refused run cannot be ended", workflow=workflow_id, err=error.message)
                    return
            except RuntimeError:  # the SDK's core could not connect
                return
            self._refused.discard((workflow_id, run_id))

    async def _end(self, workflow_id: str, run_id: str) -> None:
        async with self._budget.call():
            newest = (await describe_execution(self._client, workflow_id)).workflow_execution_info
        if newest.execution.run_id != run_id or not is_open(newest.status):
            return
        async with self._budget.call():
            await self._client.get_workflow_handle(workflow_id, run_id=run_id).terminate(reason=REASON)
        _log.warning("ended a run that this node has not started", workflow=workflow_id, run=run_id)

    def _is_ours(self, workflow_id: str) -> bool:
        if workflow_id == node_workflow_id(self._node):
            return True
        try:
            return PodWorkflowId.parse(workflow_id).node == self._node
        except ValueError:
            return False


def ending_refused_runs(refused: RefusedRuns) -> AbstractAsyncContextManager[None]:
    """Look regularly while the block runs; without a refusal nothing is asked."""
    return in_background("refused runs", partial(repeat, EVERY, refused.look))
