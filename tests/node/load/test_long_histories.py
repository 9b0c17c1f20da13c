"""Does a worker that starts with long histories get on, although each replay must end within the 3 s of a workflow task?

The runtime is a model. One pod crashes until its run is long; the others are copies of that run. What was lost is printed (`-s`).
"""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.worker import (
    ExecuteWorkflowInput,
    Interceptor,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)

from activities.execution.attempts import AttachingAttempts
from proto.pod_snapshot import PodSnapshot
from proto.temporal import names
from proto.temporal.signals import RuntimeChanged
from tests.node.away.stopped_temporal import own_temporal
from tests.node.load.copied_runs import Run, copy_run
from tests.patience import PATIENCE
from tests.workflows.conftest import QUICK, Node, pod_json
from tests.workflows.model_runtime import ModelRuntime
from worker.delivery.task_timeouts import SHORTEST
from worker.host.pod_cache import publishing
from worker.processes.sdk_worker import node_worker
from worker.standalone.temporal_server import TemporalServer
from worker.temporal.codec import PayloadCipher
from worker.temporal.keys import KeyFile
from worker.temporal.temporal_client import TemporalSettings, connect, prepare
from workflows.decide.versions import CURRENT, SHORT_RUNS

__all__ = ["own_temporal"]  # a fixture
AT_ONCE = replace(QUICK, max_container_restart_period=timedelta(milliseconds=10))
A_POD_WITHIN = 120.0
"""Seconds; a replay of 4,000 events takes 1.3 s of CPU."""


class Replays(Interceptor):
    """Counts how often a run begins in this process: each time but the first, its workflow task was lost."""

    def __init__(self) -> None:
        self.begun = 0

    def workflow_interceptor_class(self, input: WorkflowInterceptorClassInput) -> type[WorkflowInboundInterceptor]:  # noqa: A002, ARG002 - the SDK's names
        """Return the class for a workflow's runs."""
        replays = self

        class Counted(WorkflowInboundInterceptor):
            async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:  # noqa: A002 - the SDK's name
                replays.begun += 1
                return await super().execute_workflow(input)

        return Counted


@pytest.fixture
def settings(own_temporal: TemporalServer, key_file: Path) -> TemporalSettings:
    """Return settings for the Temporal of this test."""
    return TemporalSettings(key_file=key_file, address=own_temporal.address, environment={})


@asynccontextmanager
async def working(node: Node, client: Client, *more: Interceptor) -> AsyncIterator[None]:
    """Run a worker with the limits of a node's while the block runs."""
    publish = publishing(node.publish, node.running.received, node.keep, node.end)
    around = [publish, AttachingAttempts(node.running, node.present), *more]
    async with node_worker(client, node.name, node.runtime.activities(), around):
        yield


def is_up(node: Node, restarts: int, snapshot: PodSnapshot) -> bool:
    """Return whether the container runs after so many restarts."""
    return snapshot.restarts == restarts and "web" in node.runtime.live()


async def grown(node: Node, events: int) -> tuple[Run, int]:
    """Let a pod crash until its run has so many events; returns the run and its length."""
    pod, restarts = pod_json(), 0
    async with working(node, node.client):
        handle = await node.start(pod, AT_ONCE)
        while True:
            await node.until(pod, partial(is_up, node, restarts))
            if restarts % 10 == 0 and (await handle.describe()).history_length >= events:
                break
            await node.exits(handle, "web", 1)
            restarts += 1
        async with asyncio.timeout(PATIENCE):
            while (told := (await handle.describe()).raw_description).pending_activities or told.HasField(  # noqa: ASYNC110 - no event
                "pending_workflow_task"
            ):
                await asyncio.sleep(0.1)
    run_id = told.workflow_execution_info.execution.run_id
    return Run(handle.id, run_id, pod["metadata"]["uid"]), told.workflow_execution_info.history_length


@pytest.mark.stress
@pytest.mark.parametrize(
    ("behaviour", "events", "pods"),
    [
        pytest.param(SHORT_RUNS - 1, 3850, 110, id="runs-that-continue-as-new-at-4096-events"),
        pytest.param(CURRENT, 420, 110, id="runs-of-today"),
    ],
)
async def test_every_pod_acts(
    own_temporal: TemporalServer, settings: TemporalSettings, behaviour: int, events: int, pods: int
) -> None:
    """Each of them reads the runtime after a signal that came while no worker ran."""
    client = await connect(settings)
    await prepare(client, settings)
    node = Node(client, "n-long", ModelRuntime(), behaviour=behaviour, task_timeout=SHORTEST)
    original, length = await grown(node, events)
    uids = [uuid.uuid4().hex for _ in range(pods)]
    copies = [Run(original.workflow_id.replace(original.uid, uid), str(uuid.uuid4()), uid) for uid in uids]
    own_temporal.stop()
    copy_run(own_temporal.database, PayloadCipher(KeyFile(settings.key_file)), original, copies)
    own_temporal.start()
    client = await connect(settings)
    for one in copies:
        await client.get_workflow_handle(one.workflow_id).signal(names.RUNTIME_CHANGED, RuntimeChanged("event"))
    node.runtime.calls.clear()
    replays, began = Replays(), time.monotonic()
    async with working(node, client, replays), asyncio.timeout(A_POD_WITHIN * pods):
        while {one.pod.uid for one in node.runtime.named(names.READ_POD_RUNTIME)} != set(uids):
            node.runtime.changed.clear()
            await node.runtime.changed.wait()
    took, lost = time.monotonic() - began, replays.begun - pods
    print(f"{pods} pods of {length} events acted within {took:.0f} s; replays that were lost: {lost}")
