"""The container runtime's RuntimeService and ImageService as typed calls over one channel.

Used by activities and poller. Each call has a deadline below the timeout of the activity around it, so that the
activity can report what happened before Temporal times it out. gRPC's own backoff between connection attempts (up to
two minutes) is limited, so a restarted containerd is found within a second. Use it from one event loop only
(grpc/grpc#25364).
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio

from activities.clients.cri_error import CriError
from activities.clients.exec_sync import SHORT_ANSWER, WHOLE, ExecAnswer, ExecCalls
from activities.clients.lost_tasks import without_lost_tasks
from activities.clients.registry_login import Login
from activities.clients.scrub import scrub
from activities.clients.start_limit import StartLimit, StartPriority
from proto.cri.v1 import api_pb2 as cri
from proto.cri.v1 import api_pb2_grpc

_MIB: Final = 1024 * 1024
_MOST_RECEIVED: Final = "grpc.max_receive_message_length"
_OPTIONS: Final = (
    ("grpc.max_send_message_length", 16 * _MIB),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 500),
    ("grpc.enable_http_proxy", 0),
)
"""`grpc.min_reconnect_backoff_ms` is not among them: despite its name it limits one attempt to connect, to 20 s by default."""
CHANNEL_OPTIONS: Final = (
    *_OPTIONS,
    (_MOST_RECEIVED, 16 * _MIB),  # the kubelet's own (cri-client utils.go); gRPC's default is 4
)

READ_SECONDS: Final = 20.0
"""Lists and statuses: a runtime that needs longer counts as away."""
REQUEST_SECONDS: Final = 120.0
"""Create, Start, Remove and StopPodSandbox: runtimeRequestTimeout's default, and the most that the activities' timeouts allow."""
SANDBOX_SHARE: Final = 2
"""RunPodSandbox gets twice as long, as in the kubelet: it waits for CNI."""
PULL_SECONDS: Final = 82800.0
"""containerd itself ends a pull that makes no progress."""
STOP_MARGIN_SECONDS: Final = 60.0
"""StopContainer may take its grace period and this long: the runtime waits until the killed process is gone."""


class RuntimeClient:
    """One connection to a CRI endpoint; raises CriError for a failed call.

    `interceptors` are grpc.aio client interceptors (metrics, tracing) for all calls.
    """

    def __init__(self, endpoint: str, start_limit: StartLimit, interceptors: Sequence[Any] = ()) -> None:
        self.endpoint = endpoint
        self._start_limit = start_limit
        target = endpoint if "://" in endpoint else f"unix://{endpoint}"
        self._channel = grpc.aio.insecure_channel(target, options=CHANNEL_OPTIONS, interceptors=interceptors)
        self._commands = ExecCalls(
            self._channel,
            lambda: grpc.aio.insecure_channel(
                target, options=(*_OPTIONS, (_MOST_RECEIVED, SHORT_ANSWER)), interceptors=interceptors
            ),
        )
        self.long_answers = self._commands.turn
        self._runtime: Any = api_pb2_grpc.RuntimeServiceStub(self._channel)
        self._images: Any = api_pb2_grpc.ImageServiceStub(self._channel)

    async def close(self) -> None:
        """Close the connection; calls under way end as cancelled."""
        await self._channel.close(None)
        await self._commands.close()

    async def version(self) -> cri.VersionResponse:
        """Ask for the runtime's name and version, and its CRI version."""
        answer: cri.VersionResponse = await self._ask(self._runtime.Version, cri.VersionRequest())
        return answer

    async def status(self) -> cri.RuntimeStatus:
        """Read the runtime's conditions: RuntimeReady and NetworkReady."""
        answer = await self._ask(self._runtime.Status, cri.StatusRequest())
        status: cri.RuntimeStatus = answer.status
        return status

    async def abilities(self, *, verbose: bool = False) -> cri.StatusResponse:
        """Read the features of the runtime and of each of its handlers (old runtimes report none), and its settings."""
        answer: cri.StatusResponse = await self._ask(self._runtime.Status, cri.StatusRequest(verbose=verbose))
        return answer

    async def cgroup_driver(self) -> int | None:
        """Ask for the number of the cgroup driver; None: the runtime (containerd before 2.0) cannot tell."""
        try:
            answer = await self._ask(self._runtime.RuntimeConfig, cri.RuntimeConfigRequest())
        except CriError as error:
            if error.code is not grpc.StatusCode.UNIMPLEMENTED:
                raise
            return None
        return int(answer.linux.cgroup_driver) if answer.HasField("linux") else None

    async def update_runtime_config(self, pod_cidr: str) -> None:
        """Set the pod CIDR that the cluster has given this node; idempotent."""
        network = cri.NetworkConfig(pod_cidr=pod_cidr)
        request = cri.UpdateRuntimeConfigRequest(runtime_config=cri.RuntimeConfig(network_config=network))
        await self._ask(self._runtime.UpdateRuntimeConfig, request)

    async def run_pod_sandbox(self, config: cri.PodSandboxConfig, runtime_handler: str = "") -> str:
        """Create and start a sandbox with its network; returns its id."""
        request = cri.RunPodSandboxRequest(config=config, runtime_handler=runtime_handler)
        async with self._start_limit.permit(StartPriority.RUN_POD_SANDBOX):
            answer = await self._ask(self._runtime.RunPodSandbox, request, SANDBOX_SHARE * REQUEST_SECONDS)
        return str(answer.pod_sandbox_id)

    async def stop_pod_sandbox(self, sandbox_id: str) -> None:
        """Stop everything in a sandbox and release its network; idempotent as CRI requires."""
        request = cri.StopPodSandboxRequest(pod_sandbox_id=sandbox_id)
        await self._ask(self._runtime.StopPodSandbox, request, REQUEST_SECONDS)

    async def remove_pod_sandbox(self, sandbox_id: str) -> None:
        """Remove a sandbox with all its containers; idempotent as CRI requires."""
        request = cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox_id)
        await self._remove(self._runtime.RemovePodSandbox, request)

    async def list_pod_sandbox(self, labels: Mapping[str, str] | None = None) -> Sequence[cri.PodSandbox]:
        """List the sandboxes that have all of `labels`."""
        request = cri.ListPodSandboxRequest(filter=cri.PodSandboxFilter(label_selector=labels))
        answer = await self._ask(self._runtime.ListPodSandbox, request)
        items: Sequence[cri.PodSandbox] = answer.items
        return items

    async def pod_sandbox_status(self, sandbox_id: str) -> cri.PodSandboxStatus:
        """Read a sandbox's state, IPs and creation time."""
        request = cri.PodSandboxStatusRequest(pod_sandbox_id=sandbox_id)
        answer = await self._ask(self._runtime.PodSandboxStatus, request)
        status: cri.PodSandboxStatus = answer.status
        return status

    async def create_container(
        self, sandbox_id: str, config: cri.ContainerConfig, sandbox_config: cri.PodSandboxConfig
    ) -> str:
        """Create a container without starting it; returns its id."""
        request = cri.CreateContainerRequest(pod_sandbox_id=sandbox_id, config=config, sandbox_config=sandbox_config)
        async with self._start_limit.permit(StartPriority.CREATE_CONTAINER):
            answer = await self._ask(self._runtime.CreateContainer, request, REQUEST_SECONDS)
        return str(answer.container_id)

    async def start_container(self, container_id: str) -> None:
        """Start a created container."""
        request = cri.StartContainerRequest(container_id=container_id)
        async with self._start_limit.permit(StartPriority.START_CONTAINER):
            await self._ask(self._runtime.StartContainer, request, REQUEST_SECONDS)

    async def stop_container(self, container_id: str, grace_seconds: int) -> None:
        """Send the stop signal, and SIGKILL after the grace period (0: at once); returns when the container is down."""
        request = cri.StopContainerRequest(container_id=container_id, timeout=grace_seconds)
        deadline = grace_seconds + STOP_MARGIN_SECONDS
        await self._ask(self._runtime.StopContainer, request, deadline)

    async def remove_container(self, container_id: str) -> None:
        """Remove a container; idempotent as CRI requires."""
        request = cri.RemoveContainerRequest(container_id=container_id)
        await self._remove(self._runtime.RemoveContainer, request)

    async def list_containers(self, labels: Mapping[str, str] | None = None) -> Sequence[cri.Container]:
        """List the containers that have all of `labels`."""
        request = cri.ListContainersRequest(filter=cri.ContainerFilter(label_selector=labels))
        answer = await self._ask(self._runtime.ListContainers, request)
        containers: Sequence[cri.Container] = answer.containers
        return containers

    async def container_status(self, container_id: str) -> cri.ContainerStatus:
        """Read a container's state, times, exit code and mounts."""
        request = cri.ContainerStatusRequest(container_id=container_id)
        answer = await self._ask(self._runtime.ContainerStatus, request)
        status: cri.ContainerStatus = answer.status
        return status

    async def reopen_container_log(self, container_id: str) -> None:
        """Make the runtime reopen the log file of a running container."""
        await self._ask(self._runtime.ReopenContainerLog, cri.ReopenContainerLogRequest(container_id=container_id))

    async def container_stats(self, container_id: str) -> cri.ContainerStats:
        """Read the resource usage of a container."""
        answer = await self._ask(self._runtime.ContainerStats, cri.ContainerStatsRequest(container_id=container_id))
        stats: cri.ContainerStats = answer.stats
        return stats

    async def list_container_stats(self, sandbox_id: str) -> Sequence[cri.ContainerStats]:
        """Read the resource usage of a sandbox's containers."""
        request = cri.ListContainerStatsRequest(filter=cri.ContainerStatsFilter(pod_sandbox_id=sandbox_id))
        answer = await self._ask(self._runtime.ListContainerStats, request)
        stats: Sequence[cri.ContainerStats] = answer.stats
        return stats

    async def update_container_resources(self, container_id: str, resources: cri.LinuxContainerResources) -> None:
        """Change a container's resources; of one that is not running, only its configuration."""
        request = cri.UpdateContainerResourcesRequest(container_id=container_id, linux=resources)
        await self._ask(self._runtime.UpdateContainerResources, request, REQUEST_SECONDS)

    async def update_pod_sandbox_resources(
        self, sandbox_id: str, resources: cri.LinuxContainerResources, overhead: cri.LinuxContainerResources
    ) -> None:
        """Send the runtime the resources of a whole pod; a runtime without this call (containerd 2) is no error."""
        request = cri.UpdatePodSandboxResourcesRequest(
            pod_sandbox_id=sandbox_id, overhead=overhead, resources=resources
        )
        try:
            await self._ask(self._runtime.UpdatePodSandboxResources, request, REQUEST_SECONDS)
        except CriError as error:
            # containerd 2.2 answers with the code UNKNOWN (containerd#13023)
            if error.code is not grpc.StatusCode.UNIMPLEMENTED and "not implemented" not in error.details:
                raise

    async def exec_sync(
        self, container_id: str, command: Sequence[str], timeout_seconds: int = 0, *, keep: slice = WHOLE
    ) -> ExecAnswer:
        """Run a command in a container and wait for its end; `keep` is the part of each output that is returned.

        A timeout raises DEADLINE_EXCEEDED; 0 is no timeout.
        """
        request = cri.ExecSyncRequest(container_id=container_id, cmd=command, timeout=timeout_seconds)
        return await self._commands.run(request, keep)

    async def exec_sync_short(
        self, container_id: str, command: Sequence[str], timeout_seconds: int, *, keep: slice
    ) -> ExecAnswer:
        """Like exec_sync, but raises AnswerTooLong for an answer of more than 256 KiB."""
        request = cri.ExecSyncRequest(container_id=container_id, cmd=command, timeout=timeout_seconds)
        return await self._commands.run_short(request, keep)

    async def exec(self, request: cri.ExecRequest) -> str:
        """Prepare a command in a container; returns the URL, good for one use, that serves its streams."""
        return str((await self._ask(self._runtime.Exec, request)).url)

    async def attach(self, request: cri.AttachRequest) -> str:
        """Prepare attaching to a container; returns the URL, good for one use, that serves its streams."""
        return str((await self._ask(self._runtime.Attach, request)).url)

    async def port_forward(self, request: cri.PortForwardRequest) -> str:
        """Prepare forwarding to a sandbox's ports; returns the URL, good for one use, that serves it."""
        return str((await self._ask(self._runtime.PortForward, request)).url)

    async def checkpoint_container(self, container_id: str, location: Path, timeout_seconds: int = 0) -> None:
        """Write a container's checkpoint to a file; waits at least as long as any request may take."""
        seconds = max(timeout_seconds, int(REQUEST_SECONDS))
        request = cri.CheckpointContainerRequest(container_id=container_id, location=str(location), timeout=seconds)
        await self._ask(self._runtime.CheckpointContainer, request, float(seconds))

    async def container_events(self) -> AsyncIterator[cri.ContainerEventResponse]:
        """Yield the runtime's events until the stream breaks (CriError); containerd before 2.0 has one shared stream."""
        try:
            async for event in self._runtime.GetContainerEvents(cri.GetEventsRequest()):
                yield event
        except grpc.aio.AioRpcError as error:
            raise CriError("GetContainerEvents", error.code(), error.details() or "") from error

    async def image_status(self, image: str) -> cri.Image | None:
        """Look an image up by name, digest or id; None if the node does not have it."""
        request = cri.ImageStatusRequest(image=cri.ImageSpec(image=image))
        answer = await self._ask(self._images.ImageStatus, request)
        found: cri.Image | None = answer.image if answer.HasField("image") else None
        return found

    async def image_id(self, image: str) -> str:
        """Return the id of an image; empty if the node does not have it."""
        found = await self.image_status(image)
        return str(found.id) if found else ""

    async def list_images(self) -> Sequence[cri.Image]:
        """List all images on the node."""
        answer = await self._ask(self._images.ListImages, cri.ListImagesRequest())
        images: Sequence[cri.Image] = answer.images
        return images

    async def image_fs_info(self) -> cri.ImageFsInfoResponse:
        """Return the file systems of images, and of writable layers; old runtimes leave the latter out."""
        answer: cri.ImageFsInfoResponse = await self._ask(self._images.ImageFsInfo, cri.ImageFsInfoRequest())
        return answer

    async def remove_image(self, image_id: str) -> None:
        """Remove an image with all its names; idempotent as CRI requires."""
        request = cri.RemoveImageRequest(image=cri.ImageSpec(image=image_id))
        await self._ask(self._images.RemoveImage, request, REQUEST_SECONDS)

    async def pull_image(self, image: str, login: Login | None = None) -> str:
        """Pull an image; returns the reference to create containers with. Errors have the login redacted."""
        auth = login.auth_config() if login else None
        request = cri.PullImageRequest(image=cri.ImageSpec(image=image), auth=auth)
        try:
            answer = await self._images.PullImage(request, timeout=PULL_SECONDS)
        except grpc.aio.AioRpcError as error:
            details = scrub(error.details() or "no details", login.secrets() if login else ())
            raise CriError("PullImage", error.code(), details) from None  # the cause has the runtime's words unredacted
        return str(answer.image_ref)

    async def _remove(self, method: Any, request: Any) -> None:
        await without_lost_tasks(partial(self._ask, method, request, REQUEST_SECONDS), self._channel, READ_SECONDS)

    async def _ask(self, method: Any, request: Any, deadline: float | None = READ_SECONDS) -> Any:
        call = type(request).__name__.removesuffix("Request")
        try:
            return await method(request, timeout=deadline)
        except grpc.aio.AioRpcError as error:
            raise CriError(call, error.code(), error.details() or "no details") from error
