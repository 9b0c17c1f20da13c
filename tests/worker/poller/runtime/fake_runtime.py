"""A CRI runtime in the test's own process: what it holds is what the test says, its events come when the test tells.

Over a real Unix socket, so that connecting, losing it and finding it again are real.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from proto.cri.labels import CONTAINER_NAME, POD_NAME, POD_NAMESPACE, POD_UID
from proto.cri.ownership import NODE_ANNOTATION
from proto.cri.v1 import api_pb2 as cri
from proto.cri.v1 import api_pb2_grpc

STOPPED, DELETED = cri.CONTAINER_STOPPED_EVENT, cri.CONTAINER_DELETED_EVENT
CREATED, STARTED = cri.CONTAINER_CREATED_EVENT, cri.CONTAINER_STARTED_EVENT


def sandbox(uid: str, sandbox_id: str, *, node: str = "n", ready: bool = True, name: str = "web") -> cri.PodSandbox:
    """Build a sandbox of namespace default that carries the node's mark; an empty node leaves the mark out."""
    return cri.PodSandbox(
        id=sandbox_id,
        metadata=cri.PodSandboxMetadata(name=name, namespace="default", uid=uid),
        state=cri.SANDBOX_READY if ready else cri.SANDBOX_NOTREADY,
        labels={POD_NAME: name, POD_NAMESPACE: "default", POD_UID: uid},
        annotations={NODE_ANNOTATION: node} if node else {},
    )


def container(
    container_id: str, sandbox_id: str, *, name: str = "c", attempt: int = 0, running: bool = True
) -> cri.Container:
    """Build a container."""
    return cri.Container(
        id=container_id,
        pod_sandbox_id=sandbox_id,
        metadata=cri.ContainerMetadata(name=name, attempt=attempt),
        state=cri.CONTAINER_RUNNING if running else cri.CONTAINER_EXITED,
        labels={CONTAINER_NAME: name},
    )


def event(
    kind: cri.ContainerEventType, one_id: str, of: cri.PodSandbox | None, *containers: cri.Container
) -> cri.ContainerEventResponse:
    """Build an event as containerd sends it: with the pod's statuses, unless the pod is gone."""
    status = cri.PodSandboxStatus()
    if of:
        status = cri.PodSandboxStatus(id=of.id, metadata=of.metadata, labels=of.labels, annotations=of.annotations)
    statuses = [
        cri.ContainerStatus(id=one.id, metadata=one.metadata, state=one.state, labels=one.labels) for one in containers
    ]
    return cri.ContainerEventResponse(
        container_id=one_id, container_event_type=kind, pod_sandbox_status=status, containers_statuses=statuses
    )


class FakeRuntime(api_pb2_grpc.RuntimeServiceServicer):  # type: ignore[misc]  # generated without types
    """The runtime; `start` and `stop` as often as the test likes."""

    def __init__(self, socket: Path, version: str = "2.1.4") -> None:
        self.endpoint = f"unix://{socket}"
        self.version = version
        self.sandboxes: dict[str, cri.PodSandbox] = {}
        self.containers: dict[str, cri.Container] = {}
        self.stopped: list[str] = []
        self.listings = 0
        self.after_listing: Callable[[], None] = lambda: None
        self.during: Callable[[str], None] = lambda _: None
        """Called with the name of a call that changes something, before it ends."""
        self.readers: set[asyncio.Queue[cri.ContainerEventResponse]] = set()
        self.reader_came = asyncio.Event()
        self.asked = asyncio.Event()
        self._server: grpc.aio.Server | None = None

    async def start(self) -> None:
        """Listen."""
        self._server = grpc.aio.server()
        api_pb2_grpc.add_RuntimeServiceServicer_to_server(self, self._server)
        self._server.add_insecure_port(self.endpoint)
        await self._server.start()

    async def stop(self) -> None:
        """Vanish: every call under way breaks."""
        if self._server:
            await self._server.stop(grace=None)
            self._server = None
        self.readers.clear()
        self.reader_came.clear()

    def add(self, pod: cri.PodSandbox, *containers: cri.Container) -> None:
        """Hold these."""
        self.sandboxes[pod.id] = pod
        self.containers |= {one.id: one for one in containers}

    def end(self, container_id: str) -> cri.Container:
        """Let a container exit, without an event."""
        self.containers[container_id].state = cri.CONTAINER_EXITED
        return self.containers[container_id]

    def tell(self, told: cri.ContainerEventResponse) -> None:
        """Send an event to all readers."""
        for reader in self.readers:
            reader.put_nowait(told)

    # --- CRI, with its names

    async def Version(self, _: Any, __: Any) -> cri.VersionResponse:  # noqa: N802 - CRI's name
        """Say who we are."""
        self.asked.set()
        return cri.VersionResponse(runtime_name="containerd", runtime_version=self.version)

    async def Status(self, _: Any, __: Any) -> cri.StatusResponse:  # noqa: N802 - CRI's name
        """Say that all is well."""
        conditions = [cri.RuntimeCondition(type=kind, status=True) for kind in ("RuntimeReady", "NetworkReady")]
        return cri.StatusResponse(status=cri.RuntimeStatus(conditions=conditions))

    async def ListPodSandbox(self, _: Any, __: Any) -> cri.ListPodSandboxResponse:  # noqa: N802 - CRI's name
        """List them."""
        self.listings += 1
        return cri.ListPodSandboxResponse(items=list(self.sandboxes.values()))

    async def ListContainers(self, _: Any, __: Any) -> cri.ListContainersResponse:  # noqa: N802 - CRI's name
        """List them."""
        answer = cri.ListContainersResponse(containers=list(self.containers.values()))
        self.after_listing()
        return answer

    async def GetContainerEvents(  # noqa: N802 - CRI's name
        self, _: Any, __: Any
    ) -> AsyncIterator[cri.ContainerEventResponse]:
        """Stream the events that the test sends."""
        queue: asyncio.Queue[cri.ContainerEventResponse] = asyncio.Queue()
        self.readers.add(queue)
        self.reader_came.set()
        try:
            while True:
                yield await queue.get()
        finally:
            self.readers.discard(queue)

    async def StopContainer(self, request: cri.StopContainerRequest, _: Any) -> cri.StopContainerResponse:  # noqa: N802 - CRI's name
        """Stop at once."""
        self.stopped.append(f"{request.container_id} within {request.timeout}")
        self.end(request.container_id)
        self.during("StopContainer")
        return cri.StopContainerResponse()

    async def StopPodSandbox(self, request: Any, _: Any) -> cri.StopPodSandboxResponse:  # noqa: N802 - CRI's name
        """Stop at once."""
        self.stopped.append(request.pod_sandbox_id)
        self.during("StopPodSandbox")
        return cri.StopPodSandboxResponse()

    async def RemovePodSandbox(self, request: Any, _: Any) -> cri.RemovePodSandboxResponse:  # noqa: N802 - CRI's name
        """Remove it with its containers."""
        self.sandboxes.pop(request.pod_sandbox_id, None)
        inside = [one.id for one in self.containers.values() if one.pod_sandbox_id == request.pod_sandbox_id]
        for container_id in inside:
            del self.containers[container_id]
        return cri.RemovePodSandboxResponse()
