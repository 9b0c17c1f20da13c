"""The activities of this node, run as Temporal would run them, on a real containerd; fixture `acting`."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, TypeVar
from uuid import uuid4

from temporalio.testing import ActivityEnvironment

from activities.clients.runtime import RuntimeClient
from activities.clients.start_limit import StartLimit
from activities.containers.containers import ContainerActivities
from activities.images.image_pulls import ImagePulls
from activities.images.images import ImageActivities
from activities.machine.cgroups import Cgroups
from activities.node_services import NodeServices
from activities.pods.directories import DirectoryActivities
from activities.pods.predecessor import PredecessorActivities
from activities.runtime.runtime_facts import RuntimeFactsActivities
from activities.sandbox.sandbox import SandboxActivities
from activities.settings.activity_settings import ActivitySettings
from proto.temporal.activities.requests import (
    MakePodDirectories,
    PodRuntime,
    PodSandbox,
    ReadPodRuntime,
    RemovePodDirectories,
    RunPodSandbox,
    RuntimeContainer,
    StartContainer,
    StopContainer,
)
from proto.temporal.pod import PodJson, PodKey
from tests.patience import PATIENCE
from worker.standalone.containerd import Containerd

BUSYBOX: Final = "docker.io/library/busybox:1.37"
_Answer = TypeVar("_Answer")


class Acting:
    """The activities of one test, run as Temporal would, and the pods that it made."""

    def __init__(self, services: NodeServices) -> None:
        self.services = services
        self.directories = DirectoryActivities(services)
        self.sandboxes = SandboxActivities(services)
        self.containers = ContainerActivities(services)
        self.images = ImageActivities(services)
        self.predecessors = PredecessorActivities(services)
        self.facts = RuntimeFactsActivities(services)
        self.pods: list[PodKey] = []

    async def run(self, activity: Callable[..., Coroutine[Any, Any, _Answer]], request: object) -> _Answer:
        """Run one activity as the worker would, with a heartbeat timeout."""
        environment = ActivityEnvironment()
        environment.info = replace(environment.info, heartbeat_timeout=timedelta(seconds=5))
        return await environment.run(activity, request)

    def pod(self, name: str = "") -> PodKey:
        """Name a pod that is cleaned up after the test."""
        key = PodKey("default", name or f"pod-{uuid4().hex[:8]}", str(uuid4()))
        self.pods.append(key)
        return key

    async def sandbox(self, pod: PodKey, attempt: int = 0) -> PodSandbox:
        """Create the pod's directories and its sandbox."""
        await self.run(self.directories.make_pod_directories, MakePodDirectories(pod, ("web",)))
        return await self.run(self.sandboxes.run_pod_sandbox, RunPodSandbox(pod, attempt, sandbox_spec(pod)))

    async def start(self, pod: PodKey, sandbox: PodSandbox, **container: Any) -> RuntimeContainer:
        """Start the container `web`, by default one that sleeps."""
        return await self.run(self.containers.start_container, start_request(pod, sandbox, **container))

    async def read(self, pod: PodKey) -> PodRuntime:
        """Read the pod's state from the runtime."""
        return await self.run(self.facts.read_pod_runtime, ReadPodRuntime(pod))

    async def said(self, pod: PodKey, word: str, attempt: int = 0) -> Path:
        """Wait until the container has logged a word; returns its log."""
        log = self.services.paths(pod).container_logs("web") / f"{attempt}.log"
        async with asyncio.timeout(PATIENCE):
            while word not in log.read_text():  # noqa: ASYNC110 - another process writes it
                await asyncio.sleep(0.02)
        return log

    async def clean(self) -> None:
        """Remove every pod of the test."""
        for pod in self.pods:
            for sandbox in (await self.read(pod)).sandboxes:
                await self.services.runtime.stop_pod_sandbox(sandbox.sandbox_id)
                await self.services.runtime.remove_pod_sandbox(sandbox.sandbox_id)
            await self.run(self.directories.remove_pod_directories, RemovePodDirectories(pod, "BestEffort"))


def sandbox_spec(pod: PodKey) -> PodJson:
    """Build the sandbox's part of the pod's spec."""
    return {
        "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid, "labels": {"app": "test"}},
        "spec": {"containers": [{"name": "web"}], "terminationGracePeriodSeconds": 30},
    }


def start_request(pod: PodKey, sandbox: PodSandbox, *, attempt: int = 0, **container: Any) -> StartContainer:
    """Build a request to start the container `web`; keywords replace parts of its spec."""
    spec = {
        "name": "web",
        "image": BUSYBOX,
        "command": ["sleep", "1000"],
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        **container,
    }
    return StartContainer(pod, sandbox.sandbox_id, attempt, BUSYBOX, spec, sandbox_spec(pod), 0, sandbox.ips)


def stop_request(pod: PodKey, container_id: str, grace: float, asked_at: datetime | None = None) -> StopContainer:
    """Build a request to stop `web` within `grace` seconds."""
    return StopContainer(
        pod, "web", container_id, timedelta(seconds=grace), asked_at or datetime.now(UTC), "the test says so"
    )


@asynccontextmanager
async def acting_on(containerd: Containerd, directory: Path) -> AsyncIterator[Acting]:
    """Yield the activities on a containerd, and clean up after the test."""
    runtime = RuntimeClient(containerd.endpoint, StartLimit(4))
    cgroups = Cgroups(containerd.cgroup)
    settings = ActivitySettings(
        root_dir=directory / "kubelet",
        pod_logs_dir=directory / "logs",
        name_reserved_wait=timedelta(seconds=30),  # there is no Temporal here that would retry
    )
    cgroups.make_tiers()
    made = Acting(NodeServices(settings=settings, runtime=runtime, cgroups=cgroups, pulls=ImagePulls()))
    try:
        yield made
    finally:
        await made.clean()
        cgroups.remove_tiers()
        await runtime.close()
