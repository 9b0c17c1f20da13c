"""A worker whose runs show tickets, and an attacker who reaches Temporal without the keys."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest
from temporalio.api.common.v1 import Payload, Payloads, WorkflowType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import StartWorkflowExecutionRequest
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from activities.execution.attempts import AttachingAttempts
from proto.temporal import names
from proto.temporal.pod import NodeSettings, PodJson, PodStart
from proto.temporal.pod_inputs import FirstSight
from tests.patience import PATIENCE
from tests.workflows.conftest import Node, client
from tests.workflows.model_runtime import ModelRuntime
from worker.host.pod_cache import publishing
from worker.host.temporal.refused_runs import RefusedRuns
from worker.temporal.call_budget import CallBudget
from worker.temporal.keys import KeyFile
from worker.tickets.gate import Refusals
from worker.tickets.guard import TicketGuard
from worker.tickets.seal import TicketSeal
from worker.tickets.tickets import Tickets
from workflows.pod import PodWorkflow

__all__ = ["client"]  # a fixture

LOCAL: Final = frozenset({names.READ_POD_RUNTIME, names.READ_IMAGES, names.AWAIT_PREDECESSOR})
"""What only reads."""


@dataclass(kw_only=True)
class TicketNode(Node):
    """A node whose pods are started with tickets, as the poller does it."""

    tickets: Tickets
    ticketed: bool = True
    """Pods are started with tickets."""
    refused: int = 0
    refused_runs: RefusedRuns

    def _start_of(self, pod: PodJson, settings: NodeSettings, first_sight: FirstSight | None) -> PodStart:
        start = super()._start_of(pod, settings, first_sight)
        return replace(start, ticket=self.tickets.draw(self.workflow_id(pod))) if self.ticketed else start

    def refuse_snapshot(self, workflow_id: str, run_id: str) -> None:
        """Take a run whose snapshot was refused, and count that."""
        self.refused_runs.add(workflow_id, run_id)
        self.count()

    def count(self) -> None:
        """Count a refusal."""
        self.refused += 1
        self.changed.set()

    async def until_refused(self, times: int = 1) -> None:
        """Wait until activities were refused."""
        async with asyncio.timeout(PATIENCE):
            while self.refused < times:
                self.changed.clear()
                await self.changed.wait()

    def acted(self) -> list[str]:
        """List the activities that have done something."""
        return [name for name, _ in self.runtime.calls if name not in LOCAL]


@pytest.fixture
async def node(client: Client, key_file: Path, tmp_path: Path) -> AsyncIterator[TicketNode]:
    """Run the worker of a node, with the guard that the worker process has."""
    name = f"n{uuid.uuid4().hex[:8]}"
    runs = RefusedRuns(client, name, CallBudget())
    made = TicketNode(client, name, ModelRuntime(), tickets=Tickets(tmp_path), refused_runs=runs)
    loop = asyncio.get_running_loop()
    guard = TicketGuard(made.tickets, TicketSeal(KeyFile(key_file), client.namespace))
    async with Worker(
        client,
        task_queue=names.node_task_queue(made.name),
        workflows=[PodWorkflow],
        activities=made.runtime.activities(),
        workflow_runner=UnsandboxedWorkflowRunner(),
        interceptors=[
            publishing(
                guard.only_of_leaders(
                    made.publish, refused=lambda *run: loop.call_soon_threadsafe(made.refuse_snapshot, *run)
                ),
                made.running.received,
                made.keep,
            ),
            *guard.interceptors(made.present, Refusals(made.count, made.refused_runs.add)),
            AttachingAttempts(made.running, made.present),
        ],
    ):
        yield made


async def events_of(handle: WorkflowHandle[Any, Any]) -> list[HistoryEvent]:
    """Read the history of a run as everybody can who reaches Temporal."""
    return list((await handle.fetch_history()).events)


async def start_again(client: Client, node: str, workflow_id: str, captured: HistoryEvent) -> WorkflowHandle[Any, Any]:
    """Start a workflow with a captured input."""
    began = captured.workflow_execution_started_event_attributes
    response = await client.workflow_service.start_workflow_execution(
        StartWorkflowExecutionRequest(
            namespace=client.namespace,
            workflow_id=workflow_id,
            workflow_type=WorkflowType(name=began.workflow_type.name),
            task_queue=TaskQueue(name=names.node_task_queue(node)),
            input=Payloads(payloads=began.input.payloads),
            request_id=uuid.uuid4().hex,
        )
    )
    return client.get_workflow_handle(workflow_id, run_id=response.run_id)


@dataclass
class Captured:
    """A sealed request of an activity, and the header that it came with."""

    name: str
    activity_id: str
    request: Payload
    headers: dict[str, Payload]


def captured_request(events: list[HistoryEvent], name: str) -> Captured:
    """Find an activity's request in a history."""
    (scheduled,) = [
        one.activity_task_scheduled_event_attributes
        for one in events
        if one.activity_task_scheduled_event_attributes.activity_type.name == name
    ]
    (request,) = scheduled.input.payloads
    return Captured(name, scheduled.activity_id, request, dict(scheduled.header.fields))


def is_refusal(error: BaseException | None) -> bool:
    """Report whether this is the gate's answer."""
    return getattr(error, "type", "") == "TicketRefused"
