"""Does the workflow apply an edit under the same uid in place, and keep it?"""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from proto.temporal import names
from proto.temporal.activities.requests import StartContainer, StopContainer
from proto.temporal.pod import Observed, PodJson, PodStart
from proto.temporal.signals import PodListed
from tests.workflows.conftest import QUICK, Node, container, pod_json
from workflows.decide.versions import CURRENT
from workflows.pod import PodWorkflow

NEW = "busybox:2"


def relabelled(pod: PodJson, **labels: str) -> PodJson:
    """Change the pod's labels."""
    return {**pod, "metadata": {**pod["metadata"], "labels": labels}}


def edited(pod: PodJson, **spec: Any) -> PodJson:
    """Change fields of its spec."""
    return {**pod, "spec": {**pod["spec"], **spec}}


def listed(pod: PodJson) -> PodListed:
    """List it as the poller does."""
    return PodListed("file", pod=pod, in_place=True)


async def test_labels_change_without_a_restart_and_the_next_start_has_them(node: Node) -> None:
    """The status has its generation as soon as they are applied."""
    pod = pod_json()
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    new = relabelled(pod, app="two")
    new["metadata"]["generation"] = 2
    await handle.signal(names.POD_LISTED, listed(new))
    await node.until(pod, lambda one: one.status.get("observedGeneration") == 2)
    assert len(node.runtime.named(names.START_CONTAINER)) == 1
    await node.exits(handle, "web", 1)
    await node.until(pod, lambda one: one.ready and one.restarts == 1)
    start = node.runtime.named(names.START_CONTAINER)[-1]
    assert isinstance(start, StartContainer)
    assert start.sandbox_spec["metadata"]["labels"] == {"app": "two"}
    assert len(node.runtime.named(names.RUN_POD_SANDBOX)) == 1
    await node.delete(handle)


async def test_a_deadline_that_is_shortened_acts_at_once(node: Node) -> None:
    """The pod ends, and is not replaced."""
    pod = pod_json(activeDeadlineSeconds=3600)
    handle = await node.start(pod)
    first = await node.until(pod, lambda one: one.ready)
    await handle.signal(names.POD_LISTED, listed(edited(pod, activeDeadlineSeconds=1)))
    ended = await node.until(pod, lambda one: one.lifecycle == "terminated")
    assert (ended.reason, ended.phase, ended.sandbox_id) == ("DeadlineExceeded", "Failed", first.sandbox_id)
    await node.delete(handle)


async def test_another_image_restarts_its_container_in_place(node: Node) -> None:
    """Whatever its policy, and no other container."""
    pod = pod_json(restartPolicy="Never", containers=[container("web"), container("other")])
    handle = await node.start(pod)
    first = await node.until(pod, lambda one: one.ready)
    await handle.signal(
        names.POD_LISTED, listed(edited(pod, containers=[container("web", image=NEW), container("other")]))
    )
    after = await node.until(pod, lambda one: one.ready and one.restarts == 1)
    assert (after.sandbox_id, after.phase) == (first.sandbox_id, "Running")
    stop, *others = node.runtime.named(names.STOP_CONTAINER)
    assert isinstance(stop, StopContainer)
    assert (stop.name, others) == ("web", [])
    assert {one.name: one.image for one in node.runtime.live().values()} == {"web": NEW, "other": "busybox:1"}
    assert (await node.delete(handle)).phase == "Failed"


async def test_a_crash_loop_ends_with_another_image(node: Node) -> None:
    """It starts at once: the back-off belonged to the old image."""
    pod = pod_json()
    node.runtime.exits_at_once["web"] = [1, 1]
    handle = await node.start(pod, replace(QUICK, max_container_restart_period=timedelta(hours=1)))
    await node.until(pod, lambda one: one.reason == "CrashLoopBackOff" and one.restarts == 1)
    await handle.signal(names.POD_LISTED, listed(edited(pod, containers=[container("web", image=NEW)])))
    await node.until(pod, lambda one: one.ready and one.restarts == 2)
    await node.delete(handle)


async def test_a_run_that_is_continued_goes_on_with_the_edit(node: Node) -> None:
    """It is the last signal of the previous run."""
    pod = pod_json()
    handle = await node.client.start_workflow(
        PodWorkflow.run,
        PodStart(node.name, pod, behaviour=CURRENT, observed=Observed(signals=1999)),
        id=node.workflow_id(pod),
        task_queue=names.node_task_queue(node.name),
    )
    await node.until(pod, lambda one: one.ready)
    first = (await handle.describe()).run_id
    new = relabelled(pod, app="two")
    new["metadata"]["generation"] = 2
    await handle.signal(names.POD_LISTED, listed(new))
    await node.until(pod, lambda one: one.status.get("observedGeneration") == 2)
    newest = node.client.get_workflow_handle(handle.id)
    await node.delete(newest)
    assert (await newest.describe()).run_id != first
    events = [event async for event in newest.fetch_history_events()]
    assert events[0].workflow_execution_started_event_attributes.continued_execution_run_id == first
