"""The answers of PodResources, in both versions of the API (pkg/kubelet/apis/podresources)."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from proto.pod_snapshot import is_active, read_snapshots
from proto.podresources.v1 import api_pb2 as api
from proto.podresources.v1alpha1 import api_pb2 as alpha
from worker.node.pod_resources.assigned import Assigned
from worker.stats.disks.pod_files import PodFile, PodFiles


@dataclass(slots=True)
class Listing:
    """Reads the node's pods, and what they have."""

    root_dir: Path
    assigned: Assigned = ()
    only_active: bool = True
    """The feature gate KubeletPodResourcesListUseActivePods."""
    _files: PodFiles = field(init=False)
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self._files = PodFiles(self.root_dir)

    async def pods(self) -> api.ListPodResourcesResponse:
        """List the pods: with the gate those that have not ended."""
        found = await self._read(only_active=self.only_active)
        return api.ListPodResourcesResponse(pod_resources=map(self._resources, found))

    async def pods_of_alpha(self) -> alpha.ListPodResourcesResponse:
        """List all pods that are on the node, without sidecars, with devices only."""
        found = await self._read(only_active=False)
        return alpha.ListPodResourcesResponse(pod_resources=map(self._resources_of_alpha, found))

    async def pod(self, namespace: str, name: str) -> api.PodResources | None:
        """Return one pod that has not ended, also without the gate."""
        for pod in await self._read(only_active=True):
            if (pod.namespace, pod.name) == (namespace, name):
                return self._resources(pod)
        return None

    async def allocatable(self) -> api.AllocatableResourcesResponse:
        """Return what containers may have."""
        async with self._reading:
            return await asyncio.to_thread(self._allocatable_now)

    def _allocatable_now(self) -> api.AllocatableResourcesResponse:
        answer = api.AllocatableResourcesResponse()
        for kind in self.assigned:
            kind.read()
            kind.add_allocatable(answer)
        return answer

    async def _read(self, *, only_active: bool) -> list[PodFile]:
        async with self._reading:
            return await asyncio.to_thread(self._read_now, only_active=only_active)

    def _read_now(self, *, only_active: bool) -> list[PodFile]:
        for kind in self.assigned:
            kind.read()
        snapshots = read_snapshots(self.root_dir)
        found = self._files.all(one.uid for one in snapshots)
        active = {one.uid for one in snapshots if not only_active or is_active(one)}
        return [one for one in found if one.uid in active]

    def _resources(self, pod: PodFile) -> api.PodResources:
        containers = [api.ContainerResources(name=one) for one in pod.containers]
        for container in containers:
            for kind in self.assigned:
                kind.add(container, pod)
        return api.PodResources(name=pod.name, namespace=pod.namespace, containers=containers)

    def _resources_of_alpha(self, pod: PodFile) -> alpha.PodResources:
        containers = [
            alpha.ContainerResources(
                name=one.name,
                devices=[
                    alpha.ContainerDevices(resource_name=each.resource_name, device_ids=each.device_ids)
                    for each in one.devices
                ],
            )
            for one in self._resources(pod).containers
            if one.name not in pod.sidecars
        ]
        return alpha.PodResources(name=pod.name, namespace=pod.namespace, containers=containers)
