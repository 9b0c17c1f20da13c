"""Signals a workflow as fast as Temporal takes it, until stdin ends: a program of its own, as a stranger's is.

Prints how many signals were taken, and how many were refused with which status and cause.
"""

import asyncio
import json
import sys
from collections import Counter

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import ResourceExhaustedCause
from temporalio.api.errordetails.v1 import ResourceExhaustedFailure
from temporalio.api.workflowservice.v1 import SignalWorkflowExecutionRequest
from temporalio.client import Client
from temporalio.service import RPCError


async def main(address: str, namespace: str, workflow_id: str, at_once: int) -> None:
    """Flood."""
    client = await Client.connect(address)
    counts: Counter[str] = Counter()
    ended = asyncio.Event()
    execution = WorkflowExecution(workflow_id=workflow_id)
    request = SignalWorkflowExecutionRequest(namespace=namespace, workflow_execution=execution, signal_name="Anything")

    async def flood() -> None:
        while not ended.is_set():
            try:
                await client.workflow_service.signal_workflow_execution(request)
                counts["taken"] += 1
            except RPCError as error:
                counts[refusal(error)] += 1

    floods = [asyncio.create_task(flood()) for _ in range(at_once)]
    await asyncio.to_thread(sys.stdin.read)
    ended.set()
    await asyncio.gather(*floods)
    print(json.dumps(counts))


def refusal(error: RPCError) -> str:
    """Name the status of a refusal, and its cause."""
    found = ResourceExhaustedFailure()
    causes = [ResourceExhaustedCause.Name(found.cause) for one in error.grpc_status.details if one.Unpack(found)]
    return " ".join((error.status.name, *causes))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
