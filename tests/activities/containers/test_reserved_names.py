"""What happens if the runtime reserves a name for a try that never ends, or never answers?"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import grpc
import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.clients.cri_error import CriError
from activities.clients.runtime import RuntimeClient
from activities.containers.containers import ContainerActivities
from activities.images.image_pulls import ImagePulls
from activities.machine.cgroup_hierarchies import Hierarchies
from activities.machine.cgroups import Cgroups
from activities.node_services import NodeServices
from activities.objects.terminating_pods import TerminatingPods
from activities.sandbox.sandbox import SandboxActivities, first_free_attempt
from activities.settings.activity_settings import ActivitySettings
from proto.cri.v1 import api_pb2 as cri
from proto.temporal.activities.requests import RunPodSandbox, StartContainer
from proto.temporal.pod import PodKey

POD = PodKey("prod", "web", "uid")


class Runtime:
    """Refuses the names of `reserved` attempts; otherwise only knows what it has created."""

    endpoint = "unix:///fake"

    def __init__(self, reserved: Sequence[int], *, network: str = "") -> None:
        self.reserved = reserved
        self.network = network
        self.tried: list[int] = []
        self.refused = asyncio.Event()

    def _refuse(self, call: str, attempt: int) -> None:
        self.tried.append(attempt)
        if self.network:
            raise CriError(call, grpc.StatusCode.UNKNOWN, "cni plugin not initialized")
        if attempt in self.reserved:
            self.refused.set()
            raise CriError(call, grpc.StatusCode.UNKNOWN, f'name "web_{attempt}" is reserved for "an earlier try"')

    async def list_pod_sandbox(self, _: object) -> list[cri.PodSandbox]:
        """Return nothing: the earlier try has not finished."""
        return []

    async def list_containers(self, _: object) -> list[cri.Container]:
        """Return nothing."""
        return []

    async def run_pod_sandbox(self, config: cri.PodSandboxConfig, _: str) -> str:
        """Refuse or create."""
        self._refuse("RunPodSandbox", config.metadata.attempt)
        return str(config.metadata.attempt)

    async def pod_sandbox_status(self, sandbox_id: str) -> cri.PodSandboxStatus:
        """Answer a ready sandbox whose id is its attempt."""
        return cri.PodSandboxStatus(id=sandbox_id, metadata=cri.PodSandboxMetadata(attempt=int(sandbox_id)))

    async def image_status(self, _: str) -> None:
        """Know no image."""

    async def create_container(self, _: str, config: cri.ContainerConfig, __: object) -> str:
        """Refuse or create."""
        self._refuse("CreateContainer", config.metadata.attempt)
        return str(config.metadata.attempt)

    async def start_container(self, _: str) -> None:
        """Start anything."""

    async def container_status(self, container_id: str) -> cri.ContainerStatus:
        """Answer a running container whose id is its attempt."""
        return cri.ContainerStatus(
            id=container_id,
            metadata=cri.ContainerMetadata(name="main", attempt=int(container_id)),
            state=cri.ContainerState.CONTAINER_RUNNING,
        )

    async def status(self) -> cri.RuntimeStatus:
        """Answer the network's condition."""
        condition = cri.RuntimeCondition(
            type="NetworkReady", status=not self.network, reason="NetworkPluginNotReady", message=self.network
        )
        return cri.RuntimeStatus(conditions=[condition])


def services(runtime: Runtime, tmp_path: Path) -> NodeServices:
    """Return a node with the fake runtime."""
    settings = ActivitySettings(
        root_dir=tmp_path / "kubelet",
        pod_logs_dir=tmp_path / "logs",
        resolv_conf=None,
        name_reserved_wait=timedelta(milliseconds=700),  # on a busy machine one try takes as long as a pause
    )
    (tmp_path / "kubelet/pods/uid").mkdir(parents=True)
    cgroups = Cgroups("/", hierarchies=Hierarchies(v2=None, v1={"cpu": tmp_path / "cpu"}))
    return NodeServices(settings=settings, runtime=cast("RuntimeClient", runtime), cgroups=cgroups, pulls=ImagePulls())


async def run_sandbox(runtime: Runtime, tmp_path: Path) -> Any:
    """Run the activity for the pod's first sandbox."""
    spec = {"metadata": {"name": "web", "namespace": "prod"}, "spec": {"containers": [{"name": "main"}]}}
    activity = SandboxActivities(services(runtime, tmp_path)).run_pod_sandbox
    return await ActivityEnvironment().run(activity, RunPodSandbox(POD, 0, spec))


async def test_a_sandboxes_name_that_stays_taken_raises_the_attempt(tmp_path: Path) -> None:
    """After waiting for it; the answer names the new attempt."""
    runtime = Runtime(reserved=[0, 1])
    made = await run_sandbox(runtime, tmp_path)
    assert (made.attempt, made.adopted) == (2, False)
    assert runtime.tried == sorted(runtime.tried)
    assert runtime.tried.count(0) >= 2


async def test_a_containers_name_that_stays_taken_raises_the_attempt(tmp_path: Path) -> None:
    """As with a sandbox."""
    runtime = Runtime(reserved=[3])
    container = {"name": "main", "image": "busybox"}
    request = StartContainer(POD, "s", 3, "sha256:1", container, {"metadata": {"name": "web", "namespace": "prod"}})
    activity = ContainerActivities(services(runtime, tmp_path)).start_container
    made = await ActivityEnvironment().run(activity, request)
    assert made.attempt == 4


class Remembers(Runtime):
    """Lists the containers that it created, and finally those whose names were reserved."""

    has_ended_late = False

    async def list_containers(self, _: object) -> list[cri.Container]:
        """Return reserved ones as created, the others as running."""
        states = cri.ContainerState
        return [
            cri.Container(
                id=str(one),
                pod_sandbox_id="s",
                metadata=cri.ContainerMetadata(name="main", attempt=one),
                state=states.CONTAINER_CREATED if one in self.reserved else states.CONTAINER_RUNNING,
            )
            for one in sorted(set(self.tried))
            if self.has_ended_late or one not in self.reserved
        ]


@pytest.mark.parametrize(
    "late", [pytest.param(False, id="alone"), pytest.param(True, id="beside-what-the-name-was-for")]
)
async def test_a_start_that_raised_the_attempt_and_was_not_heard_is_found(tmp_path: Path, late: bool) -> None:
    """Its worker died before the answer: nothing else is created or started."""
    runtime = Remembers(reserved=[3])
    container = {"name": "main", "image": "busybox"}
    request = StartContainer(POD, "s", 3, "sha256:1", container, {"metadata": {"name": "web", "namespace": "prod"}})
    activity = ContainerActivities(services(runtime, tmp_path)).start_container
    first = await ActivityEnvironment().run(activity, request)
    assert first.attempt == 4
    runtime.has_ended_late, tried = late, list(runtime.tried)
    assert await ActivityEnvironment().run(activity, request) == replace(first, adopted=True)
    assert runtime.tried == tried


async def test_names_that_are_all_taken_are_no_earlier_tries_of_ours(tmp_path: Path) -> None:
    """The error has the runtime's message."""
    with pytest.raises(ApplicationError, match="is reserved for") as refused:
        await run_sandbox(Runtime(reserved=range(100)), tmp_path)
    assert refused.value.type == "FailedCreatePodSandBox"


async def test_a_network_that_is_not_ready_is_named(tmp_path: Path) -> None:
    """The error has the runtime's reason, not the symptom."""
    with pytest.raises(ApplicationError, match="no networks found") as refused:
        await run_sandbox(Runtime([], network="no networks found in the CNI folder"), tmp_path)
    assert (refused.value.type, refused.value.non_retryable) == ("NetworkNotReady", True)


@pytest.mark.parametrize(
    ("asked", "taken", "expected"),
    [
        pytest.param(0, [], 0, id="first"),
        pytest.param(0, [0], 1, id="taken"),
        pytest.param(5, [0, 1], 5, id="asked-is-above"),
        pytest.param(0, [3, 1], 4, id="history-was-lost"),
    ],
)
def test_free_attempt(asked: int, taken: list[int], expected: int) -> None:
    """Attempts only rise."""
    assert first_free_attempt(asked, taken) == expected


async def test_a_cancel_ends_the_wait_for_a_name(tmp_path: Path) -> None:
    """The pod's lock is released."""
    runtime = Runtime(reserved=range(100))
    node = services(runtime, tmp_path)
    spec = {"metadata": {"name": "web", "namespace": "prod"}, "spec": {"containers": [{"name": "main"}]}}
    environment = ActivityEnvironment()
    running = asyncio.create_task(environment.run(SandboxActivities(node).run_pod_sandbox, RunPodSandbox(POD, 0, spec)))
    await runtime.refused.wait()
    environment.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert len(node.locks) == 0


async def test_a_start_that_hangs_is_given_up_when_its_pod_goes(tmp_path: Path) -> None:
    """The error says so; the following re-read finds what it left."""

    class Hangs(Runtime):
        async def start_container(self, _: str) -> None:
            await asyncio.Event().wait()

    node = replace(services(Hangs([]), tmp_path), terminating=TerminatingPods(timedelta(milliseconds=20)))
    node.terminating.set(POD.uid, terminating=True)
    container = {"name": "main", "image": "busybox"}
    request = StartContainer(POD, "s", 0, "sha256:1", container, {"metadata": {"name": "web", "namespace": "prod"}})
    with pytest.raises(ApplicationError, match=r"not started container main of .*: given up 0.02 s after") as given_up:
        await ActivityEnvironment().run(ContainerActivities(node).start_container, request)
    assert given_up.value.type == "RunContainerError"
    assert len(node.locks) == 0
