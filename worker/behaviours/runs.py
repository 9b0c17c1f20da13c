"""Reads which behaviour each run of a node's workflows follows.

The number is in the run's first event, so neither a query nor a worker is needed. Used by the worker, which raises old runs,
and by `tempolet behaviour`.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from temporalio.client import Client
from temporalio.converter import WorkflowSerializationContext
from temporalio.service import RPCError, RPCStatusCode

from proto.temporal.names import NODE_WORKFLOW, POD_WORKFLOW
from worker.payloads.refused import PayloadRefused
from worker.temporal.executions import Execution, list_executions
from worker.temporal.keys import KeyMissing

AT_A_TIME: Final = 8
KINDS: Final = {POD_WORKFLOW: "pods", NODE_WORKFLOW: "node"}
"""The kind of numbers that each type of workflow follows."""


class NotOurInput(Exception):
    """The input of a run is not one that the poller gives: somebody else has started it."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a workflow of the node."""

    workflow_id: str
    run_id: str
    kind: str
    is_open: bool
    behaviour: int | None
    """None if it cannot be read."""


@dataclass(frozen=True, slots=True)
class Numbered:
    """The number that a run follows, and of which kind it is."""

    kind: str
    behaviour: int


async def runs_of(
    client: Client,
    node: str,
    *conditions: str,
    known: Mapping[str, int] = MappingProxyType({}),
    odd: Callable[[RPCError], bool] = lambda _: False,
) -> AsyncIterator[Run]:
    """Read the node's runs that visibility lists under further `conditions`; raises RPCError.

    `known` has numbers by run id, which are not read again: the number of a run never changes. A run whose error is `odd` is one that
    cannot be read.
    """
    kinds = ", ".join(f"'{one}'" for one in KINDS)
    query = " AND ".join([f"WorkflowType IN ({kinds})", f"PodNode = '{node}'", *conditions])
    batch: list[Execution] = []
    async for found in list_executions(client, query):
        batch.append(found)
        if len(batch) == AT_A_TIME:
            for run in await _read(client, batch, known, odd):
                yield run
            batch.clear()
    for run in await _read(client, batch, known, odd):
        yield run


async def _read(
    client: Client, found: Sequence[Execution], known: Mapping[str, int], odd: Callable[[RPCError], bool]
) -> list[Run]:
    runs = await asyncio.gather(*(_read_one(client, one, known, odd) for one in found))
    return [run for run in runs if run]


async def _read_one(
    client: Client, found: Execution, known: Mapping[str, int], odd: Callable[[RPCError], bool]
) -> Run | None:
    """Read one run; None if Temporal has removed it meanwhile."""
    behaviour: int | None
    try:
        behaviour = known.get(found.run_id) or await behaviour_of(client, found.id, found.run_id)
    except (KeyMissing, PayloadRefused, NotOurInput):
        behaviour = None
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return None
        if not odd(error):
            raise
        behaviour = None
    return Run(found.id, found.run_id, KINDS[found.workflow_type], found.is_open, behaviour)


async def behaviour_of(client: Client, workflow_id: str, run_id: str | None = None) -> int:
    """Read the number in a run's input; raises RPCError, KeyMissing, PayloadRefused and NotOurInput."""
    events = client.get_workflow_handle(workflow_id, run_id=run_id).fetch_history_events(page_size=1)
    event = await anext(aiter(events))
    bound = client.data_converter.with_context(WorkflowSerializationContext(client.namespace, workflow_id))
    payloads = event.workflow_execution_started_event_attributes.input.payloads
    try:
        (start,) = await bound.decode(payloads, [dict])
        return int(start.get("behaviour", 1))
    except (ValueError, TypeError, AttributeError, RuntimeError) as error:
        raise NotOurInput(f"{workflow_id}: {error}") from error
