"""Runs the command of our own hooks in a container of their own, in the pod's sandbox and network.

Used by `hooks`, because no container of the pod is running when a preStart or postStop hook is. It is configured like
the hook's container (image, environment, working directory, resources), but has its own labels, so that it is never
taken for a container of the pod. Before a command runs and after it, everything with these labels is removed: a worker
may have died in between. A command whose end was not recorded runs again.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Final

from temporalio.exceptions import ApplicationError

from activities.clients.cri_error import CriError, Remedy
from activities.containers.container_preparation import Prepared, prepare
from activities.containers.containers import START_UNDER_WAY_SECONDS
from activities.cri_config.environment import UnresolvedVariable
from activities.execution.errors import runtime_unavailable
from activities.execution.heartbeat import Heartbeat
from activities.hooks.services import HookServices
from activities.images.images import ImageActivities
from activities.runtime.confidential import Redaction
from activities.runtime.termination_messages import log_tail
from proto.cri.ownership import HOOK_CONTAINER, HOOK_LABEL, HOOK_POD_UID
from proto.cri.v1 import api_pb2 as cri
from proto.temporal.activities.requests import PullImage, RunHook, StartContainer
from proto.temporal.failure_types import RUNTIME_UNAVAILABLE

_FIRST_LOOK: Final = 0.02
_LONGEST_PAUSE: Final = 0.25


class HookContainerFailed(Exception):
    """The command could not run; the message says why."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended, and the last of its output."""

    exit_code: int
    output: str


def hook_labels(request: RunHook) -> dict[str, str]:
    """Return the labels of a hook's container, none of which finds a pod's own containers."""
    return {HOOK_LABEL: request.hook, HOOK_POD_UID: request.pod.uid, HOOK_CONTAINER: request.name}


class HookContainers:
    """The containers of hooks on this node."""

    def __init__(self, services: HookServices) -> None:
        self._services = services

    async def get_ready(self, request: RunHook, helper: StartContainer) -> StartContainer:
        """Remove what an earlier try left, and pull the hook's own image if it is absent.

        Not counted into the hook's time. Raises HookContainerFailed, or RuntimeUnavailable.
        """
        with self._as_hook_failure():
            await self._remove(request)
        return replace(helper, image_ref=helper.image_ref or await self._image_ref(request, helper))

    async def _image_ref(self, request: RunHook, helper: StartContainer) -> str:
        wanted = PullImage(helper.pod, str(helper.container["image"]), "IfNotPresent", request.secrets)
        try:
            silent = Heartbeat("")  # the hook's own heartbeat carries the number of failures to its next try
            return (await ImageActivities(self._services).ensure(wanted, silent)).image_ref
        except ApplicationError as error:
            if error.type == RUNTIME_UNAVAILABLE:
                raise
            raise HookContainerFailed(f"{error.type}: {error.message}") from error

    async def run(self, request: RunHook, helper: StartContainer) -> Ended:
        """Run the command to its end and remove its container; raises HookContainerFailed, or RuntimeUnavailable."""
        if not helper.sandbox_id:
            raise HookContainerFailed("the pod has no sandbox any more")
        async with self._services.locks.hold(f"{request.pod.uid}/{request.name}/{request.hook}"):
            with self._as_hook_failure():
                try:
                    return await self._run(request, helper)
                finally:
                    await self._remove(request)

    @contextmanager
    def _as_hook_failure(self) -> Iterator[None]:
        """Turn an error into a failed hook, or into an unavailable runtime."""
        try:
            yield
        except (OSError, ValueError, UnresolvedVariable) as error:
            raise HookContainerFailed(str(error)) from error
        except CriError as error:
            if error.remedy is Remedy.RETRY:
                raise runtime_unavailable(error, self._services.runtime.endpoint) from error
            raise HookContainerFailed(error.details) from error

    async def _run(self, request: RunHook, helper: StartContainer) -> Ended:
        made = await self._configured(request, helper)
        with _without_values(made.hidden):
            return await self._run_to_its_end(helper, made)

    async def _run_to_its_end(self, helper: StartContainer, made: Prepared) -> Ended:
        runtime, config, sandbox = self._services.runtime, made.config, made.sandbox
        log = Path(sandbox.log_directory, config.log_path)
        said_before = await asyncio.to_thread(_size, log)  # written by earlier tries
        container_id = await runtime.create_container(helper.sandbox_id, config, sandbox)
        await runtime.start_container(container_id)
        pause = _FIRST_LOOK
        while True:  # the runtime's events go to the poller, and most commands are short
            status = await runtime.container_status(container_id)
            if status.state == cri.ContainerState.CONTAINER_EXITED:
                break
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
        output = await asyncio.to_thread(log_tail, log, said_before) if status.exit_code else ""
        return Ended(status.exit_code, ": ".join(filter(None, (made.hidden.hide(status.message), output.strip()))))

    async def _configured(self, request: RunHook, helper: StartContainer) -> Prepared:
        """Build both configurations, with a name that no container of a pod can have."""
        made = await prepare(self._services, helper, helper.attempt)
        config = made.config
        config.metadata.name = f"{request.name}.{request.hook}"
        config.log_path = f"{request.name}/{request.hook}.{helper.attempt}.log"
        for found, wanted in ((config.labels, hook_labels(request)), (config.annotations, {})):
            found.clear()
            found.update(wanted)
        return made

    async def _remove(self, request: RunHook) -> None:
        """Remove the containers with this hook's labels, running or not; a start by a killed worker is waited for."""
        runtime, wait_until = self._services.runtime, monotonic() + START_UNDER_WAY_SECONDS
        while found := await runtime.list_containers(hook_labels(request)):
            for one in found:
                try:
                    await runtime.remove_container(one.id)
                except CriError as error:
                    gone = error.remedy is Remedy.GONE
                    if not gone and (error.remedy is Remedy.RETRY or monotonic() > wait_until):
                        raise
            await asyncio.sleep(_FIRST_LOOK)


@contextmanager
def _without_values(hidden: Redaction) -> Iterator[None]:
    """Redact confidential values in the runtime's errors."""
    try:
        yield
    except CriError as error:
        raise hidden.redact_error(error) from None


def _size(log: Path) -> int:
    return log.stat().st_size if log.exists() else 0
