"""Does PodWorkflow run each hook in its turn, cancel those that are no longer needed, and continue whatever a hook does?"""

import asyncio
from datetime import timedelta

import pytest
from temporalio.exceptions import ApplicationError

from proto.temporal import names
from proto.temporal.pod import PodJson
from proto.temporal.signals import DeletionRequested
from tests.patience import PATIENCE
from tests.workflows.conftest import Node, container, pod_json
from worker.temporal.temporal_client import activity_of


def hooked(*hooks: str) -> PodJson:
    """Build a pod with two containers, the first with these hooks."""
    lifecycle = {hook: {"exec": {"command": [hook]}} for hook in hooks}
    return pod_json(containers=[container("web") | {"lifecycle": lifecycle}, container("side")])


def called(node: Node, *of: str) -> list[str]:
    """Return the calls of these activities, in order."""
    return [
        f"{name} {getattr(request, 'hook', '') or getattr(request, 'name', '') or request.container['name']}"
        for name, request in node.runtime.calls
        if name in of
    ]


async def test_a_life_with_both_hooks(node: Node) -> None:
    """Each runs once; the next container waits for the first, the stop for the second."""
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
    """It is stopped with the reason, and restarted; the second hook succeeds."""
    pod = hooked("postStart")
    node.runtime.hooks_fail["web"] = ["exit code 3"]
    handle = await node.start(pod)
    snapshot = await node.until(pod, lambda one: one.ready)
    assert snapshot.restarts == 1
    (stop,) = node.runtime.named(names.STOP_CONTAINER)
    assert stop.reason == "FailedPostStartHook: exit code 3"
    await node.delete(handle)


async def test_a_deletion_gives_a_post_start_up(node: Node) -> None:
    """Its activity may take its time to return: the pod does not wait for it."""
    pod = hooked("postStart", "preStop")
    gate = node.runtime.held[names.RUN_HOOK] = asyncio.Event()
    handle = await node.start(pod)
    await node.called(names.RUN_HOOK)
    del node.runtime.held[names.RUN_HOOK]
    await node.delete(handle)
    assert [one.hook for one in node.runtime.named(names.RUN_HOOK)] == ["postStart", "preStop"]
    gate.set()


async def test_a_hook_whose_attempt_is_lost_does_not_run_beside_itself(node: Node) -> None:
    """As after an outage of Temporal: the next attempt waits for the hook that runs."""
    pod = hooked("postStart")
    gate = node.runtime.held[names.RUN_HOOK] = asyncio.Event()
    handle = await node.start(pod)
    hook = await node.called(names.RUN_HOOK)
    lost = activity_of(node.client, handle.id, f"hook/web/postStart/{hook.container_id}")
    await lost.fail(ApplicationError("no heartbeat", type="WorkerGone"))
    async with asyncio.timeout(PATIENCE):
        while (await handle.describe()).raw_description.pending_activities[0].attempt == 1:
            pass  # Temporal reports no change of an attempt
    gate.set()
    await node.until(pod, lambda one: one.ready)
    assert len(node.runtime.named(names.RUN_HOOK)) == 1
    await node.delete(handle)


async def test_a_step_that_hangs_is_told_and_goes_on(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Temporal's own timeout would be retried for ever, and tell nobody."""
    monkeypatch.setattr("workflows.steps.time_limit", lambda _: timedelta(seconds=1))
    monkeypatch.setattr("workflows.decide.situation.RETRY_AFTER", timedelta(milliseconds=100))
    gate = node.runtime.held[names.RUN_POD_SANDBOX] = asyncio.Event()
    pod = hooked()
    handle = await node.start(pod)
    told = await node.until(pod, lambda one: one.reason == "StepTimedOut")
    assert told.message == "RunPodSandbox: no answer within 0.9 s; it is waited for again"
    gate.set()
    await node.until(pod, lambda one: one.ready)
    assert len(node.runtime.sandboxes) == 1
    monkeypatch.undo()
    await node.delete(handle)


async def test_a_container_that_ends_during_its_pre_stop_is_not_waited_for(node: Node) -> None:
    """There is nothing left to stop."""
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
    """Build a pod with two containers, the first with our own hooks."""
    pod = pod_json(containers=[container("web"), container("side")])
    knock = '{"tcpSocket": {"port": 80}, "timeoutSeconds": 60}'
    pod["metadata"]["annotations"] = {f"{hook}.tempolet.dev/web": knock for hook in hooks}
    return pod


async def test_a_life_with_both_hooks_of_ours(node: Node) -> None:
    """PreStart runs before each start, postStop after each exit, and the sandbox stops when the last hook has ended."""
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
    """The container does not exist yet."""
    pod = annotated("preStart")
    gate = node.runtime.held[names.RUN_HOOK] = asyncio.Event()
    handle = await node.start(pod)
    await node.called(names.RUN_HOOK)
    await node.delete(handle)
    assert called(node, names.START_CONTAINER, names.STOP_CONTAINER) == []
    gate.set()


async def test_a_deletion_waits_for_a_post_stop_no_longer_than_its_grace(node: Node) -> None:
    """It had started before the deletion, without a limit."""
    pod = annotated("postStop")
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    gate = node.runtime.held[names.RUN_HOOK] = asyncio.Event()
    await node.exits(handle, "web", 1)
    await node.called(names.RUN_HOOK)
    await node.delete(handle)
    assert [one.hook for one in node.runtime.named(names.RUN_HOOK)] == ["postStop"]
    gate.set()
