"""Does the workflow carry a resize out, step by step, whatever happens in between?"""

from dataclasses import replace
from typing import Any

from temporalio.exceptions import ApplicationError

from proto.temporal import names
from proto.temporal.pod import NodeSettings, Observed, PodJson, PodStart
from proto.temporal.resources import Allocatable, PendingResize, ResizeVerdict
from proto.temporal.signals import PodListed
from tests.workflows.conftest import Node, pod_json
from workflows.decide.versions import CURRENT
from workflows.pod import PodWorkflow

SMALL = {"requests": {"memory": "32Mi"}, "limits": {"memory": "64Mi"}}
LARGE = {"requests": {"memory": "32Mi"}, "limits": {"memory": "128Mi"}}
RESIZES = (names.UPDATE_POD_SANDBOX_RESOURCES, names.UPDATE_CONTAINER_RESOURCES)


def sized(pod: PodJson, resources: PodJson, generation: int = 1) -> PodJson:
    """Set the resources of every container of a pod."""
    containers = [{**one, "resources": resources} for one in pod["spec"]["containers"]]
    return {
        "metadata": {**pod["metadata"], "generation": generation},
        "spec": {**pod["spec"], "containers": containers},
    }


def listed(pod: PodJson) -> PodListed:
    """List it as the poller does."""
    return PodListed("file", pod=pod, in_place=True)


def steps(node: Node) -> list[str]:
    """Return the steps of a resize, in order."""
    return [name for name, _ in node.runtime.calls if name in RESIZES]


def conditions(snapshot: Any) -> dict[str, dict[str, Any]]:
    """Return the conditions by type."""
    return {one["type"]: one for one in snapshot.status.get("conditions", ())}


def has(snapshot: Any) -> Any:
    """Return the container's resources in the status."""
    return snapshot.status["containerStatuses"][0]["resources"]


def is_done(snapshot: Any, generation: int) -> bool:
    """Return whether a generation is applied and its resize finished."""
    taken = snapshot.status.get("observedGeneration") == generation
    return taken and "PodResizeInProgress" not in conditions(snapshot)


async def test_up_and_down(node: Node) -> None:
    """The pod's cgroup first when it grows, last when it shrinks; no restart, and nothing more when it is done."""
    pod = sized(pod_json(), SMALL)
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    await handle.signal(names.POD_LISTED, listed(sized(pod, LARGE, 2)))
    after = await node.until(pod, lambda one: is_done(one, 2))
    assert steps(node) == [*RESIZES]
    assert (has(after), after.restarts) == (LARGE, 0)
    await handle.signal(names.POD_LISTED, listed(sized(pod, SMALL, 3)))
    after = await node.until(pod, lambda one: is_done(one, 3))
    assert steps(node) == [*RESIZES, *reversed(RESIZES)]
    assert has(after) == SMALL
    await node.delete(handle)


async def test_a_step_that_fails_is_told_and_another_resize_is_another_try(node: Node) -> None:
    """The container keeps its resources."""
    pod = sized(pod_json(), LARGE)
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    refused = ApplicationError("below current usage", type="ResizePodInPlaceError", non_retryable=True)
    node.runtime.failing[names.UPDATE_CONTAINER_RESOURCES].append(refused)
    await handle.signal(names.POD_LISTED, listed(sized(pod, SMALL, 2)))
    failed = await node.until(pod, lambda one: conditions(one).get("PodResizeInProgress", {}).get("reason") == "Error")
    assert conditions(failed)["PodResizeInProgress"]["message"] == "below current usage"
    assert has(failed) == LARGE
    await handle.signal(names.POD_LISTED, listed(sized(pod, LARGE, 3)))
    after = await node.until(pod, lambda one: is_done(one, 3))
    assert has(after) == LARGE
    assert steps(node)[:2] == [names.UPDATE_CONTAINER_RESOURCES] * 2, "it is told again, for nobody knows what it has"
    await node.delete(handle)


async def test_a_restart_while_a_resize_is_refused_keeps_what_is_granted(node: Node) -> None:
    """An infeasible resize reaches neither the runtime nor the next start."""
    pod = sized(pod_json(), SMALL)
    handle = await node.start(pod, NodeSettings(allocatable=Allocatable(4000, 2**30)))
    await node.until(pod, lambda one: one.ready)
    much = {"requests": {"memory": "2Gi"}, "limits": {"memory": "4Gi"}}
    await handle.signal(names.POD_LISTED, listed(sized(pod, much, 2)))
    await node.until(pod, lambda one: "PodResizePending" in conditions(one))
    await node.exits(handle, "web", 1)
    again = await node.until(pod, lambda one: one.ready and one.restarts == 1)
    assert (has(again), conditions(again)["PodResizePending"]["reason"]) == (SMALL, "Infeasible")
    assert node.runtime.named(names.START_CONTAINER)[-1].container["resources"] == SMALL
    assert not steps(node)
    await handle.signal(names.POD_LISTED, listed(sized(pod, SMALL, 3)))
    await node.until(pod, lambda one: "PodResizePending" not in conditions(one))
    await node.delete(handle)


async def test_what_the_node_does_not_grant_is_shown_until_it_is_granted(node: Node) -> None:
    """The pod is listed with what it is granted; a listing that grants nothing reaches neither runtime nor next start."""
    pod = sized(pod_json(), SMALL)
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    deferred = PendingResize("Deferred", "no room", 2, "OutOfmemory", {"web": LARGE})
    asked = replace(listed(sized(pod, SMALL, 2)), resize=ResizeVerdict(deferred))
    await handle.signal(names.POD_LISTED, asked)
    waits = await node.until(pod, lambda one: "PodResizePending" in conditions(one))
    condition = conditions(waits)["PodResizePending"]
    assert (condition["reason"], condition["message"], condition["observedGeneration"]) == ("Deferred", "no room", 2)
    assert (waits.resize_cause, waits.resize_asked) == ("OutOfmemory", {"web": LARGE})
    assert (has(waits), waits.status["observedGeneration"]) == (SMALL, 2)
    await node.exits(handle, "web", 1)
    again = await node.until(pod, lambda one: one.ready and one.restarts == 1)
    assert (has(again), steps(node)) == (SMALL, [])
    await handle.signal(names.POD_LISTED, replace(listed(sized(pod, LARGE, 2)), resize=ResizeVerdict()))
    after = await node.until(pod, lambda one: is_done(one, 2) and has(one) == LARGE)
    assert "PodResizePending" not in conditions(after)
    await node.delete(handle)


async def test_what_the_node_grants_is_not_judged_again(node: Node) -> None:
    """Not even beyond what the run was told of the node."""
    pod = sized(pod_json(), SMALL)
    handle = await node.start(pod, NodeSettings(allocatable=Allocatable(4000, 2**20)))
    await node.until(pod, lambda one: one.ready)
    more = {"requests": {"memory": "48Mi"}, "limits": {"memory": "64Mi"}}
    await handle.signal(names.POD_LISTED, replace(listed(sized(pod, more, 2)), resize=ResizeVerdict()))
    after = await node.until(pod, lambda one: is_done(one, 2) and has(one) == more)
    assert "PodResizePending" not in conditions(after)
    await node.delete(handle)


async def test_a_run_that_is_continued_goes_on_with_the_resize(node: Node) -> None:
    """The listing is the last signal of the previous run, which starts nothing of the resize."""
    pod = sized(pod_json(), SMALL)
    meta = pod["metadata"]
    handle = await node.client.start_workflow(
        PodWorkflow.run,
        PodStart(node.name, pod, behaviour=CURRENT, observed=Observed(signals=1999)),
        id=str(names.PodWorkflowId(node.name, meta["namespace"], meta["name"], meta["uid"])),
        task_queue=names.node_task_queue(node.name),
    )
    await node.until(pod, lambda one: one.ready)
    first = (await handle.describe()).run_id
    await handle.signal(names.POD_LISTED, listed(sized(pod, LARGE, 2)))
    after = await node.until(pod, lambda one: is_done(one, 2) and has(one) == LARGE)
    assert (steps(node), after.restarts) == ([*RESIZES], 0)
    newest = node.client.get_workflow_handle(handle.id)
    assert (await newest.describe()).run_id != first
    await node.delete(newest)
