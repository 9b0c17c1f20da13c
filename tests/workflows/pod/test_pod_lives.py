"""Does PodWorkflow run a pod through each kind of life, and leave nothing behind?"""

import asyncio

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.exceptions import ApplicationError

from proto.temporal import names
from proto.temporal.pod import ContainerState
from proto.temporal.signals import DeletionRequested, PodListed, RuntimeChanged
from tests.patience import PATIENCE
from tests.workflows.conftest import Node, container, pod_json


async def test_a_plain_pod_runs_and_goes(node: Node) -> None:
    """At most 45 events from listing to running, and after deletion the runtime is empty."""
    pod = pod_json()
    handle = await node.start(pod)
    snapshot = await node.until(pod, lambda one: one.ready)
    assert (snapshot.phase, snapshot.restarts, snapshot.status["podIP"]) == ("Running", 0, "10.88.0.5")
    history = await handle.fetch_history()
    assert len(history.events) <= 45
    assert sum(event.ByteSize() for event in history.events) <= 40 * 1024
    outcome = await node.delete(handle)
    assert (outcome.reason, node.runtime.sandboxes, node.runtime.containers) == ("ManifestRemoved", {}, {})
    assert node.runtime.directories == set()


async def test_init_containers_run_in_order(node: Node) -> None:
    """Each starts only after the previous one has succeeded."""
    pod = pod_json(initContainers=[container("a"), container("b"), container("c")])
    for name in "abc":
        node.runtime.exits_at_once[name] = [0]
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    starts = node.runtime.named(names.START_CONTAINER)
    assert [(one.container["name"], bool(one.end_within)) for one in starts] == [
        *((one, True) for one in "abc"),
        ("web", False),
    ]
    await node.delete(handle)


async def test_an_end_that_its_start_tells_needs_no_look(node: Node) -> None:
    """Six events for each init container, the poller is told not to report its exit, and a hint of it changes nothing."""
    pod = pod_json(initContainers=[container("a"), container("b")])
    node.runtime.exits_at_once |= {"a": [0], "b": [0]}
    node.runtime.held[names.START_CONTAINER] = asyncio.Event()
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.ends_awaited == ("a",))
    node.runtime.held.pop(names.START_CONTAINER).set()
    snapshot = await node.until(pod, lambda one: one.ready)
    assert snapshot.ends_awaited == ()
    init = next(one.container_id for one in node.runtime.containers.values() if one.name == "a")
    await handle.signal(names.RUNTIME_CHANGED, RuntimeChanged("event", exited=(init,)))
    await handle.query(names.POD_STATUS)
    assert not node.runtime.named(names.READ_POD_RUNTIME)
    events = [event.event_type for event in (await handle.fetch_history()).events]
    assert events.count(EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED) == len(("sandbox", "image", "a", "b", "web"))
    assert events.count(EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED) == len(("listed", "hint"))
    await node.delete(handle)


async def test_a_failing_init_container_is_started_again(node: Node) -> None:
    """After two failures it succeeds: the pod runs and the restarts are counted."""
    pod = pod_json(initContainers=[container("a")])
    node.runtime.exits_at_once["a"] = [1, 2, 0]
    handle = await node.start(pod)
    snapshot = await node.until(pod, lambda one: one.ready)
    assert snapshot.restarts == 2
    await node.delete(handle)


async def test_a_failed_init_container_fails_a_pod_that_never_restarts(node: Node) -> None:
    """Nothing else starts, the pod is Failed, and its workflow stays open until the manifest is removed."""
    pod = pod_json(initContainers=[container("a")], restartPolicy="Never")
    node.runtime.exits_at_once["a"] = [3]
    handle = await node.start(pod)
    snapshot = await node.until(pod, lambda one: one.lifecycle == "terminated")
    assert (snapshot.phase, len(node.runtime.named(names.START_CONTAINER))) == ("Failed", 1)
    outcome = await node.delete(handle)
    assert outcome.phase == "Failed"


async def test_a_crash_loop_backs_off(node: Node) -> None:
    """The first restart is immediate, the second waits in CrashLoopBackOff, and counts only grow."""
    pod = pod_json()
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    await node.exits(handle, "web", 1)
    await node.until(pod, lambda one: one.ready and one.restarts == 1)
    await node.exits(handle, "web", 1)
    waiting = await node.until(pod, lambda one: one.reason == "CrashLoopBackOff")
    assert "restarting failed container=web" in waiting.message
    await node.until(pod, lambda one: one.ready and one.restarts == 2)
    assert waiting.status["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 1
    await node.delete(handle)


@pytest.mark.parametrize(
    ("policy", "exit_code", "phase"),
    [
        pytest.param("Never", 0, "Succeeded", id="never-and-success"),
        pytest.param("Never", 1, "Failed", id="never-and-failure"),
        pytest.param("OnFailure", 0, "Succeeded", id="on-failure-and-success"),
    ],
)
async def test_a_pod_that_ends_stays_terminated(node: Node, policy: str, exit_code: int, phase: str) -> None:
    """Its sandbox is stopped, its dead container is kept, its workflow stays open."""
    pod = pod_json(restartPolicy=policy)
    node.runtime.exits_at_once["web"] = [exit_code]
    handle = await node.start(pod)
    snapshot = await node.until(pod, lambda one: one.lifecycle == "terminated")
    assert snapshot.phase == phase
    assert [one.ready for one in node.runtime.sandboxes.values()] == [False]
    assert len(node.runtime.containers) == 1
    await node.delete(handle)
    assert not node.runtime.containers


async def test_an_image_that_is_not_found_is_asked_for_again(node: Node) -> None:
    """ErrImagePull, then ImagePullBackOff, then the pod runs."""
    pod = pod_json()
    error = ApplicationError("busybox:1: not found", type="ErrImagePull", non_retryable=True)
    node.runtime.failing[names.PULL_IMAGE] = [error, error]
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.reason == "ErrImagePull")
    backing_off = await node.until(pod, lambda one: one.reason == "ImagePullBackOff")
    assert "ErrImagePull: busybox:1: not found" in backing_off.message
    await node.until(pod, lambda one: one.ready)
    await node.delete(handle)


async def test_deletion_while_the_image_is_pulled(node: Node) -> None:
    """The pull of a deleted pod is cancelled."""
    pod = pod_json()
    node.runtime.held[names.PULL_IMAGE] = asyncio.Event()
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.sandbox_ready)
    await node.delete(handle)
    node.runtime.held[names.PULL_IMAGE].set()
    assert not node.runtime.sandboxes
    assert not node.runtime.named(names.READ_POD_RUNTIME), "a pull that we gave up is no failure to look into"


async def test_an_image_name_of_any_length_leaves_the_pod_in_our_hands(node: Node) -> None:
    """Temporal limits activity ids to 1,000 bytes: a longer one would fail each workflow task, also the deletion's."""
    pod = pod_json(containers=[{**container("web"), "image": "b" * 5000}])
    error = ApplicationError("invalid reference format", type="InvalidImageName", non_retryable=True)
    node.runtime.failing[names.PULL_IMAGE] = [error]
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.reason == "InvalidImageName")
    await node.delete(handle)


async def test_deletion_before_the_sandbox_exists(node: Node) -> None:
    """A sandbox created meanwhile is found and removed."""
    pod = pod_json()
    gate = node.runtime.held[names.RUN_POD_SANDBOX] = asyncio.Event()
    handle = await node.start(pod)
    await node.called(names.RUN_POD_SANDBOX)
    await handle.signal(names.DELETION_REQUESTED, DeletionRequested("file", "ManifestRemoved"))
    await node.until(pod, lambda one: one.deleting)
    gate.set()
    async with asyncio.timeout(PATIENCE):
        await handle.result()
    assert not node.runtime.sandboxes
    assert not node.runtime.named(names.START_CONTAINER)


async def test_a_lost_sandbox_is_replaced(node: Node) -> None:
    """Everything starts again in the next attempt; the old sandbox is removed."""
    pod = pod_json()
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    (old,) = node.runtime.sandboxes.values()
    node.runtime.sandboxes[old.sandbox_id] = type(old)(old.sandbox_id, old.attempt, ready=False)
    await handle.signal(names.RUNTIME_CHANGED, RuntimeChanged("event", sandbox_lost=True))
    snapshot = await node.until(pod, lambda one: one.ready and one.sandbox_id != old.sandbox_id)
    assert snapshot.restarts == 1
    assert [one.attempt for one in node.runtime.named(names.RUN_POD_SANDBOX)] == [0, 1]
    await node.delete(handle)


async def test_a_successor_waits_for_its_predecessor(node: Node) -> None:
    """The sandbox is requested again once no other pod of that name is left."""
    pod = pod_json()
    node.runtime.predecessors = {"old-uid"}
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    assert len(node.runtime.named(names.AWAIT_PREDECESSOR)) == 1
    await node.delete(handle)


async def test_a_pod_listed_again_while_it_goes_comes_back(node: Node) -> None:
    """The same uid, a new run, everything from the start, except that it counts as a restart."""
    pod = pod_json()
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    gate = node.runtime.held[names.STOP_CONTAINER] = asyncio.Event()
    await handle.signal(names.DELETION_REQUESTED, DeletionRequested("file", "ManifestRemoved"))
    await node.until(pod, lambda one: one.deleting)
    await handle.signal(names.POD_LISTED, PodListed("file"))
    gate.set()
    back = await node.until(pod, lambda one: one.ready and not one.deleting)
    assert len(node.runtime.named(names.RUN_POD_SANDBOX)) == 2
    assert (back.restarts, [one.attempt for one in back.containers.values()]) == (1, [1])
    del node.runtime.held[names.STOP_CONTAINER]
    await node.delete(node.newest(pod))


async def test_a_failed_start_is_tried_again_with_its_reason_shown(node: Node) -> None:
    """CreateContainerError is a waiting state, not the end."""
    pod = pod_json()
    node.runtime.failing[names.START_CONTAINER] = [
        ApplicationError("no such device", type="CreateContainerError", non_retryable=True)
    ]
    handle = await node.start(pod)
    snapshot = await node.until(pod, lambda one: one.reason == "CreateContainerError")
    assert snapshot.message == "no such device"
    await node.until(pod, lambda one: one.ready)
    await node.delete(handle)


async def test_a_hint_without_news_costs_no_activity(node: Node) -> None:
    """A known exit is not read again."""
    pod = pod_json(restartPolicy="Never")
    node.runtime.exits_at_once["web"] = [0]
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.lifecycle == "terminated")
    (ended,) = node.runtime.containers
    await handle.signal(names.RUNTIME_CHANGED, RuntimeChanged("event", exited=(ended,)))
    await node.delete(handle)
    assert not node.runtime.named(names.READ_POD_RUNTIME)


async def test_a_container_that_vanished_counts_as_ended(node: Node) -> None:
    """Only its absence is known: it gets the kubelet's reason for that, and a restart."""
    pod = pod_json()
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    (gone,) = node.runtime.live().values()
    assert gone.state is ContainerState.RUNNING
    del node.runtime.containers[gone.container_id]
    await handle.signal(names.RUNTIME_CHANGED, RuntimeChanged("relist"))
    snapshot = await node.until(pod, lambda one: one.ready and one.restarts == 1)
    last = snapshot.status["containerStatuses"][0]["lastState"]["terminated"]
    assert (last["reason"], last["exitCode"]) == ("ContainerStatusUnknown", 137)
    await node.delete(handle)


async def test_a_long_history_is_continued_as_new(node: Node) -> None:
    """After 2,000 signals the new run has the whole state and starts nothing twice."""
    pod = pod_json()
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    first = (await handle.describe()).run_id
    for _ in range(25):
        await asyncio.gather(
            *[handle.signal(names.RUNTIME_CHANGED, RuntimeChanged("event", exited=("nobody",))) for _ in range(80)]
        )
    async with asyncio.timeout(PATIENCE):
        while (await handle.describe()).run_id == first:
            await handle.signal(names.RUNTIME_CHANGED, RuntimeChanged("resync"))
    await node.delete(node.newest(pod))
    assert len(node.runtime.named(names.RUN_POD_SANDBOX)) == 1


async def test_a_pod_edited_under_a_uid_of_its_own_is_replaced(node: Node) -> None:
    """The uid does not change with the edit, so the listing carries the new pod: the old one is deleted, the new one starts."""
    pod = pod_json()
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    edited = {**pod, "spec": {**pod["spec"], "containers": [container("web", image="busybox:2")]}}
    await handle.signal(names.POD_LISTED, PodListed("file", pod=pod))
    await handle.signal(names.POD_LISTED, PodListed("file", pod=edited))
    await node.until(pod, lambda one: one.ready and one.status["containerStatuses"][0]["image"] == "busybox:2")
    assert len(node.runtime.named(names.RUN_POD_SANDBOX)) == 2
    await node.delete(node.newest(pod))


async def test_a_runtime_that_is_away_is_asked_again(node: Node) -> None:
    """What could not be read within the workflow task is read by an activity, which waits for the runtime."""
    pod = pod_json()
    away = ApplicationError("no container runtime answers", type="RuntimeAway")
    node.runtime.failing[names.READ_IMAGES] = [away, away]
    node.runtime.failing[names.RUN_POD_SANDBOX] = [away]
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    assert len(node.runtime.named(names.READ_IMAGES)) == 3
    await node.delete(handle)
