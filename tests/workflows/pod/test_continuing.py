"""Does a run continue as new whatever is under way, without doing it again and without coming near Temporal's limits?"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from temporalio.client import WorkflowContinuedAsNewError, WorkflowHandle
from temporalio.exceptions import ApplicationError

from proto.temporal import names
from proto.temporal.pod import PodJson, PodOutcome, ProbeKind
from proto.temporal.signals import DeletionRequested, PodListed, ProbeVerdict, RuntimeChanged
from tests.patience import PATIENCE
from tests.workflows.conftest import Node, container, pod_json
from tests.workflows.pod.test_hooks import hooked

HOSTILE = 12_000
"""Signals; Temporal refuses any above 10,000 in one run."""
AT_ONCE = 400
"""Temporal refuses a continue-as-new while signals arrive, so there is a moment's pause between bursts."""
LONGEST_RUN = 10_240
"""Events, from which Temporal warns; it ends a run at five times as many."""
GOING = DeletionRequested("file", "ManifestRemoved", "web.yaml is gone")
Handle = WorkflowHandle[Any, PodOutcome]


async def lengths(node: Node, handle: Handle) -> AsyncIterator[int]:
    """List the number of events of each run."""
    run_id: str | None = handle.first_execution_run_id
    while run_id:
        run = node.client.get_workflow_handle(handle.id, run_id=run_id)
        yield (await run.describe()).history_length
        try:
            await run.result(follow_runs=False)
        except WorkflowContinuedAsNewError as continued:
            run_id = continued.new_execution_run_id
        else:
            run_id = None


async def continued(handle: Handle) -> None:
    """Send signals until the first run has continued as new."""
    ending = asyncio.create_task(handle.result(follow_runs=False))
    for _ in range(3):
        await handle.signal(names.RUNTIME_CHANGED, RuntimeChanged("event"))
    with pytest.raises(WorkflowContinuedAsNewError):
        await asyncio.wait_for(ending, PATIENCE)


@pytest.mark.stress
async def test_twelve_thousand_signals_while_a_hook_hangs(node: Node) -> None:
    """Each is taken, so is the deletion after them, and the hook ran once."""
    pod = hooked("postStart")
    node.runtime.held[names.RUN_HOOK] = asyncio.Event()
    handle = await node.start(pod)
    await node.called(names.RUN_HOOK)
    newest = node.newest(pod)
    for _ in range(HOSTILE // AT_ONCE):
        await asyncio.gather(*(newest.signal(names.POD_LISTED, PodListed("file")) for _ in range(AT_ONCE)))
        await newest.query(names.POD_STATUS)
    await newest.signal(names.DELETION_REQUESTED, GOING)
    async with asyncio.timeout(PATIENCE):
        await newest.result()
    found = [length async for length in lengths(node, handle)]
    assert len(found) > 3
    assert max(found) < LONGEST_RUN
    assert len(node.runtime.named(names.RUN_HOOK)) == 1


LOOKED_UP_AGAIN = (names.RUN_POD_SANDBOX, names.START_CONTAINER)
"""If the next run's attempt came after the end; a second one finds what the first one has made."""
VOLUME = {"name": "data", "emptyDir": {}}


@pytest.mark.parametrize(
    ("held", "pod"),
    [
        pytest.param(names.PULL_IMAGE, pod_json(), id="a-pull"),
        pytest.param(names.RUN_POD_SANDBOX, pod_json(), id="a-sandbox"),
        pytest.param(names.MOUNT_VOLUMES, pod_json(volumes=[VOLUME]), id="a-mount"),
        pytest.param(names.START_CONTAINER, pod_json(), id="a-start"),
        pytest.param(names.RUN_HOOK, hooked("postStart"), id="a-hook"),
    ],
)
async def test_what_is_under_way_goes_on_in_the_next_run(
    node: Node, monkeypatch: pytest.MonkeyPatch, held: str, pod: PodJson
) -> None:
    """It is done once: the next run's attempt attaches to it."""
    gate = node.runtime.held[held] = asyncio.Event()
    handle = await node.start(pod)
    await node.called(held)
    monkeypatch.setattr("workflows.temporal_driver.SIGNALS_PER_RUN", 3)
    await continued(handle)
    monkeypatch.undo()
    gate.set()
    await node.until(pod, lambda one: one.ready)
    assert len(node.runtime.named(held)) == 1 or held in LOOKED_UP_AGAIN
    assert (len(node.runtime.sandboxes), len(node.runtime.live())) == (1, len(pod["spec"]["containers"]))
    assert len(node.runtime.containers) == len(node.runtime.live())
    await node.delete(node.newest(pod))


async def test_the_next_run_gets_no_answer_of_the_one_before(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pull has failed in the task that continues as new. The next run's first pull has the same key, and is another one."""
    pod, gate = pod_json(), asyncio.Event()
    node.runtime.held[names.PULL_IMAGE] = gate
    node.runtime.failing[names.PULL_IMAGE] = [ApplicationError("away", type="ErrImagePull", non_retryable=True)]
    handle = await node.start(pod)
    await node.called(names.PULL_IMAGE)
    monkeypatch.setattr("workflows.temporal_driver.EVENTS_PER_RUN", await length_once_only_one_is_under_way(handle) + 1)
    gate.set()
    with pytest.raises(WorkflowContinuedAsNewError):
        await asyncio.wait_for(handle.result(follow_runs=False), PATIENCE)
    monkeypatch.undo()
    await node.until(pod, lambda one: one.ready)
    assert len(node.runtime.named(names.PULL_IMAGE)) == 2
    events = [event async for event in node.newest(pod).fetch_history_events()]
    scheduled = [event.activity_task_scheduled_event_attributes.activity_type.name for event in events]
    assert scheduled.count(names.PULL_IMAGE) == 1
    await node.delete(node.newest(pod))


async def length_once_only_one_is_under_way(handle: Handle) -> int:
    """Wait until nothing happens any more but one activity; returns the number of events."""
    while True:
        seen = (await handle.describe()).raw_description
        if len(seen.pending_activities) == 1 and not seen.HasField("pending_workflow_task"):
            return seen.workflow_execution_info.history_length
        await asyncio.sleep(0.05)  # nothing tells that a run is idle


async def test_a_stop_goes_on_with_its_grace(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its grace still counts from when it was asked for."""
    gate = node.runtime.held[names.STOP_CONTAINER] = asyncio.Event()
    pod = pod_json(terminationGracePeriodSeconds=3600)
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    await handle.signal(names.DELETION_REQUESTED, GOING)
    await node.called(names.STOP_CONTAINER)
    monkeypatch.setattr("workflows.temporal_driver.SIGNALS_PER_RUN", 3)
    await continued(handle)
    monkeypatch.undo()
    gate.set()
    async with asyncio.timeout(PATIENCE):
        await handle.result()
    assert len(node.runtime.named(names.STOP_CONTAINER)) == 1


async def test_a_long_run_still_acts_while_a_hook_hangs(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container whose liveness probe fails is stopped."""
    live = container("side") | {"livenessProbe": {"tcpSocket": {"port": 80}, "failureThreshold": 1}}
    pod = hooked("postStart")
    pod["spec"]["containers"] = [live, pod["spec"]["containers"][0]]
    node.runtime.held[names.RUN_HOOK] = asyncio.Event()
    handle = await node.start(pod)
    await node.called(names.RUN_HOOK)
    monkeypatch.setattr("workflows.temporal_driver.SIGNALS_PER_RUN", 3)
    await continued(handle)
    side = node.runtime.live()["side"]
    verdict = ProbeVerdict("side", side.container_id, ProbeKind.LIVENESS, success=False, sequence=1)
    await node.newest(pod).signal(names.PROBE_VERDICT, verdict)
    stop = await node.called(names.STOP_CONTAINER)
    assert stop.reason == "Container side failed liveness probe, will be restarted"
    assert len(node.runtime.named(names.RUN_HOOK)) == 1
    await node.delete(node.newest(pod))
