"""Notices that the connection to Temporal was lost, also for a moment in which nothing was due.

The SDK's worker goes on by itself with whatever answers at the address next, and tells nobody. So one call waits for news of the node's own
workflow for as long as Temporal lets it. It costs three calls a minute, and fails as soon as the server is gone.
"""

import asyncio
from datetime import timedelta
from typing import Final

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import HistoryEventFilterType
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, GetWorkflowExecutionHistoryRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from proto.temporal.names import node_workflow_id

WAITS: Final = timedelta(seconds=90)
"""Longer than a server holds such a call."""
LOOK_AGAIN: Final = 1.0
LONGEST_PAUSE: Final = 10.0
"""Seconds, while the node has no workflow, or Temporal asks for fewer calls; the pauses grow."""
_GONE: Final = frozenset(
    {RPCStatusCode.UNAVAILABLE, RPCStatusCode.CANCELLED, RPCStatusCode.INTERNAL, RPCStatusCode.UNKNOWN}
)


async def until_lost(client: Client, node: str) -> str:
    """Return why a call has failed as one does whose server is gone."""
    request = GetWorkflowExecutionHistoryRequest(
        namespace=client.namespace,
        execution=WorkflowExecution(workflow_id=node_workflow_id(node)),
        wait_new_event=True,
        history_event_filter_type=HistoryEventFilterType.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT,
        skip_archival=True,
    )
    pause = LOOK_AGAIN
    while True:
        try:
            page = await client.workflow_service.get_workflow_execution_history(request, retry=False, timeout=WAITS)
        except RPCError as error:
            if error.status in _GONE:
                return error.message
            request.next_page_token = b""
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)
        except RuntimeError as error:  # the SDK's core could not connect
            return str(error)
        else:
            request.next_page_token, pause = page.next_page_token, LOOK_AGAIN
            if page.history.events:  # the run has closed: the next call waits for the newest one
                request.next_page_token = b""
                await asyncio.sleep(LOOK_AGAIN)


async def until_there(client: Client) -> None:
    """Wait until Temporal answers."""
    request = DescribeNamespaceRequest(namespace=client.namespace)
    while True:
        try:
            await client.workflow_service.describe_namespace(
                request, retry=False, timeout=timedelta(seconds=LOOK_AGAIN * 5)
            )
        except (RPCError, RuntimeError):
            await asyncio.sleep(LOOK_AGAIN)
        else:
            return
