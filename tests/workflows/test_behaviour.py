"""Does a run move to the node's committed behaviour when asked, at a quiet moment, and never to a lower one?"""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from temporalio.client import WorkflowHandle
from temporalio.exceptions import ApplicationError
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner

from proto.temporal import names
from proto.temporal.signals import BehaviourCommitted
from tests.workflows.conftest import QUICK, Node, container, pod_json
from tests.workflows.runs import history_of, run_of, until_another
from tests.workflows.test_node import Host, host
from worker.behaviours.runs import behaviour_of
from workflows.decide.versions import (
    CARRIED_ACTIONS,
    CURRENT,
    CURRENT_NODE,
    LOOKS_FOR_STARTS,
    OLDEST,
    OLDEST_NODE,
    SHORT_RUNS,
)
from workflows.node import NodeWorkflow
from workflows.pod import PodWorkflow

__all__ = ["host"]  # a fixture


async def commit(handle: WorkflowHandle[Any, Any], behaviour: int) -> None:
    """Signal a workflow which behaviour the node is committed to."""
    await handle.signal(names.BEHAVIOUR_COMMITTED, BehaviourCommitted(behaviour))


async def test_a_healthy_pod_takes_up_the_committed_behaviour(node: Node) -> None:
    """It continues as new for this alone, and no action is repeated; both runs replay."""
    node.behaviour = OLDEST
    pod = pod_json()
    handle = node.newest(pod)
    await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    first = await run_of(handle)
    await commit(handle, CURRENT)
    second = await until_another(node.client, handle.id, first)
    numbers = [await behaviour_of(node.client, handle.id, run_id) for run_id in (first, second)]
    assert numbers == [OLDEST, CURRENT]
    await node.delete(handle)
    assert len(node.runtime.named(names.START_CONTAINER)) == 1
    replayer = Replayer(
        workflows=[PodWorkflow],
        workflow_runner=UnsandboxedWorkflowRunner(),
        namespace=node.client.namespace,
        data_converter=node.client.data_converter,
    )
    for run_id in (first, second):
        await replayer.replay_workflow(await history_of(node.client, handle.id, run_id))


async def test_a_lower_number_is_no_news(node: Node) -> None:
    """Neither is its own number."""
    pod = pod_json()
    handle = node.newest(pod)
    await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    first = await run_of(handle)
    await commit(handle, OLDEST)
    await commit(handle, CURRENT)
    await node.delete(handle)
    assert await run_of(handle) == first


@pytest.mark.parametrize("behaviour", [OLDEST, CARRIED_ACTIONS - 1])
async def test_what_is_under_way_comes_first(node: Node, behaviour: int) -> None:
    """A pull is not cancelled for it; the actions after it start in the same run or in the next one."""
    node.behaviour = behaviour
    node.runtime.held[names.PULL_IMAGE] = asyncio.Event()
    pod = pod_json()
    handle = node.newest(pod)
    await node.start(pod)
    await node.called(names.PULL_IMAGE)
    first = await run_of(handle)
    await commit(handle, CURRENT)
    await handle.query(names.EXPLAIN)  # the activity answers after the signal was handled
    assert await run_of(handle) == first
    node.runtime.held[names.PULL_IMAGE].set()
    await until_another(node.client, handle.id, first)
    await node.until(pod, lambda one: one.ready)
    assert len(node.runtime.named(names.PULL_IMAGE)) == 1
    await node.delete(handle)


async def test_a_pod_that_begins_anew_takes_it_up_too(node: Node) -> None:
    """Whatever the reason for the new run."""
    node.behaviour = OLDEST
    pod = pod_json(restartPolicy="Never", containers=[container("web"), container("beside")])
    node.runtime.exits_at_once["web"] = [0]
    node.runtime.exits_at_once["beside"] = [0]
    handle = node.newest(pod)
    await node.start(pod)
    await node.until(pod, lambda one: one.lifecycle == "terminated")
    first = await run_of(handle)
    await commit(handle, CURRENT)
    second = await until_another(node.client, handle.id, first)
    assert await behaviour_of(node.client, handle.id, second) == CURRENT
    await node.delete(handle)


async def test_a_start_that_failed_before_is_looked_for(node: Node) -> None:
    """Earlier behaviours do not read the runtime after it."""
    node.behaviour = LOOKS_FOR_STARTS - 1
    failed = ApplicationError("no such device", type="CreateContainerError", non_retryable=True)
    node.runtime.failing[names.START_CONTAINER] = [failed] * 1000
    pod = pod_json()
    handle = node.newest(pod)
    await node.start(pod)
    await node.until(pod, lambda one: one.reason == "CreateContainerError")
    assert not node.runtime.named(names.READ_POD_RUNTIME)
    await commit(handle, CURRENT)
    await node.called(names.READ_POD_RUNTIME)
    await node.delete(handle)


async def test_the_nodes_workflow_takes_up_its_own(host: Host) -> None:
    """It has numbers of its own, and keeps watching."""
    host.behaviour = OLDEST_NODE
    handle = await host.configure()
    await host.images.until(lambda: host.images.watches)
    first = await run_of(handle)
    newest = host.client.get_workflow_handle(handle.id)
    await commit(newest, CURRENT_NODE)
    second = await until_another(host.client, newest.id, first)
    assert await behaviour_of(host.client, handle.id, second) == CURRENT_NODE
    await host.images.until(lambda: len(host.images.watches) == 2)
    replayer = Replayer(
        workflows=[NodeWorkflow],
        workflow_runner=UnsandboxedWorkflowRunner(),
        namespace=host.client.namespace,
        data_converter=host.client.data_converter,
    )
    await replayer.replay_workflow(await history_of(host.client, handle.id, first))


@pytest.mark.parametrize(
    ("behaviour", "continues"),
    [
        pytest.param(SHORT_RUNS - 1, False, id="before-it-has-long-runs"),
        pytest.param(SHORT_RUNS, True, id="from-it-on-runs-are-short"),
    ],
)
async def test_a_run_is_short_enough_to_be_replayed_in_time(
    node: Node, monkeypatch: pytest.MonkeyPatch, behaviour: int, continues: bool
) -> None:
    """A pod that crashes for ever continues as new by its events; its restarts are counted on, and each run replays."""
    monkeypatch.setattr("workflows.temporal_driver.EVENTS_PER_RUN", 60)
    node.behaviour = behaviour
    pod = pod_json(containers=[container("web", readinessProbe={"tcpSocket": {"port": 80}})])
    handle = await node.start(pod, replace(QUICK, max_container_restart_period=timedelta(milliseconds=10)))
    first, restarts = await run_of(handle), 0
    while (description := await handle.describe()).raw_description.workflow_execution_info.history_length < 120:
        if description.run_id != first:
            break
        await node.until(pod, lambda one, count=restarts: one.restarts == count and "web" in node.runtime.live())  # type: ignore[misc]  # the default binds it
        await node.exits(node.newest(pod), "web", 1)
        restarts += 1
    assert ((await run_of(handle)) != first) is continues
    await node.until(pod, lambda one: one.restarts == restarts and "web" in node.runtime.live())
    history = await history_of(node.client, handle.id, first)
    assert len(history.events) < 120 or not continues
    replayer = Replayer(
        workflows=[PodWorkflow],
        workflow_runner=UnsandboxedWorkflowRunner(),
        namespace=node.client.namespace,
        data_converter=node.client.data_converter,
    )
    await replayer.replay_workflow(history)
    await node.delete(node.newest(pod))
