"""Can somebody who reaches Temporal without the keys have a removed pod run again, or one of its activities?"""

import asyncio
from datetime import timedelta
from typing import Any, ClassVar

import pytest
from temporalio import workflow
from temporalio.api.failure.v1 import ApplicationFailureInfo
from temporalio.client import (
    Client,
    WorkflowContinuedAsNewError,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHandle,
)
from temporalio.common import RawValue, RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError
from temporalio.worker import (
    Interceptor,
    StartActivityInput,
    Worker,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
    WorkflowOutboundInterceptor,
)

from proto.temporal import names
from proto.temporal.failure_types import TICKET_REFUSED
from proto.temporal.pod import PodJson
from tests.patience import PATIENCE
from tests.worker.tickets.conftest import Captured, TicketNode, captured_request, events_of, start_again
from tests.workflows.conftest import pod_json
from worker.tickets.seal import HEADER
from workflows import temporal_driver


@pytest.fixture
def privileged() -> PodJson:
    """Return a pod that may do everything."""
    container = {"name": "web", "image": "busybox:1", "imagePullPolicy": "IfNotPresent"}
    return pod_json(containers=[{**container, "securityContext": {"privileged": True}}])


async def removed(node: TicketNode, pod: PodJson) -> list[Any]:
    """Let a pod live and end; returns the history that somebody has captured."""
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    await node.delete(handle)
    assert node.runtime.containers == {}
    node.runtime.calls.clear()
    node.forget()
    return await events_of(node.newest(pod))


async def until_failed(handle: WorkflowHandle[Any, Any]) -> ApplicationFailureInfo:
    """Wait until an activity of a run has failed; returns why, as its history has it."""
    async with asyncio.timeout(PATIENCE):
        while True:
            for one in await events_of(handle):
                if one.HasField("activity_task_failed_event_attributes"):
                    return one.activity_task_failed_event_attributes.failure.application_failure_info
            await asyncio.sleep(0.05)


async def test_a_captured_start_of_a_removed_pod_does_nothing(node: TicketNode, privileged: PodJson) -> None:
    """No activity of it is carried out, it is shown nowhere, and its history says why."""
    events = await removed(node, privileged)
    handle = await start_again(node.client, node.name, node.workflow_id(privileged), events[0])
    failed = await until_failed(handle)
    assert failed.type == TICKET_REFUSED
    assert node.refused
    assert node.acted() == []
    assert not node.runtime.sandboxes
    assert not node.runtime.containers
    assert node.told == []
    explained = await node.newest(privileged).query(names.EXPLAIN)
    assert "its ticket is not the one of the pod as it runs now" in str(explained)


async def test_it_does_nothing_either_after_continue_as_new(
    node: TicketNode, privileged: PodJson, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that may not act does not get the ticket that was drawn for the pod's next life."""
    monkeypatch.setattr(temporal_driver, "SIGNALS_PER_RUN", 3)
    events = await removed(node, privileged)
    workflow_id = node.workflow_id(privileged)
    handle = await start_again(node.client, node.name, workflow_id, events[0])
    node.tickets.draw(workflow_id)
    await node.until_refused()
    ending = asyncio.create_task(handle.result(follow_runs=False))
    for _ in range(temporal_driver.SIGNALS_PER_RUN):
        await node.client.get_workflow_handle(workflow_id).signal("Anything")
    with pytest.raises(WorkflowContinuedAsNewError):
        await asyncio.wait_for(ending, PATIENCE)
    await node.until_refused(node.refused + 1)
    assert node.acted() == []
    await node.newest(privileged).terminate()


@workflow.defn(name="Foreign", sandboxed=False)
class Foreign:
    """A workflow of somebody else that schedules a captured request on the node's queue."""

    captured: ClassVar[Captured]
    queue: ClassVar[str]

    @workflow.run
    async def run(self) -> None:
        """Schedule it once."""
        await workflow.execute_activity(
            self.captured.name,
            RawValue(self.captured.request),
            result_type=RawValue,
            activity_id=self.captured.activity_id,
            task_queue=self.queue,
            start_to_close_timeout=timedelta(minutes=1),
            retry_policy=RetryPolicy(maximum_attempts=1),
        )


class CapturedHeaders(Interceptor):
    """Sends the captured headers, too."""

    def workflow_interceptor_class(self, input: WorkflowInterceptorClassInput) -> type[WorkflowInboundInterceptor]:  # noqa: A002, ARG002 - the SDK's names
        """Return the class."""
        return _Inbound


class _Inbound(WorkflowInboundInterceptor):
    def init(self, outbound: WorkflowOutboundInterceptor) -> None:
        super().init(_Outbound(outbound))


class _Outbound(WorkflowOutboundInterceptor):
    def start_activity(self, input: StartActivityInput) -> workflow.ActivityHandle[Any]:  # noqa: A002 - the SDK's name
        input.headers = Foreign.captured.headers
        return super().start_activity(input)


@pytest.mark.parametrize("with_header", [True, False], ids=["with-its-header", "without-a-header"])
@pytest.mark.parametrize("name", [names.RUN_POD_SANDBOX, names.START_CONTAINER, names.REMOVE_POD_DIRECTORIES])
async def test_a_foreign_workflow_under_the_id_of_a_removed_pod(
    node: TicketNode, privileged: PodJson, name: str, with_header: bool
) -> None:
    """Its captured requests are refused, each for good."""
    Foreign.captured = captured_request(await removed(node, privileged), name)
    Foreign.queue = names.node_task_queue(node.name)
    assert HEADER in Foreign.captured.headers
    if not with_header:
        Foreign.captured.headers = {}
    strangers = await Client.connect(node.client.service_client.config.target_host, namespace=node.client.namespace)
    interceptors = [CapturedHeaders()]
    async with Worker(strangers, task_queue=f"foreign-{node.name}", workflows=[Foreign], interceptors=interceptors):
        with pytest.raises(WorkflowFailureError) as failed:
            await strangers.execute_workflow(
                Foreign.run, id=node.workflow_id(privileged), task_queue=f"foreign-{node.name}"
            )
    assert isinstance(failed.value.cause, ActivityError)
    assert isinstance(failed.value.cause.cause, ApplicationError)
    assert failed.value.cause.cause.type == TICKET_REFUSED
    assert node.refused == 1
    assert node.runtime.calls == []


async def test_the_header_of_one_activity_is_none_of_another(node: TicketNode, privileged: PodJson) -> None:
    """While the pod lives, too: it was sealed for one activity."""
    await node.start(privileged)
    await node.until(privileged, lambda one: one.ready)
    events = await events_of(node.newest(privileged))
    other = captured_request(events, names.RUN_POD_SANDBOX).headers
    await node.newest(privileged).terminate()
    node.runtime.calls.clear()
    Foreign.captured = captured_request(events, names.START_CONTAINER)
    Foreign.captured.headers = other
    Foreign.queue = names.node_task_queue(node.name)
    strangers = await Client.connect(node.client.service_client.config.target_host, namespace=node.client.namespace)
    interceptors = [CapturedHeaders()]
    async with Worker(strangers, task_queue=f"foreign-{node.name}", workflows=[Foreign], interceptors=interceptors):
        with pytest.raises(WorkflowFailureError):
            await strangers.execute_workflow(
                Foreign.run, id=node.workflow_id(privileged), task_queue=f"foreign-{node.name}"
            )
    assert node.refused == 1
    assert node.runtime.calls == []


async def test_a_refused_run_does_not_keep_the_id(node: TicketNode, privileged: PodJson) -> None:
    """It is ended, so that the pod can be started by its source; the pod's own run is not."""
    events = await removed(node, privileged)
    workflow_id = node.workflow_id(privileged)
    foreign = await start_again(node.client, node.name, workflow_id, events[0])
    await node.until_refused()
    await node.refused_runs.look()
    assert (await foreign.describe()).status is WorkflowExecutionStatus.TERMINATED
    own = await node.start(privileged)
    await node.until(privileged, lambda one: one.ready)
    node.refused_runs.add(workflow_id, foreign.run_id or "")
    node.refused_runs.add("pod/another-node/default/web/1", own.first_execution_run_id or "")
    await node.refused_runs.look()
    assert (await own.describe()).status is WorkflowExecutionStatus.RUNNING
