"""Does PodWorkflow start sidecars in order, restart them alone, and stop them last?"""

from dataclasses import replace
from datetime import timedelta

import pytest

from proto.temporal import names
from proto.temporal.pod import ContainerState
from tests.workflows.conftest import QUICK, Node, container, pod_json


def sidecar(name: str) -> dict[str, object]:
    """Build a sidecar."""
    return container(name) | {"restartPolicy": "Always"}


def started(node: Node) -> list[str]:
    """Return the started containers, in order."""
    return [one.container["name"] for one in node.runtime.named(names.START_CONTAINER)]


def stopped(node: Node) -> list[str]:
    """Return the stopped containers, in order."""
    return [one.name for one in node.runtime.named(names.STOP_CONTAINER)]


async def test_up_in_order_and_down_in_reverse(node: Node) -> None:
    """All of them share the deletion's grace period."""
    pod = pod_json(initContainers=[sidecar("a"), container("b"), sidecar("c")])
    node.runtime.exits_at_once["b"] = [0]
    handle = await node.start(pod)
    snapshot = await node.until(pod, lambda one: one.ready)
    assert started(node) == ["a", "b", "c", "web"]
    assert {one["type"]: one["status"] for one in snapshot.status["conditions"]}["Initialized"] == "True"
    await node.delete(handle)
    assert stopped(node) == ["web", "c", "a"]
    assert len({(one.asked_at, one.grace) for one in node.runtime.named(names.STOP_CONTAINER)}) == 1


async def test_a_sidecar_comes_back_alone(node: Node) -> None:
    """In a pod that never restarts; the second time it backs off, and nothing else waits for it."""
    pod = pod_json(initContainers=[sidecar("a")], restartPolicy="Never")
    handle = await node.start(pod, replace(QUICK, max_container_restart_period=timedelta(hours=1)))
    await node.until(pod, lambda one: one.ready)
    await node.exits(handle, "a", 1)
    await node.until(pod, lambda one: one.ready and one.restarts == 1)
    await node.exits(handle, "a", 0)
    waiting = await node.until(pod, lambda one: one.reason == "CrashLoopBackOff")
    assert (waiting.phase, waiting.containers["web"].state) == ("Running", ContainerState.RUNNING.value)
    await node.delete(handle)
    assert started(node) == ["a", "web", "a"]


@pytest.mark.parametrize(("code", "phase"), [(0, "Succeeded"), (1, "Failed")])
async def test_it_ends_with_the_pod_s_work(node: Node, code: int, phase: str) -> None:
    """Stopped once the regular container has exited, whose exit code determines the pod's phase."""
    pod = pod_json(initContainers=[sidecar("a"), sidecar("b")], restartPolicy="Never")
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    await node.exits(handle, "web", code)
    snapshot = await node.until(pod, lambda one: one.lifecycle == "terminated")
    assert (snapshot.phase, stopped(node)) == (phase, ["b", "a"])
    outcome = await node.delete(handle)
    assert outcome.phase == phase
