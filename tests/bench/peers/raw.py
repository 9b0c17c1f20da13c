"""The minimum: the CRI calls that a pod needs, in sequence, by a client that does nothing else.

RunPodSandbox, CreateContainer, StartContainer, ContainerStatus with the image present; no probes; containers' exits come from the
runtime's event stream; 4 pods at a time where there are many. No directories, no pod cgroup, no look-ups.
"""

import asyncio
import contextlib
import time
import uuid
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import grpc.aio

from proto.cri.v1 import api_pb2 as cri
from tests.bench.cri import CALL_SECONDS, CONTAINER_NAME, POD_NAME
from tests.bench.manifests import GRACE_SECONDS, IMAGE, MAIN, NAMESPACE, Container, Pod
from tests.bench.peers.peer import Peer

AT_ONCE: Final = 4
OWN_PROCESSES: Final = cri.NamespaceOption(pid=cri.NamespaceMode.CONTAINER)  # the default of a pod, not of the CRI


@dataclass(slots=True)
class Made:
    """What was created for a pod."""

    config: cri.PodSandboxConfig
    sandbox_id: str
    main_id: str = ""
    watch: asyncio.Task[None] | None = None


@dataclass(slots=True)
class Ends:
    """Containers' exits, from the event stream."""

    by_container: defaultdict[str, asyncio.Event] = field(default_factory=lambda: defaultdict(asyncio.Event))

    async def follow(self, runtime: Any) -> None:
        """Read the stream until cancelled."""
        async for event in runtime.GetContainerEvents(cri.GetEventsRequest()):
            if event.container_event_type == cri.ContainerEventType.CONTAINER_STOPPED_EVENT:
                self.by_container[event.container_id].set()

    async def of(self, container_id: str) -> None:
        """Wait for a container's exit."""
        await self.by_container[container_id].wait()


class RawCri(Peer):
    """Only the calls; a crashed main container is restarted at once."""

    name: ClassVar[str] = "raw"
    number: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        self._made: dict[str, Made] = {}
        self._ends = Ends()
        self._following: asyncio.Task[None] | None = None
        self._deleting: list[asyncio.Task[None]] = []

    def begin(self) -> None:
        """Nothing is needed besides containerd."""

    async def connect(self) -> None:
        """Also open the event stream."""
        await super().connect()
        self._following = asyncio.create_task(self._ends.follow(self.cri.runtime))

    async def disconnect(self) -> None:
        """Close it."""
        if self._following is not None:
            self._following.cancel()
            with contextlib.suppress(asyncio.CancelledError, grpc.aio.AioRpcError):
                await self._following
        await super().disconnect()

    async def start(self, pods: Sequence[Pod]) -> float:
        """Start pods, 4 at a time; returns when all run."""
        at = time.time()
        limit = asyncio.Semaphore(AT_ONCE)
        await asyncio.gather(*(self._start_one(pod, limit) for pod in pods))
        return at

    async def delete(self, pods: Sequence[Pod]) -> float:
        """Stop pods with a grace period and remove them, 4 at a time; returns at once and continues in the background."""
        at = time.time()
        limit = asyncio.Semaphore(AT_ONCE)
        self._deleting = [asyncio.create_task(self._delete_one(self._made.pop(pod.name), limit)) for pod in pods]
        return at

    async def delete_leftovers(self) -> None:
        """Remove every started pod."""
        await self.delete([Pod(name) for name in self._made])

    async def _start_one(self, pod: Pod, limit: asyncio.Semaphore) -> None:
        async with limit:
            config = _sandbox_config(self.pod_name(pod), self.place.cgroup, str(self.place.logs))
            request = cri.RunPodSandboxRequest(config=config)
            answer = await self.cri.runtime.RunPodSandbox(request, timeout=CALL_SECONDS)
            made = Made(config, answer.pod_sandbox_id)
            for container in pod.init_containers:
                container_id = await self._run(made, container)
                if container.ends:
                    await self._ends.of(container_id)
            for container in pod.containers:
                container_id = await self._run(made, container)
                if container.name == MAIN.name:
                    made.main_id = container_id
            await self.cri.status(made.main_id)
            made.watch = asyncio.create_task(self._start_again(made))
            self._made[pod.name] = made

    async def _start_again(self, made: Made) -> None:
        await self._ends.of(made.main_id)
        made.main_id = await self._run(made, MAIN, attempt=1)

    async def _delete_one(self, made: Made, limit: asyncio.Semaphore) -> None:
        async with limit:
            if made.watch is not None:
                made.watch.cancel()
            stop = cri.StopContainerRequest(container_id=made.main_id, timeout=GRACE_SECONDS)
            await self.cri.runtime.StopContainer(stop, timeout=CALL_SECONDS)
            which = {"pod_sandbox_id": made.sandbox_id}
            await self.cri.runtime.StopPodSandbox(cri.StopPodSandboxRequest(**which), timeout=CALL_SECONDS)
            await self.cri.runtime.RemovePodSandbox(cri.RemovePodSandboxRequest(**which), timeout=CALL_SECONDS)

    async def _run(self, made: Made, container: Container, *, attempt: int = 0) -> str:
        config = cri.ContainerConfig(
            metadata=cri.ContainerMetadata(name=container.name, attempt=attempt),
            image=cri.ImageSpec(image=IMAGE),
            command=container.command,
            labels=dict(made.config.labels) | {CONTAINER_NAME: container.name},
            log_path=f"{container.name}.{attempt}.log",
            linux=cri.LinuxContainerConfig(
                security_context=cri.LinuxContainerSecurityContext(namespace_options=OWN_PROCESSES)
            ),
        )
        request = cri.CreateContainerRequest(pod_sandbox_id=made.sandbox_id, config=config, sandbox_config=made.config)
        container_id = (await self.cri.runtime.CreateContainer(request, timeout=CALL_SECONDS)).container_id
        await self.cri.runtime.StartContainer(
            cri.StartContainerRequest(container_id=container_id), timeout=CALL_SECONDS
        )
        return str(container_id)


def _sandbox_config(name: str, cgroup: str, logs: str) -> cri.PodSandboxConfig:
    uid = uuid.uuid4().hex
    return cri.PodSandboxConfig(
        metadata=cri.PodSandboxMetadata(name=name, uid=uid, namespace=NAMESPACE, attempt=0),
        hostname=name,
        log_directory=f"{logs}/{name}",
        labels={POD_NAME: name},
        linux=cri.LinuxPodSandboxConfig(
            cgroup_parent=cgroup,
            security_context=cri.LinuxSandboxSecurityContext(namespace_options=OWN_PROCESSES),
        ),
    )
