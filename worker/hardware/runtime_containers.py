"""The containers that the runtime has: who had CPUs by a `cpu_manager_state` of version 1, and what each has if a state file is lost.

Asked while the hardware's state is read, in a thread, and only then. Which devices a container has is read at each start, by one list.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any, Final, TypeVar

import structlog

from activities.clients.cri_error import CriError, Remedy
from activities.clients.runtime import RuntimeClient
from activities.clients.start_limit import StartLimit
from proto.cri.ownership import DEVICES_ANNOTATION, HOOK_LABEL, is_of_node
from proto.cri.runtime_container import RuntimeContainer, newest
from proto.cri.v1 import api_pb2 as cri

WITHIN: Final = 60.0
"""Seconds."""
TRIES: Final = 3
PAUSE: Final = 1.0
"""Seconds between the tries to read one container."""
READ_WITHIN: Final = 40.0
"""Seconds for the statuses of all: a container that hangs is left out, and does not keep the worker from starting."""
AT_A_TIME: Final = 8
_LONGEST_NAME: Final = 253
_UP: Final = (cri.CONTAINER_RUNNING, cri.CONTAINER_CREATED)
_Answer = TypeVar("_Answer")

_log: Final = structlog.get_logger(__name__)


class RuntimeContainers:
    """Those of one runtime; made on the event loop, called from a thread."""

    def __init__(
        self,
        endpoint: str,
        node: str = "",
        folders: Callable[[], Collection[str]] = tuple,
        is_guaranteed: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """Take the runtime's endpoint, which is not asked yet, and the node's name.

        `folders` returns the uids of pods with folders, `is_guaranteed` reports whether a pod has a cgroup among those of guaranteed ones.
        """
        self._endpoint, self._loop = endpoint, asyncio.get_running_loop()
        self._node, self._folders, self._is_guaranteed = node, folders, is_guaranteed
        self._left: Sequence[RuntimeContainer] | None = None
        self.was_incomplete = False
        """`left` lacks a container of which the runtime did not tell."""
        self.unread: frozenset[str] = frozenset()
        """The ids of those that the last reading lacks."""

    def __call__(self) -> Mapping[str, tuple[str, str]]:
        """Return the uid of the pod and the name of each container, by its id; raises CriError and TimeoutError."""
        return self._waited(self._listed)

    def left(self) -> Sequence[RuntimeContainer]:
        """Return what this node's containers have; one that has exited counts while its pod's sandbox is ready. Raises CriError and TimeoutError."""
        if self._left is None:
            folders = self._folders()
            self._left = self._waited(lambda runtime: self._read(runtime, folders))
            self.was_incomplete = bool(self.unread)
        return self._left

    async def read_again(self) -> Sequence[RuntimeContainer]:
        """Return what `left` would if it was asked now; on the event loop. Raises CriError and TimeoutError."""
        folders = await asyncio.to_thread(self._folders)
        return await self._asked(lambda runtime: self._read(runtime, folders))

    def with_devices(self) -> Sequence[RuntimeContainer]:
        """Return this node's containers that say which devices they have, and nothing else of them; none if the runtime does not answer."""
        folders = self._folders()
        try:
            return self._waited(lambda runtime: self._read_devices(runtime, folders))
        except (CriError, TimeoutError) as error:
            _log.warning("could not read which devices containers have", err=str(error))
            return ()

    def _waited(self, ask: Callable[[RuntimeClient], Coroutine[Any, Any, _Answer]]) -> _Answer:
        return asyncio.run_coroutine_threadsafe(self._asked(ask), self._loop).result(WITHIN + 1)

    async def _asked(self, ask: Callable[[RuntimeClient], Awaitable[_Answer]]) -> _Answer:
        runtime = RuntimeClient(self._endpoint, StartLimit(1))
        try:
            async with asyncio.timeout(WITHIN):
                return await ask(runtime)
        finally:
            await runtime.close()

    @staticmethod
    async def _listed(runtime: RuntimeClient) -> Mapping[str, tuple[str, str]]:
        uids = {one.id: str(one.metadata.uid) for one in await runtime.list_pod_sandbox()}
        found = await runtime.list_containers()
        return {
            one.id: (uids[one.pod_sandbox_id], str(one.metadata.name)) for one in found if one.pod_sandbox_id in uids
        }

    async def _read_devices(self, runtime: RuntimeClient, folders: Collection[str]) -> Sequence[RuntimeContainer]:
        return newest(
            RuntimeContainer(
                uid=uid,
                name=one.metadata.name,
                created_at=one.created_at,
                is_up=one.state in _UP,
                devices=one.annotations.get(DEVICES_ANNOTATION, ""),
            )
            for uid, one in await self._ours(runtime, folders)
        )

    async def _ours(self, runtime: RuntimeClient, folders: Collection[str]) -> Sequence[tuple[str, cri.Container]]:
        """List this node's containers with the uids of their pods; one that has exited counts while its pod's sandbox is ready."""
        sandboxes = {
            one.id: one
            for one in await runtime.list_pod_sandbox()
            if is_of_node(one.annotations, one.metadata.uid, self._node, folders)
        }
        return [
            (str(sandbox.metadata.uid), one)
            for one in await runtime.list_containers()
            if (sandbox := sandboxes.get(one.pod_sandbox_id))
            and HOOK_LABEL not in one.labels
            and (one.state in _UP or sandbox.state == cri.SANDBOX_READY)
            and max(len(sandbox.metadata.uid), len(one.metadata.name)) <= _LONGEST_NAME
        ]

    async def _read(self, runtime: RuntimeClient, folders: Collection[str]) -> Sequence[RuntimeContainer]:
        listed = await self._ours(runtime, folders)
        guaranteed = {uid for uid in {uid for uid, _ in listed} if self._is_guaranteed(uid)}
        turn, unread = asyncio.Semaphore(AT_A_TIME), set[str]()
        until = asyncio.get_running_loop().time() + READ_WITHIN

        async def read(uid: str, one: cri.Container) -> RuntimeContainer | None:
            try:
                async with asyncio.timeout_at(until), turn:
                    status = await _status(runtime, one)
            except (CriError, TimeoutError) as error:
                _log.warning("could not read which CPUs and memory a container has", containerID=one.id, err=str(error))
                unread.add(one.id)
                return None
            return _container(uid, status, is_guaranteed=uid in guaranteed) if status else None

        found = newest(filter(None, await asyncio.gather(*(read(uid, one) for uid, one in listed))))
        self.unread = frozenset(unread)
        return found


async def _status(runtime: RuntimeClient, one: cri.Container) -> cri.ContainerStatus | None:
    """Ask some times; None for a container that is gone. Raises CriError if the runtime does not tell."""
    for attempt in range(TRIES):
        try:
            return await runtime.container_status(one.id)
        except CriError as error:
            if error.remedy is Remedy.GONE:
                return None
            if attempt == TRIES - 1:
                raise
        await asyncio.sleep(PAUSE)
    return None


def _container(uid: str, status: cri.ContainerStatus, *, is_guaranteed: bool) -> RuntimeContainer:
    linux = status.resources.linux
    return RuntimeContainer(
        uid=uid,
        name=status.metadata.name,
        created_at=status.created_at,
        is_up=status.state in _UP,
        is_guaranteed=is_guaranteed,
        cpu_shares=linux.cpu_shares,
        cpuset_cpus=linux.cpuset_cpus,
        cpuset_mems=linux.cpuset_mems,
        memory_limit=linux.memory_limit_in_bytes,
        huge_pages={one.page_size: one.limit for one in linux.hugepage_limits if one.limit},
        has_succeeded=status.state == cri.CONTAINER_EXITED and status.exit_code == 0,
        finished_at=status.finished_at,
    )
