"""Reads what the runtime knows of a pod, in the types that history stores.

A workflow uses `ReadPodRuntime` to learn what no other activity has reported. The conversions are used by every
activity that reads a container or a sandbox.
"""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

from temporalio import activity

from activities.clients.cri_error import CriError, Remedy
from activities.cri_config.stop_signals import signal_name
from activities.execution.errors import runtime_failure
from activities.execution.heartbeat import heartbeating
from activities.network.network import sandbox_ips
from activities.runtime.confidential import redact_status
from activities.runtime.services import RuntimeServices
from activities.runtime.termination_messages import termination_message
from proto.cri.labels import CONTAINER_HASH, POD_UID
from proto.cri.v1 import api_pb2 as cri
from proto.temporal import names
from proto.temporal.activities.requests import PodRuntime, ReadPodRuntime, RuntimeContainer
from proto.temporal.pod import ContainerState, LinuxUser, Sandbox

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
READ_FAILED: Final = "RuntimeReadFailed"
_Found = TypeVar("_Found", Sandbox, RuntimeContainer)


class RuntimeFactsActivities:
    """Activities that read the runtime and change nothing."""

    def __init__(self, services: RuntimeServices) -> None:
        self._services = services

    @activity.defn(name=names.READ_POD_RUNTIME)
    async def read_pod_runtime(self, request: ReadPodRuntime) -> PodRuntime:
        """Read all sandboxes and containers with the pod's UID, newest attempt first."""
        runtime, labels = self._services.runtime, {POD_UID: request.pod.uid}
        async with heartbeating(f"read pod {request.pod}"):
            try:
                sandboxes, containers = await asyncio.gather(
                    runtime.list_pod_sandbox(labels), runtime.list_containers(labels)
                )
                read_sandboxes = await asyncio.gather(*(self._sandbox(one) for one in sandboxes))
                read_containers = await asyncio.gather(*(self._container(one) for one in containers))
            except CriError as error:
                raise runtime_failure(
                    error, self._services.runtime.endpoint, READ_FAILED, f"read pod {request.pod}"
                ) from error
        found = [one for one in read_containers if one]
        alive = [one.container_id for one in found if one.state is not ContainerState.EXITED]
        self._services.probes.only(request.pod.uid, alive)
        return PodRuntime(
            sandboxes=_newest_first([one for one in read_sandboxes if one]), containers=_newest_first(found)
        )

    async def _sandbox(self, listed: cri.PodSandbox) -> Sandbox | None:
        if listed.state != cri.PodSandboxState.SANDBOX_READY:
            return Sandbox(listed.id, listed.metadata.attempt, ready=False, created_at=timestamp(listed.created_at))
        try:
            return runtime_sandbox(await self._services.runtime.pod_sandbox_status(listed.id))
        except CriError as error:
            if error.remedy is Remedy.GONE:  # removed between list and status
                return None
            raise

    async def _container(self, listed: cri.Container) -> RuntimeContainer | None:
        try:
            status = await self._services.runtime.container_status(listed.id)
        except CriError as error:
            if error.remedy is Remedy.GONE:
                return None
            raise
        if is_interrupted(status):
            return None  # the next start of this attempt removes it: its program never ran
        return await runtime_container(redact_status(status), listed.pod_sandbox_id)


def is_interrupted(status: cri.ContainerStatus) -> bool:
    """Report whether a container's start failed only because the caller disappeared (a killed worker).

    The words are containerd's; with other runtimes an interrupted start counts as an end with a StartError.
    """
    exited = status.state == cri.ContainerState.CONTAINER_EXITED
    return exited and status.reason == "StartError" and status.message.endswith("context canceled")


def timestamp(nanoseconds: int) -> datetime | None:
    """Turn the CRI's nanoseconds into a time; 0 means never."""
    return _EPOCH + timedelta(microseconds=nanoseconds // 1000) if nanoseconds > 0 else None


def runtime_sandbox(status: cri.PodSandboxStatus) -> Sandbox:
    """Read a sandbox's facts."""
    return Sandbox(
        sandbox_id=status.id,
        attempt=status.metadata.attempt,
        ready=status.state == cri.PodSandboxState.SANDBOX_READY,
        ips=sandbox_ips(status),
        created_at=timestamp(status.created_at),
    )


async def runtime_container(status: cri.ContainerStatus, sandbox_id: str) -> RuntimeContainer:
    """Read a container's facts; of one that has ended also its exit code and termination message."""
    state = ContainerState(cri.ContainerState.Name(status.state))
    ended = state is ContainerState.EXITED
    return RuntimeContainer(
        name=status.metadata.name,
        container_id=status.id,
        sandbox_id=sandbox_id,
        attempt=status.metadata.attempt,
        state=state,
        image=status.image.image,
        image_ref=status.image_ref,
        created_at=timestamp(status.created_at),
        started_at=timestamp(status.started_at),
        finished_at=timestamp(status.finished_at) if ended else None,
        exit_code=status.exit_code if ended else None,
        reason=status.reason,
        message=await asyncio.to_thread(termination_message, status) if ended else status.message,
        stop_signal=signal_name(status.stop_signal),
        hash=status.annotations.get(CONTAINER_HASH, ""),
        user=_user(status.user.linux) if status.user.HasField("linux") else None,
    )


def _user(user: cri.LinuxContainerUser) -> LinuxUser:
    return LinuxUser(user.uid, user.gid, tuple(user.supplemental_groups))


def _newest_first(found: Sequence[_Found]) -> tuple[_Found, ...]:
    return tuple(sorted(found, key=lambda one: (one.attempt, one.created_at or _EPOCH), reverse=True))
