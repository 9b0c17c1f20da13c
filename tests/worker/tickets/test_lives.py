"""Do pods of this node live on with their tickets, whatever happens to their runs?"""

import asyncio
from functools import partial
from typing import Any

import pytest
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionResponse
from temporalio.client import (
    WorkflowContinuedAsNewError,
    WorkflowExecutionStatus,
    WorkflowHandle,
    WorkflowUpdateFailedError,
)
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.exceptions import ApplicationError
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner

from proto.pod_snapshot import PodSnapshot
from proto.temporal import names
from proto.temporal.operator import ConditionSet, SetCondition
from proto.temporal.pod import PodJson, PodOutcome
from proto.temporal.signals import DeletionRequested, PodListed, RuntimeChanged
from proto.temporal.ticket import UNTICKETED, Ticket
from tests.patience import PATIENCE
from tests.worker.tickets.conftest import TicketNode, events_of, start_again
from tests.workflows.conftest import QUICK, pod_json
from worker.delivery.workflow_updates import send_update, why_not
from worker.temporal.executions import describe_execution
from worker.tickets.guard import know_pods
from worker.tickets.seal import HEADER
from worker.tickets.showing import NOT_LEADING
from workflows import temporal_driver
from workflows.decide.keys import container_key
from workflows.pod import PodWorkflow

Handle = WorkflowHandle[Any, PodOutcome]


def parked(described: DescribeWorkflowExecutionResponse) -> bool:
    """Report whether a start waits in the worker."""
    started = PendingActivityState.PENDING_ACTIVITY_STATE_STARTED
    return any(one.activity_id == container_key("web") and one.state == started for one in described.pending_activities)


async def continued(node: TicketNode, pod: PodJson) -> None:
    """Send signals until the run has continued as new."""
    handle = await node.newest(pod).describe()
    ending = asyncio.create_task(
        node.client.get_workflow_handle(handle.id, run_id=handle.run_id).result(follow_runs=False)
    )
    for _ in range(temporal_driver.SIGNALS_PER_RUN):
        await node.newest(pod).signal(names.RUNTIME_CHANGED, RuntimeChanged("event"))
    with pytest.raises(WorkflowContinuedAsNewError):
        await asyncio.wait_for(ending, PATIENCE)


async def crashes(node: TicketNode, pod: PodJson) -> None:
    """Let the container end and wait until it runs again: a stop and a start by the present run."""
    before = await node.until(pod, lambda one: one.ready)
    await node.exits(node.newest(pod), "web", 1)
    await node.until(pod, lambda one: one.ready and one.restarts > before.restarts)


async def test_a_life_is_as_it_was(node: TicketNode) -> None:
    """Nothing of it is refused, also after continue-as-new, and each activity shows a ticket; the history replays."""
    pod = pod_json()
    handle = await node.start(pod)
    await crashes(node, pod)
    events = await events_of(handle)
    scheduled = [
        one.activity_task_scheduled_event_attributes
        for one in events
        if one.HasField("activity_task_scheduled_event_attributes")
    ]
    assert scheduled
    assert [one.activity_id for one in scheduled if HEADER not in one.header.fields] == []
    await node.delete(node.newest(pod))
    assert node.refused == 0
    assert node.tickets.of(node.workflow_id(pod)) is None
    replayer = Replayer(
        workflows=[PodWorkflow],
        workflow_runner=UnsandboxedWorkflowRunner(),
        namespace=node.client.namespace,
        data_converter=node.client.data_converter,
    )
    await replayer.replay_workflow(await handle.fetch_history())


async def test_continue_as_new_carries_the_ticket(node: TicketNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next run acts with the same one."""
    monkeypatch.setattr(temporal_driver, "SIGNALS_PER_RUN", 3)
    pod = pod_json()
    await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    drawn = node.tickets.of(node.workflow_id(pod))
    await continued(node, pod)
    await crashes(node, pod)
    assert node.refused == 0
    assert node.snapshots[pod["metadata"]["uid"]].ticket == drawn


async def test_a_terminated_run_is_followed_by_another(node: TicketNode) -> None:
    """The poller starts it with the present ticket; the containers stay."""
    pod = pod_json()
    await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    before = node.runtime.live()
    await node.newest(pod).terminate()
    node.forget()
    await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    assert node.runtime.live() == before
    await crashes(node, pod)
    assert node.refused == 0


async def test_a_run_whose_ticket_is_lost_ends_although_it_has_nothing_to_do(node: TicketNode) -> None:
    """Its snapshot is refused, so nobody would see the pod any more; the run after it has the containers."""
    pod = pod_json()
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    before, workflow_id = node.runtime.live(), node.workflow_id(pod)
    node.tickets.forget(workflow_id)
    node.forget()
    await handle.signal(names.RUNTIME_CHANGED, RuntimeChanged("resync"))
    await node.until_refused()
    await node.refused_runs.look()
    assert (await handle.describe()).status is WorkflowExecutionStatus.TERMINATED
    await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    assert node.runtime.live() == before


async def test_a_pod_that_is_listed_again_later_has_another_ticket(node: TicketNode) -> None:
    """A manifest that comes back has the same id; the start of its first life is worth nothing beside its second."""
    pod = pod_json()
    first_start = (await events_of(await node.start(pod)))[0]
    await node.until(pod, lambda one: one.ready)
    await node.delete(node.newest(pod))
    node.forget()
    await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    await crashes(node, pod)
    assert node.refused == 0
    await node.newest(pod).terminate()
    node.runtime.end(node.runtime.live()["web"].container_id, 1)  # there is something to do
    node.runtime.calls.clear()
    await start_again(node.client, node.name, node.workflow_id(pod), first_start)
    await node.until_refused()
    assert node.acted() == []


async def test_a_listing_that_arrives_while_the_run_completes(
    node: TicketNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Temporal refuses the completion, so the run goes on and starts the pod again."""
    pod = pod_json()
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    complete = node.tickets.complete

    def complete_late(workflow_id: str, shown: Ticket, run_id: str) -> None:
        complete(workflow_id, shown, run_id)
        monkeypatch.undo()
        listed = handle_of_newest.signal(names.POD_LISTED, PodListed("file", pod=pod))
        asyncio.run_coroutine_threadsafe(listed, node.loop).result(PATIENCE)

    handle_of_newest = node.newest(pod)
    monkeypatch.setattr(node.tickets, "complete", complete_late)
    await handle.signal(names.DELETION_REQUESTED, DeletionRequested("file", "ManifestRemoved", "web.yaml is gone"))
    with pytest.raises(WorkflowContinuedAsNewError):
        await asyncio.wait_for(handle.result(follow_runs=False), PATIENCE)
    node.forget()
    await node.until(pod, lambda one: one.ready)
    await crashes(node, pod)
    assert node.refused == 0


async def test_a_run_of_the_release_before(node: TicketNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """It acts until its next run does, which has a ticket; then its captured start is worth nothing any more."""
    monkeypatch.setattr(temporal_driver, "SIGNALS_PER_RUN", 3)
    node.ticketed = False
    pod = pod_json()
    workflow_id = node.workflow_id(pod)
    node.tickets.know(workflow_id, UNTICKETED)  # else it would not begin
    first_start = (await events_of(await node.start(pod)))[0]
    snapshot = await node.until(pod, lambda one: one.ready)
    assert snapshot.ticket == UNTICKETED
    node.tickets.forget(workflow_id)
    know_pods(node.tickets, node.name, [snapshot])
    await crashes(node, pod)
    assert node.refused == 0
    await continued(node, pod)
    await crashes(node, pod)
    assert node.refused == 0
    assert node.snapshots[pod["metadata"]["uid"]].ticket == node.tickets.of(workflow_id)
    await node.called(names.REMOVE_CONTAINER)  # of the first crash, which the second one makes superfluous
    await node.newest(pod).terminate()
    node.runtime.end(node.runtime.live()["web"].container_id, 1)  # there is something to do
    node.runtime.calls.clear()
    await start_again(node.client, node.name, workflow_id, first_start)
    await node.until_refused()
    assert node.acted() == []


@pytest.mark.parametrize("over", [True, False], ids=["its-last-snapshot", "no-snapshot"])
async def test_a_start_of_the_release_before_of_an_unknown_pod(node: TicketNode, over: bool) -> None:
    """Only what the node knows of is admitted."""
    node.ticketed = False
    pod = pod_json()
    meta = pod["metadata"]
    place = {"namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"], "node": node.name}
    gone = PodSnapshot(node.workflow_id(pod), source="file", path="", lifecycle="terminated", deleting=True, **place)
    know_pods(node.tickets, node.name, [gone] if over else [])
    await node.start(pod)
    await node.until_refused()
    assert node.acted() == []


async def test_while_something_else_leads_nothing_is_done(node: TicketNode) -> None:
    """What the run schedules waits until its run ends; the next run has the new number and acts."""
    pod = pod_json()
    await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    workflow_id = node.workflow_id(pod)
    node.tickets.raise_epoch(workflow_id)
    node.runtime.calls.clear()
    told = len(node.told)
    await node.exits(node.newest(pod), "web", 1)
    async with asyncio.timeout(PATIENCE):
        while not parked(await describe_execution(node.client, workflow_id)):  # noqa: ASYNC110 - Temporal sends no event for it
            await asyncio.sleep(0.05)
    assert node.acted() == []
    assert node.refused == 0
    assert len(node.told) == told
    await node.client.start_workflow(
        PodWorkflow.run,
        node._start_of(pod, QUICK, None),
        id=workflow_id,
        task_queue=names.node_task_queue(node.name),
        id_conflict_policy=WorkflowIDConflictPolicy.TERMINATE_EXISTING,
    )
    await node.until(pod, lambda one: one.ready and one.restarts == 1)


async def test_a_run_that_does_not_lead_refuses_updates(node: TicketNode) -> None:
    """Its answer would be worth nothing, because the node leads the pod; nothing of it is in the history, which replays."""
    pod = pod_json()
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    ask = partial(send_update, handle, update=names.SET_CONDITION, answer=ConditionSet)
    answered: ConditionSet = await ask(SetCondition("root", "gate", "True"))
    assert answered.type == "gate"
    node.tickets.raise_epoch(node.workflow_id(pod))
    asked = SetCondition("root", "other", "True")
    assert await why_not(handle, asked, names.SET_CONDITION) == NOT_LEADING
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await ask(asked)
    assert isinstance(refused.value.cause, ApplicationError)
    assert refused.value.cause.type == NOT_LEADING.reason
    events = await events_of(handle)
    accepted = [one for one in events if one.HasField("workflow_execution_update_accepted_event_attributes")]
    assert len(accepted) == 1
    replayer = Replayer(
        workflows=[PodWorkflow],
        workflow_runner=UnsandboxedWorkflowRunner(),
        namespace=node.client.namespace,
        data_converter=node.client.data_converter,
    )
    await replayer.replay_workflow(await handle.fetch_history())
    await handle.terminate()
