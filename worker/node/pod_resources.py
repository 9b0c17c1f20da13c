"""The PodResources API on `<root-dir>/pod-resources/kubelet.sock`: pods and the devices assigned to them.

Monitoring agents of devices use it. There are no managers of devices, CPUs or memory, so pods and containers are listed with
empty assignments, as by the kubelet (pkg/kubelet/apis/podresources/server_v1.go).
"""

import asyncio
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio

from proto.pod_snapshot import FINAL_PHASES, read_snapshots
from proto.podresources.v1 import api_pb2 as api
from proto.podresources.v1 import api_pb2_grpc
from worker.endpoints.unix_sockets import short_name
from worker.node.process.dependencies import NodeDependencies
from worker.stats.disks.pod_files import PodFile, PodFiles

SOCKET: Final = Path("pod-resources/kubelet.sock")
_AT_ONCE: Final = 16


async def serve_pod_resources(deps: NodeDependencies) -> None:
    """Serve until cancelled; raises OSError and RuntimeError if the socket cannot be created."""
    path = deps.config.root_dir / SOCKET
    path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    server = grpc.aio.server(maximum_concurrent_rpcs=_AT_ONCE)
    with short_name(path) as short:
        try:
            api_pb2_grpc.add_PodResourcesListerServicer_to_server(PodResources(deps.config.root_dir), server)
            server.add_insecure_port(f"unix:{short}")
            await server.start()
            await server.wait_for_termination()
        finally:
            path.unlink(missing_ok=True)
            await server.stop(None)


class PodResources(api_pb2_grpc.PodResourcesListerServicer):  # type: ignore[misc]  # generated
    """The API's methods."""

    def __init__(self, root_dir: Path) -> None:
        """Take the directory that holds the node's pods."""
        self._root_dir = root_dir
        self._pods = PodFiles(root_dir)
        self._reading = asyncio.Lock()

    async def List(self, request: Any, context: Any) -> api.ListPodResourcesResponse:  # noqa: ARG002, N802 - gRPC's
        """List the pods that have not ended."""
        return api.ListPodResourcesResponse(pod_resources=map(_pod_resources, await self._active()))

    async def Get(self, request: api.GetPodResourcesRequest, context: Any) -> api.GetPodResourcesResponse:  # noqa: N802 - gRPC's
        """Return one pod; NOT_FOUND if there is none of that name (the kubelet answers UNKNOWN)."""
        for pod in await self._active():
            if (pod.namespace, pod.name) == (request.pod_namespace, request.pod_name):
                return api.GetPodResourcesResponse(pod_resources=_pod_resources(pod))
        sentence = f"pod {request.pod_name} in namespace {request.pod_namespace} not found"
        await context.abort(grpc.StatusCode.NOT_FOUND, sentence)
        raise AssertionError("unreached")

    async def GetAllocatableResources(  # noqa: N802 - gRPC's
        self,
        request: Any,  # noqa: ARG002 - gRPC's
        context: Any,  # noqa: ARG002 - gRPC's
    ) -> api.AllocatableResourcesResponse:
        """Return the assignable resources: none."""
        return api.AllocatableResourcesResponse()

    async def _active(self) -> list[PodFile]:
        async with self._reading:
            return await asyncio.to_thread(_active_pods, self._root_dir, self._pods)


def _active_pods(root_dir: Path, pods: PodFiles) -> list[PodFile]:
    return pods.all(one.uid for one in read_snapshots(root_dir) if one.phase not in FINAL_PHASES)


def _pod_resources(pod: PodFile) -> api.PodResources:
    containers = [api.ContainerResources(name=one) for one in pod.containers]
    return api.PodResources(name=pod.name, namespace=pod.namespace, containers=containers)
