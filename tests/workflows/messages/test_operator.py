"""Does a pod's workflow obey an operator: is a back-off skipped at once, and does it explain what it waits for?"""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from temporalio.client import WorkflowContinuedAsNewError, WorkflowHandle, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError

from proto.temporal import names
from proto.temporal.operator import BackoffsSkipped, ConditionSet, Explanation, SentenceKind, SetCondition, SkipBackoff
from proto.temporal.pod import NodeSettings, PodOutcome
from proto.temporal.signals import DeletionRequested, RuntimeChanged
from tests.patience import PATIENCE
from tests.workflows.conftest import Node, container, pod_json
from worker.delivery.workflow_updates import send_update

SLOW = NodeSettings(image_backoff_initial=timedelta(minutes=5), host_ips=("192.0.2.1",))
"""Back-offs that no test can await."""
Handle = WorkflowHandle[Any, PodOutcome]


async def skip(handle: Handle, name: str = "") -> BackoffsSkipped:
    """Skip a back-off as the command does."""
    return await send_update(
        handle, SkipBackoff("root@node-1", name), update=names.SKIP_BACKOFF, answer=BackoffsSkipped
    )


async def refusal(handle: Handle, name: str = "") -> tuple[str, str]:
    """Send a skip that is refused; returns reason and message."""
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await skip(handle, name)
    assert isinstance(refused.value.cause, ApplicationError)
    return refused.value.cause.type or "", refused.value.cause.message


async def explained(handle: Handle, kind: SentenceKind) -> list[str]:
    """Query the explanation; returns its sentences of one kind."""
    answer = await handle.query(names.EXPLAIN, result_type=Explanation)
    return [one.text for one in answer.sentences if one.kind is kind]


async def test_a_crash_loop_is_skipped_at_once(node: Node) -> None:
    """The container restarts without waiting 10 s, and the next delay is 20 s."""
    pod = pod_json()
    handle = await node.crash_loop(pod, SLOW)
    answer = await skip(handle)
    (one,) = answer.skipped
    assert (answer.operator, str(one)) == ("root@node-1", "CrashLoopBackOff: restart 2 of web")
    assert timedelta(seconds=5) < one.left <= timedelta(seconds=10)
    await node.until(pod, lambda one: one.ready and one.restarts == 2)
    assert (await refusal(handle))[0] == "NoBackoff"
    await node.exits(handle, "web", 1)
    waiting = await node.until(pod, lambda one: one.reason == "CrashLoopBackOff")
    assert "back-off 20s restarting failed container=web" in waiting.message
    await node.delete(handle)


async def test_an_image_is_pulled_at_once(node: Node) -> None:
    """Its back-off of minutes is skipped."""
    pod = pod_json()
    error = ApplicationError("busybox:1: not found", type="ErrImagePull", non_retryable=True)
    node.runtime.failing[names.PULL_IMAGE] = [error]
    handle = await node.start(pod, SLOW)
    await node.until(pod, lambda one: one.reason == "ErrImagePull" and one.sandbox_ready)
    assert [str(one) for one in (await skip(handle, "web")).skipped] == ["ErrImagePull: pull busybox:1 for web"]
    await node.until(pod, lambda one: one.ready)
    await node.delete(handle)


async def test_a_refused_skip_leaves_no_trace(node: Node) -> None:
    """A skip without a waiting or known container is refused, and adds nothing to the history."""
    pod = pod_json(containers=[container("web"), container("log")])
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    assert await refusal(handle, "api") == (
        "NoSuchContainer",
        "default/web has no container 'api': it has web, log",
    )
    before = len((await handle.fetch_history()).events)
    assert (await refusal(handle, "log"))[1].startswith("container log of default/web waits in no back-off")
    assert len((await handle.fetch_history()).events) == before
    await node.delete(handle)


async def test_a_skip_and_a_deletion_at_once(node: Node) -> None:
    """Whichever comes first, both are answered and the pod is deleted."""
    pod = pod_json()
    handle = await node.crash_loop(pod, SLOW)
    wish = handle.signal(names.DELETION_REQUESTED, DeletionRequested("file", "ManifestRemoved"))
    answer, _ = await asyncio.gather(skip(handle), wish, return_exceptions=True)
    assert isinstance(answer, BackoffsSkipped | WorkflowUpdateFailedError)
    async with asyncio.timeout(PATIENCE):
        await handle.result()
    assert not node.runtime.sandboxes


async def test_a_skip_is_not_lost_in_a_continued_run(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is about to continue as new answers it, and the next run starts the container."""
    pod = pod_json()
    handle = await node.crash_loop(pod, SLOW)
    monkeypatch.setattr("workflows.temporal_driver.SIGNALS_PER_RUN", 8)
    newest: Handle = node.client.get_workflow_handle(handle.id, result_type=PodOutcome)
    known = RuntimeChanged("event", exited=tuple(node.runtime.containers))
    signals = [newest.signal(names.RUNTIME_CHANGED, known) for _ in range(30)]
    answer, _ = await asyncio.gather(skip(newest), asyncio.gather(*signals))
    assert [one.attempt for one in answer.skipped] == [2]
    await node.until(pod, lambda one: one.ready and one.restarts == 2)
    # the container may run before the last signals are handled: only these end the first run
    with pytest.raises(WorkflowContinuedAsNewError):
        async with asyncio.timeout(PATIENCE):
            await handle.result(follow_runs=False)
    await node.delete(newest)


async def condition(handle: Handle, name: str, status: str, **why: Any) -> ConditionSet:
    """Set a condition as the command does."""
    asked = SetCondition("root@node-1", name, status, **why)
    return await send_update(handle, asked, update=names.SET_CONDITION, answer=ConditionSet)


async def test_a_gate_holds_readiness_until_somebody_opens_it(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is shown, explained, set, kept across continue-as-new, and unset; conditions of the node itself can't be set."""
    pod = pod_json(readinessGates=[{"conditionType": "example.com/lb"}])
    handle = await node.start(pod)
    waits = await node.until(pod, lambda one: one.reason == "ReadinessGatesNotReady")
    assert (waits.ready, waits.phase) == (False, "Running")
    (held,) = await explained(handle, SentenceKind.HELD)
    assert held.startswith(
        'Ready waits for a readiness gate: corresponding condition of pod readiness gate "example.com'
    )
    answer = await condition(handle, "example.com/lb", "True", reason="Attached", message="by hand")
    assert (answer.operator, answer.status, answer.before) == ("root@node-1", "True", "")
    ready = await node.until(pod, lambda one: one.ready)
    assert ready.reason == ""
    own = (await answered_with(handle, "Ready", "True"), await answered_with(handle, "not a type", "True"))
    same = await answered_with(handle, "example.com/lb", "True", reason="Attached", message="by hand")
    assert (*own, same) == ("NotYours", "Invalid", "Unchanged")
    monkeypatch.setattr("workflows.temporal_driver.SIGNALS_PER_RUN", 3)
    newest: Handle = node.client.get_workflow_handle(handle.id, result_type=PodOutcome)
    assert (await condition(newest, "example.com/lb", "False")).before == "True"
    with pytest.raises(WorkflowContinuedAsNewError):
        async with asyncio.timeout(PATIENCE):
            await handle.result(follow_runs=False)
    monkeypatch.undo()
    shut = await node.until(pod, lambda one: not one.ready)
    first = shut.status["conditions"][0]
    assert (first["type"], first["status"]) == ("example.com/lb", "False")
    assert (await condition(newest, "example.com/lb", "True")).before == "False"
    await node.until(pod, lambda one: one.ready)
    await node.delete(newest)


async def answered_with(handle: Handle, name: str, status: str, **why: str) -> str:
    """Set a condition that may not be set; returns the reason."""
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await condition(handle, name, status, **why)
    assert isinstance(refused.value.cause, ApplicationError)
    return refused.value.cause.type or ""


async def test_a_pod_says_what_it_waits_for(node: Node) -> None:
    """While an image is pulled, in a crash loop, and when it runs."""
    pod = pod_json()
    gate = node.runtime.held[names.PULL_IMAGE] = asyncio.Event()
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.sandbox_ready)
    assert await explained(handle, SentenceKind.UNDER_WAY) == ["pull busybox:1 (IfNotPresent)"]
    assert await explained(handle, SentenceKind.HELD) == ["web waits for its image busybox:1, which is being pulled"]
    assert await explained(handle, SentenceKind.NEXT) == ["if all goes as planned: start web"]
    gate.set()
    await node.until(pod, lambda one: one.ready)
    assert await explained(handle, SentenceKind.STANDS) == ["Running and ready, web runs"]
    assert await explained(handle, SentenceKind.NEXT) == ["if web ended now, it would be restarted at once (restart 1)"]
    await node.delete(handle)


async def test_a_crash_loop_says_when_and_what_can_be_done(node: Node) -> None:
    """It gives the time of the timer, the exit that caused the back-off, and the command that skips it."""
    pod = pod_json()
    handle = await node.crash_loop(pod, SLOW)
    answer = await handle.query(names.EXPLAIN, result_type=Explanation)
    (wait,) = [one for one in answer.sentences if one.kind is SentenceKind.WAITS]
    assert (wait.text, wait.about) == ("CrashLoopBackOff: restart 2 of web", "container/web")
    assert wait.because == "it ended with exit 1 Error, and has ended twice"
    assert wait.remedy == "`tempolet skip-backoff default/web` ends this wait"
    assert wait.at is not None
    await node.delete(handle)
