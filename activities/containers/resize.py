"""Resizes a running pod: its cgroup, and its containers through the runtime.

Both set what the pod's spec says, whatever is set now, so they may run any number of times. A memory limit is never
set below current usage, because cgroup v2 would kill for it (pkg/kubelet/kuberuntime/kuberuntime_manager.go
doPodResizeAction, validateMemoryResizeAction). The pod's new resources are also sent to the runtime, if it supports that.
"""

import asyncio
from typing import Final

from temporalio import activity

from activities.clients.cri_error import CriError, Remedy
from activities.clients.runtime import RuntimeClient
from activities.containers.services import ContainerServices
from activities.cri_config.container_config import linux_resources
from activities.execution.errors import non_retryable_failure, runtime_failure
from activities.execution.heartbeat import heartbeating
from activities.sandbox.runtime_classes import runtime_class_of, with_overhead
from proto.cri.v1 import api_pb2 as cri
from proto.kubernetes.resources.qos import qos_class
from proto.kubernetes.resources.resources import (
    ContainerResources,
    PodResources,
    container_resources,
    overhead_resources,
    pod_resources,
    pod_without_quota,
    without_quota,
)
from proto.temporal import names
from proto.temporal.activities.requests import StartContainer
from proto.temporal.activities.resize import UpdateContainerResources, UpdatePodSandboxResources
from proto.temporal.resources import RuntimeResources

_NOT_RESIZED: Final = "ResizePodInPlaceError"


class ResizeActivities:
    """Activities that resize a pod and its containers."""

    def __init__(self, services: ContainerServices) -> None:
        self._services = services

    @activity.defn(name=names.UPDATE_POD_SANDBOX_RESOURCES)
    async def update_pod_sandbox_resources(self, request: UpdatePodSandboxResources) -> None:
        """Set the pod's cgroup to what its spec says; while growing, only raise it. Raises ResizePodInPlaceError."""
        services, pod, spec = self._services, request.pod, request.sandbox_spec
        doing = f"resize the cgroup of {pod}"
        async with heartbeating(doing), services.locks.hold(f"{pod.namespace}/{pod.name}"):
            try:
                whole = with_overhead(spec, await runtime_class_of(services.objects, spec))
                resources, qos = pod_resources(whole, services.settings.resources), qos_class(spec)
                if services.hardware.is_quota_off(pod.uid):
                    resources = pod_without_quota(resources)
                if not request.growing and resources.memory_limit:
                    limit, usage = await asyncio.to_thread(services.cgroups.pod_memory, pod.uid, qos)
                    _refuse_below_usage("pod", resources.memory_limit, limit, usage)
                beside = overhead_resources(whole, services.settings.resources)
                overhead = linux_resources(beside) if beside else cri.LinuxContainerResources()
                figures = _sandbox_figures(resources)
                await services.runtime.update_pod_sandbox_resources(request.sandbox_id, figures, overhead)
                await asyncio.to_thread(
                    services.cgroups.resize_pod, pod.uid, qos, resources, only_raise=request.growing
                )
            except CriError as error:
                raise runtime_failure(error, services.runtime.endpoint, _NOT_RESIZED, doing) from error
            except (OSError, ValueError) as error:
                raise non_retryable_failure(_NOT_RESIZED, f"{doing}: {error}") from error

    @activity.defn(name=names.UPDATE_CONTAINER_RESOURCES)
    async def update_container_resources(self, request: UpdateContainerResources) -> RuntimeResources:
        """Set a container's resources to what its spec says and return what it has then. Raises ResizePodInPlaceError."""
        services, container_id = self._services, request.container_id
        doing = f"resize container {request.name} of {request.pod}"
        async with heartbeating(doing), services.locks.hold(f"{request.pod.uid}/{request.name}"):
            try:
                figures = figures_of(services, request)
                await self._refuse_below_usage(request, figures)
                await update_container(services.runtime, container_id, figures)
                return _reported(await services.runtime.container_status(container_id))
            except CriError as error:
                if error.remedy is Remedy.GONE:
                    return RuntimeResources(gone=True)
                raise runtime_failure(error, services.runtime.endpoint, _NOT_RESIZED, doing) from error
            except ValueError as error:
                raise non_retryable_failure(_NOT_RESIZED, f"{doing}: {error}") from error

    async def _refuse_below_usage(self, request: UpdateContainerResources, figures: ContainerResources) -> None:
        """Refuse a lower memory limit that is below current usage."""
        runtime, wanted = self._services.runtime, figures.memory_limit_in_bytes
        limit = _reported(await runtime.container_status(request.container_id)).memory_limit_in_bytes
        if wanted and (not limit or wanted < limit):
            usage = (await runtime.container_stats(request.container_id)).memory.usage_bytes.value
            _refuse_below_usage(f'container "{request.name}"', wanted, limit, usage)


def figures_of(services: ContainerServices, request: StartContainer | UpdateContainerResources) -> ContainerResources:
    """Return the resources that a container is to have; no quota throttles one that has CPUs to itself."""
    found = container_resources(request.sandbox_spec, request.container, services.settings.resources)
    hardware = services.hardware.of(request.pod.uid, str(request.container["name"]))
    return without_quota(found) if hardware.is_quota_off else found


async def update_container(runtime: RuntimeClient, container_id: str, figures: ContainerResources) -> None:
    """Set a container's resources in the runtime; raises CriError."""
    resources = linux_resources(figures)
    await runtime.update_container_resources(container_id, resources)


async def update_adopted_container(services: ContainerServices, request: StartContainer, container_id: str) -> None:
    """Set the resources of a container that an earlier start left; raises CriError, ValueError."""
    figures = figures_of(services, request)
    status = await services.runtime.container_status(container_id)
    if status.resources.HasField("linux") and _reported(status) != _requested(figures):
        await update_container(services.runtime, container_id, figures)


def _refuse_below_usage(whose: str, wanted: int, limit: int, usage: int) -> None:
    """Raise ResizePodInPlaceError for a limit below both the present one (0: none) and the usage; all in bytes."""
    if (not limit or wanted < limit) and usage >= wanted:
        below = f"attempting to set {whose} memory limit ({wanted}) below current usage ({usage})"
        raise non_retryable_failure(_NOT_RESIZED, f"cannot decrease memory limits: {below}")


def _reported(status: cri.ContainerStatus) -> RuntimeResources:
    """Read the resources that the runtime reports for a container."""
    linux = status.resources.linux
    return RuntimeResources(linux.cpu_shares, linux.cpu_quota, linux.cpu_period, linux.memory_limit_in_bytes)


def _requested(figures: ContainerResources) -> RuntimeResources:
    return RuntimeResources(figures.cpu_shares, figures.cpu_quota, figures.cpu_period, figures.memory_limit_in_bytes)


def _sandbox_figures(resources: PodResources) -> cri.LinuxContainerResources:
    return cri.LinuxContainerResources(
        cpu_shares=resources.cpu_shares,
        cpu_quota=resources.cpu_quota or 0,
        cpu_period=resources.cpu_period or 0,
        memory_limit_in_bytes=resources.memory_limit or 0,
    )
