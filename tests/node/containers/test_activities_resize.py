"""Does a resize of a running container reach the kernel on real containerd, and is it harmless when repeated or late?"""

from dataclasses import replace
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from activities.containers.resize import ResizeActivities
from proto.temporal.activities.requests import PodSandbox, RunPodSandbox, RuntimeContainer
from proto.temporal.activities.resize import UpdateContainerResources, UpdatePodSandboxResources
from proto.temporal.pod import ContainerState, PodJson, PodKey
from tests.node.acting import Acting, sandbox_spec, start_request
from tests.node.cgroup_view import Limits, limits

MI = 1024**2


class Sized:
    """A pod with one container, `web`, and these resources."""

    def __init__(self, acting: Acting) -> None:
        self.acting, self.pod = acting, acting.pod()
        self.resize = ResizeActivities(acting.services)
        self.sandbox = PodSandbox("", 0)
        self.container = RuntimeContainer("web", "", "", 0, ContainerState.CREATED)

    @property
    def pods_cgroup(self) -> str:
        """The pod's cgroup."""
        return f"{self.acting.services.cgroups.names.path()}/burstable/pod{self.pod.uid}"

    @property
    def containers_cgroup(self) -> str:
        """The container's cgroup."""
        return f"{self.pods_cgroup}/{self.container.container_id}"

    async def made(self, cpu: str, memory: str, **container: Any) -> None:
        """Start it."""
        spec = sized(self.pod, cpu, memory)
        request = RunPodSandbox(self.pod, 0, spec, ("web",))
        self.sandbox = await self.acting.run(self.acting.sandboxes.run_pod_sandbox, request)
        start = start_request(self.pod, self.sandbox, resources=resources(cpu, memory), **container)
        start = replace(start, sandbox_spec=spec)
        self.container = await self.acting.run(self.acting.containers.start_container, start)

    def cgroup_update(self, cpu: str, memory: str, *, growing: bool) -> UpdatePodSandboxResources:
        """Request an update of the pod's cgroup."""
        return UpdatePodSandboxResources(self.pod, self.sandbox.sandbox_id, sized(self.pod, cpu, memory), growing)

    def update(self, cpu: str, memory: str) -> UpdateContainerResources:
        """Request an update of the container's resources."""
        part = {"name": "web", "resources": resources(cpu, memory)}
        spec = sized(self.pod, cpu, memory)
        return UpdateContainerResources(self.pod, "web", self.container.container_id, part, spec)


def sized(pod: PodKey, cpu: str, memory: str) -> PodJson:
    """Build the sandbox's part of the pod's spec."""
    spec = sandbox_spec(pod)
    spec["spec"]["containers"][0]["resources"] = resources(cpu, memory)
    return spec


def resources(cpu: str, memory: str) -> PodJson:
    """Build requests and limits."""
    return {"requests": {"cpu": "50m", "memory": "8Mi"}, "limits": {"cpu": cpu, "memory": memory}}


async def test_up_and_down_and_twice(acting: Acting) -> None:
    """Pod and container, each step repeated; the container stays the same."""
    web = Sized(acting)
    await web.made("200m", "64Mi")
    before = limits(web.containers_cgroup)
    assert limits(web.pods_cgroup) == Limits(before.shares, 20_000, 64 * MI)
    for _ in range(2):
        await acting.run(web.resize.update_pod_sandbox_resources, web.cgroup_update("400m", "96Mi", growing=True))
        assert limits(web.pods_cgroup) == Limits(before.shares, 40_000, 96 * MI)
    for _ in range(2):
        told = await acting.run(web.resize.update_container_resources, web.update("400m", "96Mi"))
        assert (told.cpu_quota, told.cpu_period, told.memory_limit_in_bytes) == (40_000, 100_000, 96 * MI)
        assert limits(web.containers_cgroup) == Limits(before.shares, 40_000, 96 * MI)
    await acting.run(web.resize.update_pod_sandbox_resources, web.cgroup_update("100m", "32Mi", growing=True))
    assert limits(web.pods_cgroup) == Limits(before.shares, 40_000, 96 * MI), "growing lowers nothing"
    await acting.run(web.resize.update_container_resources, web.update("100m", "32Mi"))
    for _ in range(2):
        await acting.run(web.resize.update_pod_sandbox_resources, web.cgroup_update("100m", "32Mi", growing=False))
        assert limits(web.pods_cgroup) == limits(web.containers_cgroup) == Limits(before.shares, 10_000, 32 * MI)
    (seen,) = (await acting.read(web.pod)).containers
    assert (seen.container_id, seen.attempt, seen.state) == (web.container.container_id, 0, ContainerState.RUNNING)


async def test_no_limit_below_what_is_used(acting: Acting) -> None:
    """Neither for the container nor for the pod: the kernel would kill processes."""
    web = Sized(acting)
    fill = "head -c 30000000 /dev/zero > /dev/shm/some; echo filled > /dev/termination-log; exec sleep 1000"
    await web.made("200m", "64Mi", command=["sh", "-c", fill])
    await filled(web)
    before = limits(web.containers_cgroup), limits(web.pods_cgroup)
    with pytest.raises(ApplicationError, match=r'container "web" memory limit \(16777216\) below current usage') as why:
        await acting.run(web.resize.update_container_resources, web.update("200m", "16Mi"))
    assert why.value.type == "ResizePodInPlaceError"
    with pytest.raises(ApplicationError, match=r"attempting to set pod memory limit \(16777216\) below current usage"):
        await acting.run(web.resize.update_pod_sandbox_resources, web.cgroup_update("200m", "16Mi", growing=False))
    assert (limits(web.containers_cgroup), limits(web.pods_cgroup)) == before


async def filled(web: Sized) -> None:
    """Wait until the container has filled its memory."""
    await web.acting.services.runtime.exec_sync(
        web.container.container_id, ["sh", "-c", "until [ -s /dev/termination-log ]; do sleep 0.1; done"], 30
    )


async def test_a_container_that_is_gone(acting: Acting) -> None:
    """The resize is ignored, and a re-read is requested."""
    web = Sized(acting)
    await web.made("200m", "64Mi")
    runtime = acting.services.runtime
    await runtime.stop_container(web.container.container_id, 0)
    await runtime.remove_container(web.container.container_id)
    assert (await acting.run(web.resize.update_container_resources, web.update("100m", "32Mi"))).gone


async def test_a_container_that_an_earlier_start_left(acting: Acting) -> None:
    """The pod was resized in between: the existing container gets the resources of this start."""
    web = Sized(acting)
    await web.made("200m", "64Mi")
    spec = sized(web.pod, "100m", "32Mi")
    start = start_request(web.pod, web.sandbox, resources=resources("100m", "32Mi"))
    found = await acting.run(acting.containers.start_container, replace(start, sandbox_spec=spec))
    assert (found.container_id, found.adopted) == (web.container.container_id, True)
    assert limits(web.containers_cgroup).memory == 32 * MI
