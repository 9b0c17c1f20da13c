"""Does a pod's workflow go on with what the node did while Temporal was away?"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import TypeAdapter
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowHandle, WorkflowUpdateFailedError
from temporalio.converter import WorkflowSerializationContext
from temporalio.exceptions import ApplicationError
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner

from proto.temporal import names
from proto.temporal.away import EntryKind, HandedBack, StoryEntry, WhileAway
from proto.temporal.operator import SkipBackoff
from proto.temporal.pod import Observed, PodOutcome, PodStart
from tests.patience import PATIENCE
from tests.workflows.conftest import Node, pod_json
from worker.delivery.workflow_updates import send_update
from workflows.pod import PodWorkflow

SINCE = datetime(2026, 11, 23, 17, 0, tzinfo=UTC)
UNTIL = SINCE + timedelta(seconds=130)
Handle = WorkflowHandle[Any, PodOutcome]


def kept_state(node: Node) -> PodStart:
    """Return the newest state of the pod that the worker has, as the node's journal keeps it."""
    return TypeAdapter(PodStart).validate_json(node.kept[-1][2])


def handed_back(start: PodStart, epoch: int = 1) -> HandedBack:
    """Hand this state back."""
    assert start.observed
    return HandedBack(epoch, SINCE, UNTIL, start.observed, start.pod, 1, start.under_way)


def story(epoch: int = 1) -> WhileAway:
    """Tell of one wait."""
    return WhileAway(epoch, 0, (StoryEntry(SINCE, EntryKind.WAITED, "a wait", value=3),), 0, SINCE, UNTIL)


async def run_after(node: Node, handle: Handle, run_id: str | None) -> str:
    """Wait for the run after this one."""
    run = node.client.get_workflow_handle(handle.id, run_id=run_id)
    async with asyncio.timeout(PATIENCE):
        async for event in run.fetch_history_events(wait_new_event=True):
            if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW:
                return event.workflow_execution_continued_as_new_event_attributes.new_execution_run_id
    raise AssertionError("it has not continued as new")


async def events_of(node: Node, handle: Handle, run_id: str | None) -> Sequence[HistoryEvent]:
    """Return a run's events."""
    run = node.client.get_workflow_handle(handle.id, run_id=run_id)
    return [one async for one in run.fetch_history_events()]


async def input_of(node: Node, handle: Handle, events: Sequence[HistoryEvent]) -> PodStart:
    """Decode what a run was started with."""
    payloads = events[0].workflow_execution_started_event_attributes.input.payloads
    bound = node.client.data_converter.with_context(WorkflowSerializationContext(node.client.namespace, handle.id))
    (start,) = await bound.decode(payloads, [PodStart])
    assert isinstance(start, PodStart)
    return start


async def replays(node: Node, handle: Handle, run_id: str | None) -> None:
    """Replay a run with this code; raises if it differs."""
    replayer = Replayer(
        workflows=[PodWorkflow],
        workflow_runner=UnsandboxedWorkflowRunner(),
        namespace=node.client.namespace,
        data_converter=node.client.data_converter,
    )
    await replayer.replay_workflow(await node.client.get_workflow_handle(handle.id, run_id=run_id).fetch_history())


async def test_a_pod_is_handed_back(node: Node) -> None:
    """Its run tells the story, begins nothing more, and goes on in a new one with the node's state; all of it replays."""
    pod = pod_json()
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    first = handle.result_run_id
    await handle.signal(names.WHILE_AWAY, story())
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await send_update(handle, SkipBackoff("me"), update=names.SKIP_BACKOFF, answer=object)
    assert isinstance(refused.value.cause, ApplicationError)
    assert refused.value.cause.type == "HandBackUnderWay"
    start = kept_state(node)
    assert start.observed
    restarted = replace(start.observed.containers["web"], attempt=4)
    changed = replace(start.observed, containers={"web": restarted}, runtime_stale=True)
    await handle.signal(names.HANDED_BACK, handed_back(replace(start, observed=changed)))
    second = await run_after(node, handle, first)
    begun = await input_of(node, handle, await events_of(node, handle, second))
    assert begun.ticket.epoch == 1
    assert begun.handed_back
    assert begun.observed
    assert begun.observed.containers["web"].attempt == 4
    assert "a wait" not in json.dumps(TypeAdapter(PodStart).dump_python(begun, mode="json"))
    events = await events_of(node, handle, first)
    told = next(
        n
        for n, one in enumerate(events)
        if one.workflow_execution_signaled_event_attributes.signal_name == names.WHILE_AWAY
    )
    assert not [one for one in events[told:] if one.HasField("activity_task_scheduled_event_attributes")]
    newest = node.newest(pod)
    await newest.signal(names.HANDED_BACK, handed_back(start))  # sent twice
    await node.delete(newest)
    assert (await newest.describe()).run_id == second
    await replays(node, handle, first)
    await replays(node, handle, second)


async def test_a_pod_born_while_it_was_away_waits_for_its_state(node: Node) -> None:
    """Its first run has the story and begins nothing."""
    pod = pod_json()
    start = PodStart(node.name, pod, path="web.yaml", behaviour=node.behaviour)
    handle: Handle = await node.client.start_workflow(
        PodWorkflow.run,
        start,
        id=node.workflow_id(pod),
        task_queue=names.node_task_queue(node.name),
        start_signal=names.WHILE_AWAY,
        start_signal_args=[story()],
    )
    await handle.signal(names.HANDED_BACK, handed_back(replace(start, observed=Observed(started_at=SINCE))))
    second = await run_after(node, handle, handle.result_run_id)
    events = await events_of(node, handle, handle.result_run_id)
    assert not [one for one in events if one.HasField("activity_task_scheduled_event_attributes")]
    await node.until(pod, lambda one: one.ready)
    await replays(node, handle, handle.result_run_id)
    await node.delete(node.newest(pod))
    await replays(node, handle, second)
