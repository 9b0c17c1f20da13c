"""Does PodWorkflow run each hook in its turn, end what nobody waits for, and go on whatever a hook does?"""

import asyncio

from proto.temporal import names
from proto.temporal.pod import PodJson
from proto.temporal.signals import DeletionRequested
from tests.patience import PATIENCE
from tests.workflows.conftest import Node, container, pod_json


def hooked(*hooks: str) -> PodJson:
    """Write a pod of two containers, of which the first has these hooks."""
    lifecycle = {hook: {"exec": {"command": [hook]}} for hook in hooks}
    return pod_json(containers=[container("web") | {"lifecycle": lifecycle}, container("side")])


def called(node: Node, *of: str) -> list[str]:
    """Say what was asked of these activities, in order."""
    return [
        f"{name} {getattr(request, 'hook', '') or getattr(request, 'name', '') or request.container['name']}"
        for name, request in node.runtime.calls
        if name in of
    ]


async def test_a_life_with_both_hooks(node: Node) -> None:
    """Each runs once, the next container waits for the first, the stop for the second."""
    pod = hooked("postStart", "preStop")
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    assert called(node, names.START_CONTAINER, names.RUN_HOOK) == [
        "StartContainer web",
        "RunHook postStart",
        "StartContainer side",
    ]
    await node.delete(handle)
    assert [one.hook for one in node.runtime.named(names.RUN_HOOK)] == ["postStart", "preStop"]
    assert called(node, names.RUN_HOOK, names.STOP_CONTAINER)[-1] == "StopContainer web"


async def test_a_failing_post_start_restarts_the_container(node: Node) -> None:
    """It is stopped with the reason, and starts again; the second hook goes well."""
    pod = hooked("postStart")
    node.runtime.hooks_fail["web"] = ["exit code 3"]
    handle = await node.start(pod)
    snapshot = await node.until(pod, lambda one: one.ready)
    assert snapshot.restarts == 1
    (stop,) = node.runtime.named(names.STOP_CONTAINER)
    assert stop.reason == "FailedPostStartHook: exit code 3"
    await node.delete(handle)


async def test_a_deletion_gives_a_post_start_up(node: Node) -> None:
    """Its activity may take its time to end: the pod goes without it."""
    pod = hooked("postStart", "preStop")
    gate = node.runtime.held[names.RUN_HOOK] = asyncio.Event()
    handle = await node.start(pod)
    await node.called(names.RUN_HOOK)
    del node.runtime.held[names.RUN_HOOK]
    await node.delete(handle)
    assert [one.hook for one in node.runtime.named(names.RUN_HOOK)] == ["postStart", "preStop"]
    gate.set()


async def test_a_container_that_ends_during_its_pre_stop_is_not_waited_for(node: Node) -> None:
    """Nothing is left to stop."""
    pod = hooked("preStop")
    gate = node.runtime.held[names.RUN_HOOK] = asyncio.Event()
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    await handle.signal(names.DELETION_REQUESTED, DeletionRequested("file", "ManifestRemoved"))
    await node.called(names.RUN_HOOK)
    await node.exits(handle, "web", 0)
    async with asyncio.timeout(PATIENCE):
        await handle.result()
    assert [one.name for one in node.runtime.named(names.STOP_CONTAINER)] == ["side"]
    gate.set()


def annotated(*hooks: str) -> PodJson:
    """Write a pod of two containers, of which the first has these hooks of ours."""
    pod = pod_json(containers=[container("web"), container("side")])
    knock = '{"tcpSocket": {"port": 80}, "timeoutSeconds": 60}'
    pod["metadata"]["annotations"] = {f"{hook}.tempolet.dev/web": knock for hook in hooks}
    return pod


async def test_a_life_with_both_hooks_of_ours(node: Node) -> None:
    """One goes before each start, one after each end, and the sandbox stops when the last has ended."""
    pod = annotated("preStart", "postStop")
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    await node.exits(handle, "web", 1)
    await node.until(pod, lambda one: one.ready and one.restarts == 1)
    await node.delete(handle)
    asked = called(node, names.START_CONTAINER, names.RUN_HOOK)
    first = ["RunHook preStart", "StartContainer web", "StartContainer side"]
    assert asked == [*first, "RunHook postStop", "RunHook preStart", "StartContainer web", "RunHook postStop"]
    order = [name for name, _ in node.runtime.calls]
    last_hook = len(order) - 1 - order[::-1].index(names.RUN_HOOK)
    assert last_hook < order.index(names.STOP_POD_SANDBOX)


async def test_a_deletion_gives_a_pre_start_up(node: Node) -> None:
    """Nothing of the container is there yet."""
    pod = annotated("preStart")
    gate = node.runtime.held[names.RUN_HOOK] = asyncio.Event()
    handle = await node.start(pod)
    await node.called(names.RUN_HOOK)
    await node.delete(handle)
    assert called(node, names.START_CONTAINER, names.STOP_CONTAINER) == []
    gate.set()


async def test_a_deletion_waits_for_a_post_stop_no_longer_than_its_grace(node: Node) -> None:
    """It had begun before, and nothing bounded it."""
    pod = annotated("postStop")
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    gate = node.runtime.held[names.RUN_HOOK] = asyncio.Event()
    await node.exits(handle, "web", 1)
    await node.called(names.RUN_HOOK)
    await node.delete(handle)
    assert [one.hook for one in node.runtime.named(names.RUN_HOOK)] == ["postStop"]
    gate.set()
