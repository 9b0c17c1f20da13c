"""Which behaviour each run of a node's workflows follows, read off its first event: no query, no replay, no worker needed.

Used by the worker that raises old runs and by `tempolet behaviour`.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus
from temporalio.converter import WorkflowSerializationContext
from temporalio.service import RPCError, RPCStatusCode

from proto.temporal.names import NODE_WORKFLOW, POD_WORKFLOW
from worker.payloads.refused import PayloadRefused
from worker.temporal.codec import KeyMissing

AT_A_TIME: Final = 8
KINDS: Final = {POD_WORKFLOW: "pods", NODE_WORKFLOW: "node"}
"""The kind of numbers that a workflow of this type follows."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a workflow of the node."""

    workflow_id: str
    run_id: str
    kind: str
    is_open: bool
    behaviour: int | None
    """None: it cannot be read."""


async def runs_of(
    client: Client, node: str, *conditions: str, known: Mapping[str, int] = MappingProxyType({})
) -> AsyncIterator[Run]:
    """Read the runs of a node that visibility lists, with further conditions; raises RPCError.

    `known` numbers are not read again, by run: a run never changes its own.
    """
    kinds = ", ".join(f"'{one}'" for one in KINDS)
    query = " AND ".join([f"WorkflowType IN ({kinds})", f"PodNode = '{node}'", *conditions])
    batch: list[WorkflowExecution] = []
    async for found in client.list_workflows(query):
        batch.append(found)
        if len(batch) == AT_A_TIME:
            for run in await _read(client, batch, known):
                yield run
            batch.clear()
    for run in await _read(client, batch, known):
        yield run


async def _read(client: Client, found: Sequence[WorkflowExecution], known: Mapping[str, int]) -> list[Run]:
    runs = await asyncio.gather(*(_read_one(client, one, known) for one in found))
    return [run for run in runs if run]


async def _read_one(client: Client, found: WorkflowExecution, known: Mapping[str, int]) -> Run | None:
    """Read one run; None where Temporal has removed it meanwhile."""
    behaviour: int | None
    try:
        behaviour = known.get(found.run_id) or await behaviour_of(client, found.id, found.run_id)
    except (KeyMissing, PayloadRefused):
        behaviour = None
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return None
    is_open = found.status is WorkflowExecutionStatus.RUNNING
    return Run(found.id, found.run_id, KINDS[found.workflow_type], is_open, behaviour)


async def behaviour_of(client: Client, workflow_id: str, run_id: str | None = None) -> int:
    """Read the number in a run's start; raises RPCError, KeyMissing and PayloadRefused."""
    events = client.get_workflow_handle(workflow_id, run_id=run_id).fetch_history_events(page_size=1)
    event = await anext(aiter(events))
    bound = client.data_converter.with_context(WorkflowSerializationContext(client.namespace, workflow_id))
    payloads = event.workflow_execution_started_event_attributes.input.payloads
    (start,) = await bound.decode(payloads, [dict])
    return int(start.get("behaviour", 1))
