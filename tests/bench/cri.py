"""Reads from the runtime when a container started and exited: the same observer for all peers.

It uses grpc.aio directly, without tempolet. Times are the runtime's timestamps (seconds since the epoch), so polling costs a
little CPU and no accuracy; only for removed containers and sandboxes, for which the runtime has no time, is the accuracy the
polling interval.
"""

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc.aio

from proto.cri.v1 import api_pb2 as cri
from proto.cri.v1 import api_pb2_grpc

POD_NAME: Final = "io.kubernetes.pod.name"
CONTAINER_NAME: Final = "io.kubernetes.container.name"
LOOK_EVERY: Final = 0.03
LOOK_CLOSELY: Final = 0.01
LONGEST: Final = 60.0
CALL_SECONDS: Final = 200.0


class TooSlow(Exception):
    """Something did not happen in time; says what."""


@dataclass(frozen=True, slots=True)
class Started:
    """A running container."""

    container_id: str
    at: float


class Cri:
    """One connection to one containerd."""

    def __init__(self, socket: Path) -> None:
        options = [("grpc.max_receive_message_length", 16 * 1024 * 1024), ("grpc.enable_http_proxy", 0)]
        self._channel = grpc.aio.insecure_channel(f"unix://{socket}", options=options)
        self.runtime: Any = api_pb2_grpc.RuntimeServiceStub(self._channel)

    async def close(self) -> None:
        """Close the connection."""
        await self._channel.close(None)

    async def list_running(self, labels: Mapping[str, str] | None = None) -> Sequence[cri.Container]:
        """List the running containers with all of these `labels`."""
        only = cri.ContainerFilter(
            state=cri.ContainerStateValue(state=cri.ContainerState.CONTAINER_RUNNING), label_selector=labels
        )
        answer = await self.runtime.ListContainers(cri.ListContainersRequest(filter=only), timeout=CALL_SECONDS)
        containers: Sequence[cri.Container] = answer.containers
        return containers

    async def sandboxes(self, pod: str | None = None, *, ready: bool = False) -> Sequence[cri.PodSandbox]:
        """List sandboxes, of one pod or of all, on request only ready ones."""
        only = cri.PodSandboxFilter(label_selector={POD_NAME: pod} if pod else None)
        if ready:
            only.state.state = cri.PodSandboxState.SANDBOX_READY
        answer = await self.runtime.ListPodSandbox(cri.ListPodSandboxRequest(filter=only), timeout=CALL_SECONDS)
        items: Sequence[cri.PodSandbox] = answer.items
        return items

    async def started(self, pod: str, container: str = "main", *, attempt: int = 0) -> Started:
        """Wait until a pod's container runs in its `attempt`; raises TooSlow after a minute."""
        until = time.monotonic() + LONGEST
        while time.monotonic() < until:
            for found in await self.list_running({POD_NAME: pod, CONTAINER_NAME: container}):
                if found.metadata.attempt == attempt:
                    return Started(found.id, await self.started_at(found.id))
            await asyncio.sleep(LOOK_EVERY)
        raise TooSlow(f"{container} of {pod}, attempt {attempt}, does not run after {LONGEST:.0f} s")

    async def all_started(self, count: int, within: float) -> float:
        """Wait until `count` containers run; returns when the last one started. Raises TooSlow."""
        until = time.monotonic() + within
        running: Sequence[cri.Container] = ()
        while time.monotonic() < until:
            running = await self.list_running({CONTAINER_NAME: "main"})
            if len(running) >= count:
                return max([await self.started_at(one.id) for one in running])
            await asyncio.sleep(0.5)
        raise TooSlow(f"{len(running)} of {count} containers run after {within:.0f} s")

    async def started_at(self, container_id: str) -> float:
        """Read when a container started."""
        return (await self.status(container_id)).status.started_at / 1e9

    async def finished_at(self, container_id: str) -> float:
        """Wait until a container has exited and read when; raises TooSlow after a minute."""
        until = time.monotonic() + LONGEST
        while time.monotonic() < until:
            status = (await self.status(container_id)).status
            if status.state == cri.ContainerState.CONTAINER_EXITED:
                return float(status.finished_at / 1e9)
            await asyncio.sleep(LOOK_CLOSELY)
        raise TooSlow(f"container {container_id} still runs after {LONGEST:.0f} s")

    async def pid(self, container_id: str) -> int:
        """Ask containerd for a container's PID."""
        info = (await self.status(container_id, verbose=True)).info["info"]
        return int(json.loads(info)["pid"])

    async def stopped(self, pod: str) -> float:
        """Wait until nothing of a pod runs any more; returns when that was seen. Raises TooSlow."""
        until = time.monotonic() + LONGEST
        while time.monotonic() < until:
            if not await self.list_running({POD_NAME: pod}):
                return time.time()
            await asyncio.sleep(LOOK_CLOSELY)
        raise TooSlow(f"{pod} still runs after {LONGEST:.0f} s")

    async def sandbox_stopped(self, pod: str) -> float:
        """Wait until a pod has no ready sandbox; returns when that was seen. Raises TooSlow."""
        until = time.monotonic() + LONGEST
        while time.monotonic() < until:
            if not await self.sandboxes(pod, ready=True):
                return time.time()
            await asyncio.sleep(LOOK_CLOSELY)
        raise TooSlow(f"the sandbox of {pod} is still ready after {LONGEST:.0f} s")

    async def nothing_ready(self, within: float) -> None:
        """Wait until no sandbox is ready; raises TooSlow."""
        until = time.monotonic() + within
        while time.monotonic() < until:
            ready = await self.sandboxes(ready=True)
            if not ready:
                return
            await asyncio.sleep(0.5)
        raise TooSlow(f"{len(ready)} sandboxes are still ready after {within:.0f} s")

    async def status(self, container_id: str, *, verbose: bool = False) -> cri.ContainerStatusResponse:
        """Read a container's status."""
        request = cri.ContainerStatusRequest(container_id=container_id, verbose=verbose)
        answer: cri.ContainerStatusResponse = await self.runtime.ContainerStatus(request, timeout=CALL_SECONDS)
        return answer
