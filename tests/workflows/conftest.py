"""A worker with the real PodWorkflow and a model of the runtime, on a real Temporal."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from pydantic_core import to_json
from temporalio.client import Client, WorkflowHandle
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from activities.execution.attempts import AttachingAttempts
from activities.execution.present_attempts import PresentAttempts
from activities.execution.running_actions import RunningActions
from proto.pod_snapshot import PodSnapshot
from proto.temporal import names
from proto.temporal.node import NodeStart
from proto.temporal.pod import NodeSettings, PodJson, PodOutcome, PodStart
from proto.temporal.pod_inputs import FirstSight
from proto.temporal.signals import DeletionRequested, PodListed, RuntimeChanged
from tests.patience import PATIENCE
from tests.workflows.model_runtime import ModelRuntime
from worker.host.pod_cache import publishing
from worker.host.temporal.activation_limit import extend_activation_limit
from worker.temporal.temporal_client import TemporalSettings, connect, prepare
from workflows.decide.versions import CURRENT
from workflows.extern import Decided
from workflows.pod import PodWorkflow

QUICK = NodeSettings(
    max_container_restart_period=timedelta(milliseconds=300),
    image_backoff_initial=timedelta(milliseconds=200),
    image_backoff_max=timedelta(milliseconds=400),
    host_ips=("192.0.2.1",),
)
"""Backoffs that a test can await."""


def pod_json(name: str = "web", **spec: Any) -> PodJson:
    """Build a defaulted pod with one container, which mounts all volumes, or with the spec of the test."""
    container: PodJson = {"name": "web", "image": "busybox:1", "imagePullPolicy": "IfNotPresent"}
    if volumes := spec.get("volumes"):
        container["volumeMounts"] = [{"name": one["name"], "mountPath": f"/{one['name']}"} for one in volumes]
    return {
        "metadata": {"name": name, "namespace": "default", "uid": uuid.uuid4().hex},
        "spec": {"restartPolicy": "Always", "terminationGracePeriodSeconds": 1, "containers": [container], **spec},
    }


def container(name: str, **more: Any) -> dict[str, Any]:
    """Build a container."""
    return {"name": name, "image": "busybox:1", "imagePullPolicy": "IfNotPresent", **more}


def is_ready_after(restarts: int, snapshot: PodSnapshot) -> bool:
    """Return whether a pod is ready again after this many restarts."""
    return snapshot.ready and snapshot.restarts == restarts


@dataclass
class Node:
    """What a test controls: the model of the runtime, and pods started as the poller starts them."""

    client: Client
    name: str
    runtime: ModelRuntime
    behaviour: int = CURRENT
    """What pods are started with."""
    task_timeout: timedelta | None = None
    """Of their workflow tasks; None: Temporal's own."""
    running: RunningActions = field(default_factory=RunningActions)
    present: PresentAttempts = field(default_factory=PresentAttempts)
    snapshots: dict[str, PodSnapshot] = field(default_factory=dict)
    told: list[PodSnapshot] = field(default_factory=list)
    """Every snapshot, in its order."""
    kept: list[tuple[str, int, bytes]] = field(default_factory=list)
    """Every state that was kept: run id, length of its history, PodStart as JSON."""
    ended: list[tuple[str, str]] = field(default_factory=list)
    """Every run that has ended by itself: workflow and run id."""
    decided: list[Decided] = field(default_factory=list)
    """Where each was."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)

    def publish(self, snapshot: PodSnapshot) -> None:
        """Receive a snapshot from a workflow's thread."""
        self.snapshots[snapshot.uid] = snapshot
        self.told.append(snapshot)
        self.loop.call_soon_threadsafe(self.changed.set)

    def keep(self, workflow_id: str, decided: Decided, start: PodStart | NodeStart) -> None:
        """Receive a state from a workflow's thread."""
        self.kept.append((decided.run_id, decided.length, to_json(start)))
        self.decided.append(decided)
        self.running.state_kept(workflow_id, decided.run_id)
        self.loop.call_soon_threadsafe(self.changed.set)

    def end(self, workflow_id: str, run_id: str, start: PodStart | NodeStart) -> None:
        """Receive the end of a run from its thread."""
        assert isinstance(start, PodStart)
        self.ended.append((workflow_id, run_id))

    def forget(self) -> None:
        """Discard the snapshots so far."""
        self.snapshots.clear()
        self.told.clear()

    async def start(
        self, pod: PodJson, settings: NodeSettings = QUICK, first_sight: FirstSight | None = None
    ) -> WorkflowHandle[Any, PodOutcome]:
        """Start a pod as the poller does; a pod of the API comes with its earlier status."""
        meta = pod["metadata"]
        pairs = {
            "PodNamespace": meta["namespace"],
            "PodName": meta["name"],
            "PodUID": meta["uid"],
            "PodNode": self.name,
        }
        attributes = [SearchAttributePair(SearchAttributeKey.for_keyword(key), value) for key, value in pairs.items()]
        return await self.client.start_workflow(
            PodWorkflow.run,
            self._start_of(pod, settings, first_sight),
            id=self.workflow_id(pod),
            task_queue=names.node_task_queue(self.name),
            search_attributes=TypedSearchAttributes(attributes),
            task_timeout=self.task_timeout,
            start_signal=names.POD_LISTED,
            start_signal_args=[PodListed("file")],
        )

    def _start_of(self, pod: PodJson, settings: NodeSettings, first_sight: FirstSight | None) -> PodStart:
        if first_sight is None:
            return PodStart(self.name, pod, path="web.yaml", behaviour=self.behaviour, settings=settings)
        source = names.API_SOURCE
        return PodStart(self.name, pod, source, behaviour=self.behaviour, settings=settings, first_sight=first_sight)

    def workflow_id(self, pod: PodJson) -> str:
        """Return the ID of a pod's workflow."""
        meta = pod["metadata"]
        return str(names.PodWorkflowId(self.name, meta["namespace"], meta["name"], meta["uid"]))

    def newest(self, pod: PodJson) -> WorkflowHandle[Any, Any]:
        """Return a handle to the newest run of a pod's workflow."""
        return self.client.get_workflow_handle(self.workflow_id(pod))

    async def until(self, pod: PodJson, holds: Callable[[PodSnapshot], bool]) -> PodSnapshot:
        """Wait until the pod's snapshot satisfies a condition."""
        async with asyncio.timeout(PATIENCE):
            while True:
                self.changed.clear()
                snapshot = self.snapshots.get(pod["metadata"]["uid"])
                if snapshot is not None and holds(snapshot):
                    return snapshot
                await self.changed.wait()

    async def until_kept(self, run_id: str, holds: Callable[[dict[str, Any]], bool]) -> None:
        """Wait until the last state that a run has kept satisfies a condition."""
        async with asyncio.timeout(PATIENCE):
            while True:
                self.changed.clear()
                kept = [start for run, _, start in self.kept if run == run_id]
                if kept and holds(json.loads(kept[-1])):
                    return
                await self.changed.wait()

    async def called(self, name: str) -> Any:
        """Wait until an activity is called; returns its first request."""
        async with asyncio.timeout(PATIENCE):
            while not self.runtime.named(name):
                self.runtime.changed.clear()
                await self.runtime.changed.wait()
        return self.runtime.named(name)[0]

    async def exits(self, handle: WorkflowHandle[Any, PodOutcome], name: str, exit_code: int) -> None:
        """Let a container exit, and signal the workflow as the poller would."""
        ended = self.runtime.live()[name]
        self.runtime.end(ended.container_id, exit_code)
        await handle.signal(names.RUNTIME_CHANGED, RuntimeChanged("event", exited=(ended.container_id,)))

    async def crash_loop(self, pod: PodJson, settings: NodeSettings) -> WorkflowHandle[Any, PodOutcome]:
        """Start a pod whose container web crashes twice, each time once it is ready, and wait until it is in back-off."""
        handle = await self.start(pod, settings)
        for restarts in (0, 1):
            await self.until(pod, partial(is_ready_after, restarts))
            await self.exits(handle, "web", 1)
        await self.until(pod, lambda one: one.reason == "CrashLoopBackOff")
        return handle

    async def delete(self, handle: WorkflowHandle[Any, PodOutcome]) -> PodOutcome:
        """Remove the manifest and wait for the end."""
        await handle.signal(names.DELETION_REQUESTED, DeletionRequested("file", "ManifestRemoved", "web.yaml is gone"))
        async with asyncio.timeout(PATIENCE):
            return await handle.result()


@pytest.fixture
async def client(settings: TemporalSettings) -> Client:
    """Connect as worker and poller do."""
    made = await connect(settings)
    await prepare(made, settings)
    return made


@pytest.fixture
async def node(client: Client) -> AsyncIterator[Node]:
    """Run a worker for a node of its own."""
    made = Node(client, f"n{uuid.uuid4().hex[:8]}", ModelRuntime())
    worker = Worker(
        client,
        task_queue=names.node_task_queue(made.name),
        workflows=[PodWorkflow],
        activities=made.runtime.activities(),
        workflow_runner=UnsandboxedWorkflowRunner(),
        interceptors=[
            publishing(made.publish, made.running.received, made.keep, made.end),
            AttachingAttempts(made.running, made.present),
        ],
    )
    async with extend_activation_limit(worker):
        yield made
