"""Does the workflow run an operator's ephemeral container once, without an effect on the rest of the pod?"""

import asyncio
from typing import Any

import pytest
from temporalio.client import WorkflowContinuedAsNewError, WorkflowHandle, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError

from proto.temporal import names
from proto.temporal.activities.requests import StartContainer
from proto.temporal.operator import AddEphemeralContainer, EphemeralContainerAdded
from proto.temporal.pod import PodJson, PodOutcome
from proto.temporal.signals import PodListed, RuntimeChanged
from tests.patience import PATIENCE
from tests.workflows.conftest import Node, container, pod_json
from worker.delivery.workflow_updates import send_update

Handle = WorkflowHandle[Any, PodOutcome]


async def look(handle: Handle, name: str = "debug", target: str = "", **fields: Any) -> EphemeralContainerAdded:
    """Add one as the command does."""
    into = {"targetContainerName": target} if target else {}
    asked = AddEphemeralContainer("root@node-1", {"name": name, "image": "tools:1", **into, **fields})
    return await send_update(handle, asked, update=names.ADD_EPHEMERAL_CONTAINER, answer=EphemeralContainerAdded)


async def refusal(handle: Handle, *args: str, **fields: Any) -> tuple[str, str]:
    """Send a request that is refused; returns reason and message."""
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await look(handle, *args, **fields)
    assert isinstance(refused.value.cause, ApplicationError)
    return refused.value.cause.type or "", refused.value.cause.message


def state_of(status: dict[str, Any], name: str = "debug") -> str:
    """Return an ephemeral container's state in one word; empty if there is none."""
    for one in status.get("ephemeralContainerStatuses", ()):
        if one["name"] == name:
            return str(next(iter(one["state"])))
    return ""


async def ready(node: Node, pod: PodJson) -> Handle:
    """Start a pod, and wait until it is ready."""
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    return handle


async def test_one_is_added_runs_once_and_goes_with_the_pod(node: Node) -> None:
    """Its image is pulled, its target named; after its exit it is not restarted, and the pod is unchanged."""
    pod = pod_json()
    handle = await ready(node, pod)
    added = await look(handle, target="web")
    assert added == EphemeralContainerAdded("root@node-1", pod["metadata"]["uid"], "debug", "tools:1", "web")
    running = await node.until(pod, lambda one: state_of(one.status) == "running")
    assert (running.ready, running.phase, running.restarts) == (True, "Running", 0)
    start = node.runtime.named(names.START_CONTAINER)[-1]
    assert isinstance(start, StartContainer)
    assert start.target_id == node.runtime.live()["web"].container_id
    assert start.container["terminationMessagePath"] == "/dev/termination-log"
    await node.exits(handle, "debug", 3)
    await node.until(pod, lambda one: state_of(one.status) == "terminated")
    await look(handle, "second")
    await node.until(pod, lambda one: state_of(one.status, "second") == "running")
    outcome = await node.delete(handle)
    assert outcome.restarts == 0
    started = [one.container["name"] for one in node.runtime.named(names.START_CONTAINER)]
    assert started == ["web", "debug", "second"]
    assert {one.name for one in node.runtime.named(names.STOP_CONTAINER)} == {"web", "second"}


async def test_a_refused_one_leaves_no_trace(node: Node) -> None:
    """The message names the field."""
    pod = pod_json()
    handle = await ready(node, pod)
    assert await refusal(handle, "web") == ("Invalid", 'spec.ephemeralContainers[0].name: Duplicate value: "web"')
    before = len((await handle.fetch_history()).events)
    assert await refusal(handle, target="api") == (
        "Invalid",
        'spec.ephemeralContainers[0].targetContainerName: Not found: "api"',
    )
    assert (await refusal(handle, ports=[{"containerPort": 80}]))[1] == (
        "spec.ephemeralContainers[0].ports: Forbidden: cannot be set for an Ephemeral Container"
    )
    assert len((await handle.fetch_history()).events) == before
    await node.delete(handle)


async def test_of_two_with_one_name_one_is_added(node: Node) -> None:
    """Also if both are requested at once."""
    pod = pod_json()
    handle = await ready(node, pod)
    answers = await asyncio.gather(look(handle), look(handle), return_exceptions=True)
    assert sorted(type(one).__name__ for one in answers) == ["EphemeralContainerAdded", "WorkflowUpdateFailedError"]
    await node.until(pod, lambda one: state_of(one.status) == "running")
    await node.delete(handle)


async def test_one_waits_for_the_container_that_it_looks_into(node: Node) -> None:
    """Until its target runs again; it gives the reason, and nothing waits for it."""
    pod = pod_json(initContainers=[container("init")])
    handle = await node.start(pod)
    await node.until(pod, lambda one: "init" in one.containers)
    assert (await look(handle, target="web")).waits_for == "unable to find target container web"
    waiting = await node.until(pod, lambda one: state_of(one.status) == "waiting")
    (status,) = waiting.status["ephemeralContainerStatuses"]
    assert status["state"]["waiting"]["reason"] in ("PodInitializing", "CreateContainerConfigError")
    await look(handle, "other", target="init")
    await node.until(pod, lambda one: state_of(one.status, "other") == "running")
    await node.exits(handle, "init", 0)
    await node.until(pod, lambda one: state_of(one.status) == "running")
    await node.delete(handle)


async def test_a_listing_and_a_continued_run_keep_it(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """The manifest does not contain it, and it is not started again."""
    pod = pod_json()
    handle = await ready(node, pod)
    await look(handle)
    await node.until(pod, lambda one: state_of(one.status) == "running")
    monkeypatch.setattr("workflows.temporal_driver.SIGNALS_PER_RUN", 5)
    newest: Handle = node.client.get_workflow_handle(handle.id, result_type=PodOutcome)
    for _ in range(5):
        await newest.signal(names.POD_LISTED, PodListed("file", pod=pod, in_place=True))
        await newest.signal(names.RUNTIME_CHANGED, RuntimeChanged("resync"))
    with pytest.raises(WorkflowContinuedAsNewError):
        async with asyncio.timeout(PATIENCE):
            await handle.result(follow_runs=False)
    monkeypatch.undo()
    await look(newest, "second")
    after = await node.until(pod, lambda one: state_of(one.status, "second") == "running")
    assert state_of(after.status) == "running"
    assert [one.container["name"] for one in node.runtime.named(names.START_CONTAINER)] == ["web", "debug", "second"]
    await node.delete(newest)


async def test_a_pod_that_has_finished_takes_none(node: Node) -> None:
    """A running one is stopped, and only then is the phase final."""
    pod = pod_json(restartPolicy="Never")
    handle = await ready(node, pod)
    await look(handle)
    await node.until(pod, lambda one: state_of(one.status) == "running")
    gate = node.runtime.held[names.STOP_CONTAINER] = asyncio.Event()
    await node.exits(handle, "web", 0)
    going = await node.until(pod, lambda one: one.lifecycle == "terminating")
    assert going.phase == "Running"
    gate.set()
    over = await node.until(pod, lambda one: one.phase == "Succeeded")
    assert state_of(over.status) == "terminated"
    assert (await refusal(handle, "late"))[0] == "PodIsOver"
    await node.delete(handle)
