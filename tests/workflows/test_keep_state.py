"""Does the worker always have the state with which a pod could be led on without Temporal?"""

import asyncio
import json
from typing import Any

import pytest
from temporalio.converter import WorkflowSerializationContext
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner

from proto.temporal import names
from proto.temporal.pod import PodStart
from proto.temporal.signals import DeletionRequested
from tests.workflows.conftest import Node, pod_json
from tests.workflows.pod.test_continuing import continued
from tests.workflows.pod.test_hooks import hooked
from worker.host.pod_cache import publishing
from workflows.pod import PodWorkflow

GOING = DeletionRequested("file", "ManifestRemoved", "web.yaml is gone")


async def test_it_is_what_continue_as_new_carries(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hook is under way and nothing else happens, so the next run's first state is its input."""
    pod, gate = hooked("postStart"), asyncio.Event()
    node.runtime.held[names.RUN_HOOK] = gate
    handle = await node.start(pod)
    await node.called(names.RUN_HOOK)
    monkeypatch.setattr("workflows.temporal_driver.SIGNALS_PER_RUN", 3)
    await continued(handle)
    monkeypatch.undo()
    newest = node.newest(pod)
    events = [event async for event in newest.fetch_history_events()]
    payloads = events[0].workflow_execution_started_event_attributes.input.payloads
    bound = node.client.data_converter.with_context(WorkflowSerializationContext(node.client.namespace, newest.id))
    decoded = await bound.decode(payloads, [PodStart])
    gate.set()
    await node.until(pod, lambda one: one.ready)
    run_id = (await newest.describe()).run_id
    await node.until_kept(
        run_id, lambda state: not state["under_way"]
    )  # an event may tell of a start before its activity
    kept = [(length, json.loads(start)) for run, length, start in node.kept if run == run_id]
    assert [one["name"] for one in kept[0][1]["under_way"]] == [names.RUN_HOOK]
    assert kept[0][1]["under_way"] == carried(decoded[0])
    assert 0 < kept[0][0] < kept[-1][0], "each has its place in the history"
    assert kept[-1][1]["observed"]["containers"]["web"]["post_start"]
    assert not node.ended, "a run that continues as new does not end its workflow"
    await node.delete(newest)
    assert node.ended == [(newest.id, run_id)]


def carried(start: PodStart) -> list[dict[str, Any]]:
    """Return the actions in a run's input."""
    return [{"name": one.name, "request": one.request} for one in start.under_way]


async def test_a_replay_keeps_nothing(node: Node) -> None:
    """The state of a replay is of a moment that is over."""
    handle = await node.start(pod_json())
    await handle.signal(names.DELETION_REQUESTED, GOING)
    await handle.result()
    history, count = await handle.fetch_history(), len(node.kept)
    replayer = Replayer(
        workflows=[PodWorkflow],
        workflow_runner=UnsandboxedWorkflowRunner(),
        namespace=node.client.namespace,
        data_converter=node.client.data_converter,
        interceptors=[publishing(node.publish, None, node.keep)],
    )
    await replayer.replay_workflow(history)
    assert count
    assert len(node.kept) == count
