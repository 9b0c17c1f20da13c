"""Lives with requests from outside, for `record_histories`: edits, deletions, operators, deadlines."""

import asyncio
import signal
from datetime import timedelta

from proto.temporal import names
from proto.temporal.names import DELETION_REQUESTED
from proto.temporal.operator import (
    BackoffsSkipped,
    ConditionSet,
    EvictPod,
    PodEvicted,
    PodStops,
    SetCondition,
    SkipBackoff,
    StopPod,
)
from proto.temporal.signals import DeletionRequested
from tests.node.operating import look_in
from tests.node.recordings.recorded_pods import init
from tests.node.tempolet_node import BUSYBOX, TempoletNode, pod_manifest


def deletion_during_start(node: TempoletNode) -> None:
    """The manifest is removed as soon as the pod is known."""
    node.apply(pod_manifest("pod", initContainers=init(0, 0, 0)))
    node.until_pod("pod", lambda one: one.sandbox_id or one.phase == "Pending", "known")
    node.take_away("pod")


def manifest_edit(node: TempoletNode) -> None:
    """A successor waits for its predecessor."""
    node.apply(pod_manifest("pod", "sleep 3600"))
    first = node.until_running("pod")
    node.apply(pod_manifest("pod", "sleep 3601"))
    node.until_pod("pod", lambda one: one.uid != first.uid and one.ready, "the successor")


def listed_again(node: TempoletNode) -> None:
    """The manifest reappears while its pod terminates."""
    manifest = pod_manifest("pod", "trap '' TERM; sleep 3600 & wait; sleep 3600")
    node.apply(manifest)
    first = node.until_running("pod")
    node.remove("pod")
    node.until_pod("pod", lambda one: one.deleting, "going")
    node.apply(manifest)
    node.until_pod("pod", lambda one: one.ready and one.sandbox_id != first.sandbox_id and not one.deleting, "back")


def skipped_backoff(node: TempoletNode) -> None:
    """An operator skips the back-off of a crash-looping container."""
    node.apply(pod_manifest("pod", "exit 1"))
    loops = node.until_pod("pod", lambda one: one.restarts >= 1 and one.reason == "CrashLoopBackOff", "the loop")

    async def skip() -> None:
        workflow = await node.workflow(loops)
        await workflow.execute_update(names.SKIP_BACKOFF, SkipBackoff("root@node-1"), result_type=BackoffsSkipped)

    asyncio.run(skip())
    node.until_pod("pod", lambda one: one.restarts > loops.restarts, "the restart")


def readiness_gate(node: TempoletNode) -> None:
    """Unset, set and unset again by an operator."""
    node.apply(pod_manifest("pod", readinessGates=[{"conditionType": "example.com/lb"}]))
    waits = node.until_pod("pod", lambda one: one.reason == "ReadinessGatesNotReady", "the gate")

    async def say(status: str) -> None:
        asked = SetCondition("root@node-1", "example.com/lb", status, "ByHand")
        workflow = await node.workflow(waits)
        await workflow.execute_update(names.SET_CONDITION, asked, result_type=ConditionSet)

    asyncio.run(say("True"))
    node.until_running("pod")
    asyncio.run(say("False"))
    node.until_pod("pod", lambda one: not one.ready, "shut")


def deadline(node: TempoletNode) -> None:
    """Stopped at its deadline, and kept until its manifest is removed."""
    node.apply(pod_manifest("pod", activeDeadlineSeconds=2))
    node.until_pod("pod", lambda one: one.lifecycle == "terminated", "ended")


def evicted(node: TempoletNode) -> None:
    """Evicted while the worker is killed; it is Failed, and stays so."""
    node.apply(pod_manifest("pod", "trap '' TERM; sleep 3600 & wait; sleep 3600", terminationGracePeriodSeconds=30))
    running = node.until_running("pod")

    async def evict() -> None:
        asked = EvictPod("root@node-1", "Evicted", "The node was low on resource: memory.", timedelta(seconds=2))
        workflow = await node.workflow(running)
        await workflow.execute_update(names.EVICT_POD, asked, result_type=PodEvicted)

    asyncio.run(evict())
    node.stop("worker", signal.SIGKILL)
    node.start("worker")
    node.until_pod("pod", lambda one: one.lifecycle == "terminated", "ended")


def storage_exceeded(node: TempoletNode) -> None:
    """Evicted for filling an emptyDir; it is Failed, and stays so."""
    volumes = [{"name": "data", "emptyDir": {"sizeLimit": "1Mi"}}]
    manifest = pod_manifest("pod", "dd if=/dev/zero of=/data/big bs=1M count=3; sleep 3600", volumes=volumes)
    manifest["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    node.apply(manifest)
    node.until_running("pod")
    node.until_pod("pod", lambda one: one.lifecycle == "terminated", "ended")


def stop_shortened(node: TempoletNode) -> None:
    """Deleted twice: the second time with a grace period of one second."""
    node.apply(pod_manifest("pod", "trap '' TERM; sleep 3600 & wait; sleep 3600", terminationGracePeriodSeconds=30))
    snapshot = node.until_running("pod")
    node.remove("pod")
    node.until_pod("pod", lambda one: one.deleting, "going")

    async def ask() -> None:
        wish = DeletionRequested("operator", "Deleted", "at once", timedelta(seconds=1))
        await (await node.workflow(snapshot)).signal(DELETION_REQUESTED, wish)

    asyncio.run(ask())
    node.until_gone("pod")


def stop_asked(node: TempoletNode) -> None:
    """Deleted, and an operator shortens its grace period."""
    node.apply(pod_manifest("pod", "trap '' TERM; sleep 3600 & wait; sleep 3600", terminationGracePeriodSeconds=30))
    snapshot = node.until_running("pod")
    node.remove("pod")
    node.until_pod("pod", lambda one: one.deleting, "going")

    async def ask() -> None:
        asked = StopPod("root@node-1", timedelta(seconds=1))
        await (await node.workflow(snapshot)).execute_update(names.STOP_POD, asked, result_type=PodStops)

    asyncio.run(ask())
    node.until(lambda: node.pod("pod") is None, "gone")


def image_changed(node: TempoletNode) -> None:
    """Edited under the same uid: another image, another label, then a deadline in the past."""
    manifest = pod_manifest("pod", "trap 'exit 0' TERM; while :; do sleep 0.1; done", restartPolicy="Never")
    manifest["metadata"]["uid"] = "of-its-own"
    node.apply(manifest)
    node.until_running("pod")
    manifest["spec"]["containers"][0]["image"] = BUSYBOX.removeprefix("docker.io/library/")
    node.apply(manifest)
    node.until_pod("pod", lambda one: one.ready and one.restarts == 1, "the restart")
    manifest["metadata"] |= {"labels": {"app": "two"}, "generation": 2}
    node.apply(manifest)
    node.until_pod("pod", lambda one: one.status.get("observedGeneration") == 2, "the label")
    manifest["spec"]["activeDeadlineSeconds"] = 1
    node.apply(manifest)
    node.until_pod("pod", lambda one: one.lifecycle == "terminated", "ended")


def ephemeral_container(node: TempoletNode) -> None:
    """An operator debugs a hanging init container, then the pod; one container exits, one is stopped with the pod."""
    hangs = {"name": "init-0", "image": BUSYBOX, "command": ["sh", "-c", "until [ -e /go ]; do sleep 0.1; done"]}
    node.apply(pod_manifest("pod", initContainers=[hangs]))
    snapshot = node.until_pod(
        "pod", lambda one: one.containers.get("init-0") and one.containers["init-0"].state == "CONTAINER_RUNNING"
    )

    def look(name: str, target: str, script: str) -> None:
        container = {"name": name, "image": BUSYBOX, "targetContainerName": target, "command": ["sh", "-c", script]}
        asyncio.run(look_in(node, snapshot, container))

    look("waits", "main", "sleep 3600")
    look("helps", "init-0", "touch /proc/1/root/go; sleep 3600")
    node.until_pod("pod", lambda one: one.ready and "running" in str(one.status["ephemeralContainerStatuses"]))


def resize(node: TempoletNode) -> None:
    """More cpu in place, less memory with a restart, then more cpu than the node has."""
    policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]

    def listed(generation: int, requested: str, cpu: str, memory: str) -> None:
        manifest = pod_manifest("pod", terminationGracePeriodSeconds=1)
        manifest["metadata"] |= {"uid": "uid-of-its-own", "generation": generation}
        requests = {"cpu": requested, "memory": "8Mi"}
        sized = {"requests": requests, "limits": {"cpu": cpu, "memory": memory}}
        manifest["spec"]["containers"][0] |= {"resources": sized, "resizePolicy": policy}
        node.apply(manifest)

    def until(condition: str, generation: int, *, there: bool) -> None:
        node.until_pod(
            "pod",
            lambda one: (
                one.ready
                and one.status["observedGeneration"] == generation
                and there == any(condition == known["type"] for known in one.status["conditions"])
            ),
        )

    listed(1, "50m", "200m", "64Mi")
    node.until_running("pod")
    listed(2, "50m", "400m", "64Mi")
    until("PodResizeInProgress", 2, there=False)
    listed(3, "50m", "400m", "32Mi")
    until("PodResizeInProgress", 3, there=False)
    listed(4, "900", "900", "32Mi")
    until("PodResizePending", 4, there=True)
