"""Starts, stops and removes containers; each activity may run any number of times.

A container is looked up by its labels and attempt before it is created. One of a later attempt in the same sandbox was
created by an earlier try that raised the attempt and whose answer was lost. A container that was created but not
started is started. One that has ended is returned as it is and never started again, with one exception: when the
caller of a start is killed, containerd ends the container with a StartError, which is no crash, so the container is
created again. Environment values are passed to the runtime only, never to a result, heartbeat, error or log.
"""

import asyncio
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from math import ceil
from time import monotonic
from typing import Final

from temporalio import activity

from activities.clients.cri_error import CriError, Remedy
from activities.containers.container_preparation import prepare
from activities.containers.resize import update_adopted_container
from activities.containers.services import ContainerServices
from activities.cri_config.container_config import container_labels
from activities.cri_config.environment import UnresolvedVariable
from activities.cri_config.security_context import BreaksNonRootError
from activities.execution.errors import non_retryable_failure, runtime_failure
from activities.execution.heartbeat import heartbeating
from activities.logs.links import link_log, unlink_log
from activities.objects.terminating_pods import PodTerminatingError
from activities.runtime.confidential import Redaction, redact_status, redaction_of_status
from activities.runtime.early_ends import end_or_status
from activities.runtime.runtime_facts import is_interrupted, runtime_container
from activities.sandbox.sandbox import first_free_attempt
from proto.cri.labels import CONTAINER_HASH
from proto.cri.v1 import api_pb2 as cri
from proto.kubernetes.container_hash import container_hash
from proto.temporal import names
from proto.temporal.activities.requests import (
    RemoveContainer,
    RuntimeContainer,
    ShortenStop,
    StartContainer,
    StopContainer,
)
from proto.temporal.failure_types import CONFIG_ERROR
from proto.temporal.pod import ContainerState

_CREATED: Final = cri.ContainerState.CONTAINER_CREATED
_RUNNING: Final = cri.ContainerState.CONTAINER_RUNNING
_UNKNOWN: Final = cri.ContainerState.CONTAINER_UNKNOWN
_PAUSE_SECONDS: Final = 0.1
_RAISES: Final = 3
_INTERRUPTIONS: Final = 3
_SHORTEST_GRACE: Final = timedelta(seconds=1)
"""CRI takes 0 as an immediate SIGKILL."""
START_UNDER_WAY_SECONDS: Final = 15.0
"""How long the runtime may still work on a start whose caller was killed; containerd gives up after 5 s."""


@dataclass(frozen=True, slots=True)
class _Found:
    """A container of the requested attempt, and its CRI state."""

    container_id: str
    state: int
    adopted: bool
    hidden: Redaction
    """Confidential values that the runtime may quote."""


class ContainerActivities:
    """Activities for one container, from creation to removal."""

    def __init__(self, services: ContainerServices) -> None:
        self._services = services

    @activity.defn(name=names.START_CONTAINER)
    async def start_container(self, request: StartContainer) -> RuntimeContainer:
        """Find or create the container of this attempt, start it, and return what the runtime reports then.

        A container that could not start is returned as EXITED with the runtime's reason; one that ended within
        `end_within`, with its end. Raises CreateContainerConfigError, CreateContainerError or RunContainerError, also
        when the pod begins to terminate while the runtime hangs. The answer names the attempt that was used.
        """
        name, pod = str(request.container["name"]), request.pod
        async with heartbeating(f"start {name} of {pod}"), self._services.locks.hold(f"{pod.uid}/{name}"):
            try:
                return await self._services.terminating.unless_terminating(pod.uid, self._find_and_start(request, name))
            except PodTerminatingError as given_up:
                message = f"the runtime had not started container {name} of {pod}: {given_up}"
                raise non_retryable_failure("RunContainerError", message) from None

    @activity.defn(name=names.STOP_CONTAINER)
    async def stop_container(self, request: StopContainer) -> RuntimeContainer:
        """Stop a container within the rest of its grace period and return its end. Raises KillContainerError.

        SIGTERM is always sent: the grace period may have passed while the runtime was unavailable, before the container
        was sent any signal.
        """
        return await self._stop(request, request.at_least)

    @activity.defn(name=names.SHORTEN_STOP)
    async def shorten_stop(self, request: ShortenStop) -> RuntimeContainer:
        """Stop a container that is already being stopped within a shorter grace period. Raises KillContainerError.

        The runtime sends the stop signal once and kills when the first of both periods is over; both calls return the
        same end.
        """
        return await self._stop(request, _SHORTEST_GRACE)

    async def _stop(self, request: StopContainer | ShortenStop, at_least: timedelta) -> RuntimeContainer:
        left = request.asked_at + request.grace - datetime.now(UTC)
        seconds = ceil(max(_SHORTEST_GRACE, at_least, left) / timedelta(seconds=1))
        async with heartbeating(f"stop {request.name} of {request.pod}: {request.reason}"):
            self._services.probes.stopping(request.container_id)
            try:
                await self._services.runtime.stop_container(request.container_id, seconds)
                status = await self._services.runtime.container_status(request.container_id)
                end = await runtime_container(redact_status(status), sandbox_id="")
            except CriError as error:
                if error.remedy is not Remedy.GONE:
                    doing = f"stop container {request.name} of {request.pod}"
                    raise runtime_failure(
                        error, self._services.runtime.endpoint, "KillContainerError", doing
                    ) from error
                end = _lost(request)
            self._services.probes.ended(request.container_id)
            return end

    @activity.defn(name=names.REMOVE_CONTAINER)
    async def remove_container(self, request: RemoveContainer) -> None:
        """Remove a container; one that is gone counts as removed. Raises FailedRemoveContainer."""
        async with heartbeating(f"remove {request.name} of {request.pod}"):
            try:
                await self._services.runtime.remove_container(request.container_id)
            except CriError as error:
                if error.remedy is not Remedy.GONE:
                    doing = f"remove container {request.name} of {request.pod}"
                    raise runtime_failure(
                        error, self._services.runtime.endpoint, "FailedRemoveContainer", doing
                    ) from error
            await unlink_log(self._services.links, request.pod, request.name, request.container_id)

    async def _find_and_start(self, request: StartContainer, name: str) -> RuntimeContainer:
        for _ in range(_INTERRUPTIONS):
            found = await self._find_or_create(request, name)
            if found.adopted and found.state in (_CREATED, _RUNNING):
                await self._resize_adopted(request, found.container_id)
            status = await self._start(found)
            if not is_interrupted(status):
                break
            await self._remove_interrupted(request, found.container_id)
        await link_log(self._services.links, request.pod, status)
        status = await end_or_status(self._services.runtime, status, request.end_within)
        answer = await runtime_container(redact_status(status, found.hidden), request.sandbox_id)
        return replace(answer, adopted=found.adopted)

    async def _find_or_create(self, request: StartContainer, name: str) -> _Found:
        doing = f"create container {name} of {request.pod}"
        raised, wait_until = 0, monotonic() + self._services.settings.name_reserved_wait.total_seconds()
        while True:
            try:
                listed, attempt = await self._look(request, name)
                if listed:
                    return _Found(listed.id, listed.state, adopted=True, hidden=redaction_of_status(listed.annotations))
                return await self._create(request, attempt + raised)
            except (
                UnresolvedVariable,
                BreaksNonRootError,
            ) as error:  # the kubelet shows these messages without a prefix
                raise non_retryable_failure(CONFIG_ERROR, str(error)) from error
            except (OSError, ValueError) as error:
                raise non_retryable_failure(CONFIG_ERROR, f"{doing}: {error}") from error
            except CriError as error:
                if error.remedy is not Remedy.ADOPT or raised == _RAISES:
                    raise runtime_failure(error, self._services.runtime.endpoint, "CreateContainerError") from error
            if monotonic() < wait_until:
                await asyncio.sleep(_PAUSE_SECONDS)
            else:
                raised += 1

    async def _look(self, request: StartContainer, name: str) -> tuple[cri.Container | None, int]:
        """Return the container of this attempt or of a later one that an earlier try chose.

        Without one, return None and the first free attempt.
        """
        own = await self._services.runtime.list_containers(container_labels(request.pod, name))
        ours, taken = [], []
        for one in own:
            if one.metadata.attempt < request.attempt or one.pod_sandbox_id != request.sandbox_id:
                taken.append(one.metadata.attempt)
            elif one.state == _UNKNOWN or _never_ran_outdated(one, request):
                # the runtime has lost track of it, or it is unusable
                await self._services.runtime.remove_container(one.id)
            else:
                ours.append(one)
        if ours:
            return max(ours, key=lambda one: one.metadata.attempt), request.attempt
        return None, first_free_attempt(request.attempt, taken)

    async def _create(self, request: StartContainer, attempt: int) -> _Found:
        made = await prepare(self._services, request, attempt)
        try:
            created = await self._services.runtime.create_container(request.sandbox_id, made.config, made.sandbox)
        except CriError as error:
            raise made.hidden.redact_error(error) from None
        return _Found(created, _CREATED, adopted=False, hidden=made.hidden)

    async def _start(self, found: _Found) -> cri.ContainerStatus:
        """Start a created container; one in any other state is returned as it is."""
        try:
            if found.state == _CREATED:
                return await self._start_created(found.container_id)
            return await self._services.runtime.container_status(found.container_id)
        except CriError as error:
            redacted = found.hidden.redact_error(error)
            raise runtime_failure(redacted, self._services.runtime.endpoint, "RunContainerError") from None

    async def _resize_adopted(self, request: StartContainer, container_id: str) -> None:
        """Apply the resources of this start: the pod may have been resized since the container was created."""
        doing = f"resize the container {request.container['name']} of {request.pod} that was there"
        try:
            await update_adopted_container(self._services, request, container_id)
        except CriError as error:
            raise runtime_failure(error, self._services.runtime.endpoint, "RunContainerError", doing) from error

    async def _remove_interrupted(self, request: StartContainer, container_id: str) -> None:
        """Remove a container whose start was interrupted, to free its name; containerd has ended its program at once."""
        doing = f"remove the interrupted container {request.container['name']} of {request.pod}"
        try:
            await self._services.runtime.remove_container(container_id)
        except CriError as error:
            if error.remedy is not Remedy.GONE:
                raise runtime_failure(error, self._services.runtime.endpoint, "CreateContainerError", doing) from error

    async def _start_created(self, container_id: str) -> cri.ContainerStatus:
        """Start a container, or wait for the start that an earlier try has under way in the runtime."""
        runtime, wait_until = self._services.runtime, monotonic() + START_UNDER_WAY_SECONDS
        while True:
            try:
                await runtime.start_container(container_id)
            except CriError as refused:
                if refused.remedy is Remedy.RETRY:
                    raise
                status = await runtime.container_status(container_id)
                if status.state == _CREATED and monotonic() > wait_until:
                    raise
            else:
                status = await runtime.container_status(container_id)
            if status.state != _CREATED:
                return status
            await asyncio.sleep(_PAUSE_SECONDS)


def _never_ran_outdated(found: cri.Container, request: StartContainer) -> bool:
    """Report whether an earlier try created it from another image without starting it (the image was edited in between)."""
    made_of = found.annotations.get(CONTAINER_HASH)
    wanted = container_hash(str(request.container["name"]), request.container.get("image") or "")
    return found.state == _CREATED and made_of not in (None, wanted)


def _lost(request: StopContainer | ShortenStop) -> RuntimeContainer:
    """Build the answer for a container that the runtime no longer knows: ended, exit code unknown."""
    return RuntimeContainer(
        name=request.name,
        container_id=request.container_id,
        sandbox_id="",
        attempt=0,
        state=ContainerState.EXITED,
        reason="ContainerStatusUnknown",
        message="the container was gone from the runtime when it was to be stopped, so how it ended is not known",
    )
