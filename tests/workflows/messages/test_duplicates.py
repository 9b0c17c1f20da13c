"""Does a message that comes twice count once, also if it comes to another run of the pod's workflow?"""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from temporalio.client import WorkflowContinuedAsNewError, WorkflowHandle, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError

from proto.temporal import names
from proto.temporal.operator import ConditionSet, Rejection, SetCondition
from proto.temporal.pod import PodOutcome
from proto.temporal.signals import RuntimeChanged
from tests.patience import PATIENCE
from tests.workflows.conftest import Node, pod_json
from worker.delivery.workflow_updates import send_update, update_id, why_not

Handle = WorkflowHandle[Any, PodOutcome]
OPEN = SetCondition("root@node-1", "example.com/lb", "True", source="command", sequence=7)
SHUT = replace(OPEN, status="False", sequence=8)


async def ask(handle: Handle, asked: SetCondition) -> ConditionSet:
    """Send a request as the command does."""
    return await send_update(handle, asked, update=names.SET_CONDITION, answer=ConditionSet)


async def test_a_request_counts_once(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one run Temporal knows it by its id and gives the same answer; the next run knows its number, and refuses it."""
    pod = pod_json(readinessGates=[{"conditionType": OPEN.type}])
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.reason == "ReadinessGatesNotReady")
    first = await ask(handle, OPEN)
    await node.until(pod, lambda one: one.ready)
    assert update_id(OPEN) == "command-7"
    assert await ask(handle, OPEN) == first
    monkeypatch.setattr("workflows.temporal_driver.SIGNALS_PER_RUN", 2)
    assert (await ask(handle, SHUT)).before == "True"
    with pytest.raises(WorkflowContinuedAsNewError):
        async with asyncio.timeout(PATIENCE):
            await handle.result(follow_runs=False)
    monkeypatch.undo()
    newest: Handle = node.client.get_workflow_handle(handle.id, result_type=PodOutcome)
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await ask(newest, OPEN)
    assert isinstance(refused.value.cause, ApplicationError)
    told = refused.value.cause.type or "", refused.value.cause.message
    assert told == ("Duplicate", "default/web has taken this request already")
    assert await why_not(newest, OPEN, names.SET_CONDITION) == Rejection(*told)
    await node.until(pod, lambda one: not one.ready)
    await node.delete(newest)


async def test_a_hint_counts_once(node: Node) -> None:
    """The runtime is read once for each number."""
    pod = pod_json()
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    for number, reads in ((7, 1), (7, 1), (8, 2), (8, 2), (9, 3)):
        await handle.signal(names.RUNTIME_CHANGED, RuntimeChanged("resync", number, sender="poller"))
        async with asyncio.timeout(PATIENCE):
            while len(node.runtime.named(names.READ_POD_RUNTIME)) < reads:
                node.runtime.changed.clear()
                await node.runtime.changed.wait()
        assert len(node.runtime.named(names.READ_POD_RUNTIME)) == reads
    await node.delete(handle)
