"""Does PodWorkflow end a pod at its deadline, and at once when it is deleted, in any state?"""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from temporalio.client import WorkflowHandle

from proto.pod_snapshot import PodSnapshot
from proto.temporal import names
from proto.temporal.pod import Observed, PodStart
from proto.temporal.signals import DeletionRequested, PodListed, RuntimeChanged
from tests.patience import PATIENCE
from tests.workflows.conftest import Node, container, pod_json
from workflows.decide.versions import CURRENT
from workflows.pod import PodWorkflow

SECOND = timedelta(seconds=1)
READY_WITHIN: Final = 5
"""Seconds within which a pod is ready even on a busy machine."""


def going(grace: float | None = None) -> DeletionRequested:
    """Build a request to delete the pod."""
    return DeletionRequested("operator", "Deleted", "", None if grace is None else timedelta(seconds=grace))


async def timers(handle: WorkflowHandle[Any, Any]) -> list[str]:
    """Return a workflow's pending timers."""
    await handle.query(names.POD_STATUS)  # answered after the current task, when its commands are in the history
    pending: dict[int, str] = {}
    async for event in handle.fetch_history_events():
        if event.HasField("timer_started_event_attributes"):
            pending[event.event_id] = event.timer_started_event_attributes.timer_id
        ended = event.timer_canceled_event_attributes.started_event_id
        pending.pop(ended or event.timer_fired_event_attributes.started_event_id, None)
    return list(pending.values())


async def test_a_pod_that_is_active_for_too_long_fails(node: Node) -> None:
    """Stopped with its own grace period, Failed with the reason, kept until its manifest is removed."""
    pod = pod_json(activeDeadlineSeconds=READY_WITHIN)
    handle = await node.start(pod)
    running = await node.until(pod, lambda one: one.ready)
    ended = await node.until(pod, lambda one: one.lifecycle == "terminated")
    assert (ended.phase, ended.reason, ended.deleting) == ("Failed", "DeadlineExceeded", False)
    said = "Pod was active on the node longer than the specified deadline"
    assert (ended.status["reason"], ended.status["message"]) == ("DeadlineExceeded", said)
    assert "reason" not in running.status
    conditions = {one["type"]: (one["status"], one.get("reason")) for one in ended.status["conditions"]}
    assert conditions["Ready"] == conditions["ContainersReady"] == ("False", "PodFailed")
    (stop,) = node.runtime.named(names.STOP_CONTAINER)
    assert (stop.grace, stop.reason) == (SECOND, f"DeadlineExceeded: {said}")
    assert len(node.runtime.containers) == 1
    outcome = await node.delete(handle)
    assert (outcome.phase, outcome.reason, outcome.message) == ("Failed", "DeadlineExceeded", said)
    assert node.runtime.sandboxes == {}


@pytest.mark.parametrize(
    "held",
    [
        pytest.param(names.RUN_POD_SANDBOX, id="while-its-sandbox-is-made"),
        pytest.param(names.PULL_IMAGE, id="while-its-image-is-pulled"),
        pytest.param(names.START_CONTAINER, id="while-its-container-starts"),
    ],
)
async def test_a_deadline_during_the_start(node: Node, held: str) -> None:
    """The time counts from the pod's start, not its first container's; what is created meanwhile is found and stopped."""
    pod = pod_json(activeDeadlineSeconds=1)
    gate = node.runtime.held[held] = asyncio.Event()
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.reason == "DeadlineExceeded")
    gate.set()
    ended = await node.until(pod, lambda one: one.lifecycle == "terminated")
    assert (ended.phase, node.runtime.live()) == ("Failed", {})
    await node.delete(handle)


async def test_a_pod_that_finishes_in_time_has_not_failed(node: Node) -> None:
    """Its timer is cancelled."""
    pod = pod_json(activeDeadlineSeconds=60, restartPolicy="Never")
    node.runtime.exits_at_once["web"] = [0]
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.lifecycle == "terminated")
    assert await timers(handle) == []
    assert (await node.delete(handle)).phase == "Succeeded"


async def test_the_longest_deadline_is_a_timer_that_temporal_takes(node: Node) -> None:
    """68 years."""
    pod = pod_json(activeDeadlineSeconds=2**31 - 1)
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    await node.delete(handle)


async def test_a_deadline_that_is_edited_under_the_same_uid(node: Node) -> None:
    """It is a new pod, and so is its deadline."""
    pod = pod_json(activeDeadlineSeconds=3600)
    handle = await node.start(pod)
    first = await node.until(pod, lambda one: one.ready)
    edited = {**pod, "spec": {**pod["spec"], "activeDeadlineSeconds": READY_WITHIN}}
    await handle.signal(names.POD_LISTED, PodListed("file", pod=edited))
    again = await node.until(pod, lambda one: one.ready and one.sandbox_id != first.sandbox_id)
    assert again.started_at >= first.started_at
    ended = await node.until(pod, lambda one: one.lifecycle == "terminated")
    assert ended.reason == "DeadlineExceeded"
    await node.delete(node.client.get_workflow_handle(handle.id))


async def test_a_run_that_is_continued_keeps_the_deadline(node: Node) -> None:
    """It counts from the pod's start, not the run's."""
    pod = pod_json(activeDeadlineSeconds=60)
    known = Observed(started_at=datetime.now(UTC) - timedelta(seconds=60 - READY_WITHIN))
    handle = await node.client.start_workflow(
        PodWorkflow.run,
        PodStart(node.name, pod, behaviour=CURRENT, observed=known),
        id=node.workflow_id(pod),
        task_queue=names.node_task_queue(node.name),
    )
    await node.until(pod, lambda one: one.ready)
    ended = await node.until(pod, lambda one: one.lifecycle == "terminated")
    assert ended.reason == "DeadlineExceeded"
    await node.delete(handle)


async def test_the_wait_for_a_predecessor_does_not_count(node: Node) -> None:
    """The pod is active, and its startTime set, only from then on."""
    pod = pod_json(activeDeadlineSeconds=READY_WITHIN)
    node.runtime.predecessors = {"old-uid"}
    gate = node.runtime.held[names.AWAIT_PREDECESSOR] = asyncio.Event()
    handle = await node.start(pod)
    waiting = await node.until(pod, lambda one: one.reason == "PredecessorPresent")
    assert await timers(handle) == []
    assert node.snapshots[pod["metadata"]["uid"]] == waiting
    let_go_at = datetime.now(UTC)
    gate.set()
    ready = await node.until(pod, lambda one: one.ready)
    assert datetime.fromisoformat(ready.status["startTime"]) >= let_go_at
    await node.until(pod, lambda one: one.reason == "DeadlineExceeded")
    await node.delete(handle)


async def test_deletion_while_a_predecessor_is_there(node: Node) -> None:
    """The wait is cancelled, and nothing was created."""
    pod = pod_json()
    node.runtime.predecessors = {"old-uid"}
    node.runtime.held[names.AWAIT_PREDECESSOR] = asyncio.Event()
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.reason == "PredecessorPresent")
    await node.delete(handle)
    assert len(node.runtime.named(names.RUN_POD_SANDBOX)) == 1
    assert node.runtime.sandboxes == {}


@pytest.mark.parametrize(
    ("grace", "shortened"),
    [
        pytest.param(1, SECOND, id="a-shorter-grace"),
        pytest.param(0, SECOND, id="by-force"),
    ],
)
async def test_a_second_deletion_shortens_a_stop_under_way(node: Node, grace: float, shortened: timedelta) -> None:
    """By a second stop beside the first, which returns the same exit."""
    pod = pod_json(terminationGracePeriodSeconds=300)
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    node.runtime.held[names.STOP_CONTAINER] = asyncio.Event()
    await handle.signal(names.DELETION_REQUESTED, going())
    await node.called(names.STOP_CONTAINER)
    await handle.signal(names.DELETION_REQUESTED, going(grace))
    async with asyncio.timeout(PATIENCE):
        outcome = await handle.result()
    (stop,), (shorter,) = node.runtime.named(names.STOP_CONTAINER), node.runtime.named(names.SHORTEN_STOP)
    assert (stop.grace, shorter.grace) == (timedelta(seconds=300), shortened)
    assert shorter.container_id == stop.container_id
    assert (outcome.phase, outcome.reason) == ("Failed", "Deleted")


async def test_a_longer_grace_changes_nothing(node: Node) -> None:
    """Nor does the same one again."""
    pod = pod_json(terminationGracePeriodSeconds=30)
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    gate = node.runtime.held[names.STOP_CONTAINER] = asyncio.Event()
    await handle.signal(names.DELETION_REQUESTED, going())
    await node.called(names.STOP_CONTAINER)
    await handle.signal(names.DELETION_REQUESTED, going(90))
    await handle.signal(names.DELETION_REQUESTED, going())
    await node.until(pod, lambda one: one.deleting)
    gate.set()
    async with asyncio.timeout(PATIENCE):
        await handle.result()
    assert not node.runtime.named(names.SHORTEN_STOP)


@pytest.mark.parametrize("number", [0, 1, 2])
async def test_deletion_in_each_init_container(node: Node, number: int) -> None:
    """The running one is stopped, no later one starts."""
    inits = ["a", "b", "c"]
    pod = pod_json(initContainers=[container(name) for name in inits])
    for name in inits[:number]:
        node.runtime.exits_at_once[name] = [0]
    handle = await node.start(pod)

    def runs(one: PodSnapshot) -> bool:
        return one.containers.get(inits[number]) is not None and one.containers[inits[number]].state.endswith("RUNNING")

    await node.until(pod, runs)
    outcome = await node.delete(handle)
    started = [one.container["name"] for one in node.runtime.named(names.START_CONTAINER)]
    assert started == inits[: number + 1]
    assert [one.name for one in node.runtime.named(names.STOP_CONTAINER)] == [inits[number]]
    assert (outcome.phase, node.runtime.sandboxes) == ("Failed", {})


async def test_deletion_while_a_container_starts(node: Node) -> None:
    """It is stopped as soon as it runs."""
    pod = pod_json()
    gate = node.runtime.held[names.START_CONTAINER] = asyncio.Event()
    handle = await node.start(pod)
    await node.called(names.START_CONTAINER)
    await handle.signal(names.DELETION_REQUESTED, going())
    await node.until(pod, lambda one: one.deleting)
    gate.set()
    async with asyncio.timeout(PATIENCE):
        await handle.result()
    assert len(node.runtime.named(names.STOP_CONTAINER)) == 1
    assert node.runtime.sandboxes == {}


async def test_a_shorter_grace_is_heard_by_a_run_that_is_about_to_be_continued(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a run waits for the pending stop, which may have a grace period of hours."""
    monkeypatch.setattr("workflows.temporal_driver.SIGNALS_PER_RUN", 3)
    node.runtime.held[names.STOP_CONTAINER] = asyncio.Event()
    pod = pod_json(terminationGracePeriodSeconds=3600)
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    await handle.signal(names.DELETION_REQUESTED, going())
    stop = await node.called(names.STOP_CONTAINER)
    await handle.signal(names.RUNTIME_CHANGED, RuntimeChanged("event", exited=(stop.container_id,)))
    await handle.signal(names.DELETION_REQUESTED, going(grace=0))
    assert (await node.called(names.SHORTEN_STOP)).grace == SECOND
    async with asyncio.timeout(PATIENCE):
        await handle.result()
