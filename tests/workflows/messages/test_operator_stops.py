"""Does a pod's workflow end a pod as an operator asks, earlier but never later, and refuse where that is not allowed?"""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio.client import WorkflowHandle, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError

from proto.temporal import names
from proto.temporal.operator import EvictPod, Explanation, PodEvicted, PodStops, Rejection, SentenceKind, StopPod
from proto.temporal.pod import PodOutcome
from proto.temporal.signals import DeletionRequested
from tests.patience import PATIENCE
from tests.workflows.conftest import Node, pod_json
from worker.delivery.workflow_updates import send_update, why_not

Handle = WorkflowHandle[Any, PodOutcome]
WHO = "root@node-1"


async def stop(handle: Handle, grace: float | None = None) -> PodStops:
    """Shorten a stop as the command does."""
    asked = StopPod(WHO, None if grace is None else timedelta(seconds=grace))
    return await send_update(handle, asked, update=names.STOP_POD, answer=PodStops)


async def refusal(handle: Handle, update: str, asked: object) -> tuple[str, str]:
    """Send an update that is refused; returns reason and message."""
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await send_update(handle, asked, update=update, answer=object)
    assert isinstance(refused.value.cause, ApplicationError)
    told = refused.value.cause.type or "", refused.value.cause.message
    assert await why_not(handle, asked, update) == Rejection(*told)
    return told


async def stands(handle: Handle) -> str:
    """Query the pod's lifecycle."""
    answer = await handle.query(names.EXPLAIN, result_type=Explanation)
    return next(str(one.text) for one in answer.sentences if one.kind is SentenceKind.STANDS)


async def test_a_stop_under_way_is_hastened(node: Node) -> None:
    """Only a terminating pod can be stopped sooner, never later."""
    pod = pod_json(terminationGracePeriodSeconds=300)
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    assert await refusal(handle, names.STOP_POD, StopPod(WHO)) == (
        "StillWanted",
        "default/web is not terminating, its source lists it: remove its manifest first, or evict it",
    )
    node.runtime.held[names.STOP_CONTAINER] = asyncio.Event()
    await handle.signal(names.DELETION_REQUESTED, DeletionRequested("file", "ManifestRemoved", "web.yaml is gone"))
    await node.called(names.STOP_CONTAINER)
    later = await stop(handle, 400)
    assert (later.asked, later.grace, later.sooner) == (timedelta(seconds=400), timedelta(minutes=5), timedelta())
    assert await stands(handle) == "it is terminating, web runs: ManifestRemoved: web.yaml is gone (grace 300 s)"
    assert not node.runtime.named(names.SHORTEN_STOP)
    sooner = await stop(handle, 0)
    assert (sooner.operator, sooner.asked, sooner.grace) == (WHO, timedelta(seconds=1), timedelta(seconds=1))
    assert timedelta(seconds=270) < sooner.sooner < timedelta(seconds=300)
    assert abs(sooner.kills_at - datetime.now(UTC)) < timedelta(seconds=20)
    async with asyncio.timeout(PATIENCE):
        outcome = await handle.result()
    assert outcome.reason == "ManifestRemoved"
    (shortened,) = node.runtime.named(names.SHORTEN_STOP)
    assert shortened.grace == timedelta(seconds=1)


async def test_a_pod_that_is_down_is_not_stopped(node: Node) -> None:
    """It has finished, while its source still lists it."""
    pod = pod_json(restartPolicy="Never")
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    await node.exits(handle, "web", 0)
    await node.until(pod, lambda one: one.lifecycle == "terminated")
    assert (await refusal(handle, names.STOP_POD, StopPod(WHO)))[0] == "AlreadyDown"
    await node.delete(handle)


async def test_an_evicted_pod_fails_and_stays_so(node: Node) -> None:
    """It stops within the requested grace period and stays Failed with the given message until its manifest is removed."""
    pod = pod_json(terminationGracePeriodSeconds=300)
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    asked = EvictPod(WHO, "Evicted", "The node was low on memory", timedelta(seconds=2))
    assert await why_not(handle, asked, names.EVICT_POD) is None
    answer = await send_update(handle, asked, update=names.EVICT_POD, answer=PodEvicted)
    assert (answer.operator, answer.grace) == (WHO, timedelta(seconds=2))
    going = await node.until(pod, lambda one: bool(one.end_awaited_until))
    until = datetime.fromisoformat(going.end_awaited_until)
    assert timedelta() < until - datetime.now(UTC) <= timedelta(seconds=10)
    ended = await node.until(pod, lambda one: one.lifecycle == "terminated")
    assert (ended.phase, ended.reason, ended.message, ended.deleting) == (
        *("Failed", "Evicted", "The node was low on memory"),
        False,
    )
    target = ended.status["conditions"][0]
    assert (target["type"], target["status"], target["reason"], target["message"]) == (
        *("DisruptionTarget", "True", "TerminationByKubelet"),
        "The node was low on memory",
    )
    (stopped,) = node.runtime.named(names.STOP_CONTAINER)
    assert (stopped.grace, stopped.reason) == (timedelta(seconds=2), "Evicted: The node was low on memory")
    assert (await stands(handle)).startswith("Failed: Evicted (The node was low on memory), and its source still lists")
    assert (await refusal(handle, names.EVICT_POD, asked))[0] == "Finished"
    outcome = await node.delete(handle)
    assert (outcome.phase, outcome.reason) == ("Failed", "Evicted")
    assert node.runtime.sandboxes == {}


@pytest.mark.parametrize(
    "held",
    [
        pytest.param(names.RUN_POD_SANDBOX, id="while-its-sandbox-is-made"),
        pytest.param(names.PULL_IMAGE, id="while-its-image-is-pulled"),
        pytest.param(names.START_CONTAINER, id="while-its-container-starts"),
    ],
)
async def test_a_pod_is_evicted_wherever_it_stands(node: Node, held: str) -> None:
    """It starts nothing more, and undoes what was in progress; removing its manifest removes the rest."""
    pod = pod_json()
    gate = node.runtime.held[held] = asyncio.Event()
    handle = await node.start(pod)
    await node.called(held)
    await send_update(handle, EvictPod(WHO, "Evicted"), update=names.EVICT_POD, answer=PodEvicted)
    gate.set()
    ended = await node.until(pod, lambda one: one.lifecycle == "terminated")
    assert (ended.phase, ended.message) == ("Failed", f"The pod was evicted by {WHO}")
    assert not node.runtime.live()
    await node.delete(handle)
    assert node.runtime.sandboxes == {}


async def test_a_pod_of_the_system_is_not_evicted(node: Node) -> None:
    """It keeps running."""
    pod = pod_json(priority=2_000_000_000)
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    assert await refusal(handle, names.EVICT_POD, EvictPod(WHO, "Evicted")) == (
        "Critical",
        "default/web is a pod of the system by its priority, which is never evicted",
    )
    await node.delete(handle)
