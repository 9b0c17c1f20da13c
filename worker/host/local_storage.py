"""The loop of a worker that counts what pods hold on the node's disk, where their manifests limit that.

Nothing goes to Temporal until a limit is exceeded: then one signal, upon which the pod's workflow decides
(`workflows/decide/operator/local_storage.py`). Which pods have limits is taken from their snapshots, so a pod without costs nothing, and a
new worker goes on where the last one ended. The kubelet looks every ten seconds at what it has counted within the last
minute; here is counted anew each time, but never more than a tenth of the time for one pod. Each pod is counted in a thread
of its own, so a disk that hangs holds up no other pod, and is not asked a second time meanwhile.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Final

import structlog
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from activities.clients.cri_error import CriError
from activities.files.disk_use import CountTimedOut, used_bytes
from activities.node_services import NodeServices
from proto.kubernetes.resources.storage_limits import StorageLimits
from proto.pod_snapshot import PodSnapshot
from proto.temporal.names import STORAGE_EXCEEDED
from proto.temporal.signals import StorageExceeded
from worker.host.pod_disk import PodDisk

EVERY: Final = timedelta(seconds=10)
"""Between two looks: the kubelet's evictionMonitoringPeriod (pkg/kubelet/kubelet.go)."""
LONGEST: Final = timedelta(minutes=1)
"""A volume that takes longer is given up for this time, and told."""
SHARE: Final = 10
"""What was counted in one second is not counted again for so many."""
AT_ONCE: Final = 2
"""Volumes that are counted side by side; one that hangs no longer counts after a while."""
HUNG_AFTER: Final = timedelta(seconds=5)
AGAIN: Final = timedelta(minutes=1)
"""A pod that still is not ended is hinted at again."""
_CALL_LIMIT: Final = timedelta(seconds=10)

_log: Final = structlog.get_logger(__name__)
Hint = Callable[[str, StorageExceeded], Awaitable[None]]
"""Tells the workflow of that id."""


class StorageWatch:
    """Counts what every pod that has limits holds, again and again."""

    def __init__(self, services: NodeServices, pods: Callable[[], Iterable[PodSnapshot]], hint: Hint) -> None:
        """Take where things lie, the pods of this node, and who tells their workflows."""
        self._services, self._pods, self._hint = services, pods, hint
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._counting: dict[str, asyncio.Task[None]] = {}
        """By pod uid."""
        self._not_before: dict[str, float] = {}
        self._stopping = False
        self._told: set[str] = set()
        """Pods of which was told that they can't be counted."""

    async def run(self) -> None:
        """Look until cancelled."""
        try:
            while True:
                await asyncio.sleep(EVERY.total_seconds())
                self.look()
        finally:
            self._stopping = True
            for task in self._counting.values():
                task.cancel()
            await asyncio.gather(*self._counting.values(), return_exceptions=True)

    def look(self) -> list[asyncio.Task[None]]:
        """Begin to count what is due; answers all that is being counted now."""
        limited = {pod.uid: (pod, pod.storage_limits) for pod in self._pods() if pod.storage_limits}
        now = time.monotonic()
        for uid, (pod, limits) in limited.items():
            if uid not in self._counting and self._not_before.get(uid, now) <= now:
                self._counting[uid] = asyncio.create_task(self._count(pod, limits), name=f"disk use of {uid}")
        self._not_before = {uid: at for uid, at in self._not_before.items() if uid in limited}
        self._told &= limited.keys()
        return list(self._counting.values())

    async def _count(self, pod: PodSnapshot, limits: StorageLimits) -> None:
        begun = time.monotonic()
        rest = 0.0
        try:
            if exceeded := await self._exceeded(pod, limits):
                _log.info("a pod holds more on disk than it may", pod=f"{pod.namespace}/{pod.name}", podUID=pod.uid)
                await self._hint(pod.workflow_id, exceeded)
                rest = AGAIN.total_seconds()
            self._told.discard(pod.uid)
        except (OSError, CountTimedOut, CriError, RPCError, RuntimeError) as error:
            self._failed(pod, error)
        except Exception:  # noqa: BLE001 - a defect of ours may cost a look, not every one after it
            _log.exception("what a pod holds on disk is not counted this time", podUID=pod.uid)
        finally:
            took = time.monotonic() - begun
            self._not_before[pod.uid] = time.monotonic() + max(rest, SHARE * took - EVERY.total_seconds())
            self._counting.pop(pod.uid, None)

    async def _exceeded(self, pod: PodSnapshot, limits: StorageLimits) -> StorageExceeded | None:
        """Count until something holds too much, in the kubelet's order: volumes, the whole pod, its containers."""
        disk = PodDisk(self._services, pod, limits, self._in_turn)
        return await disk.volume() or await disk.whole() or await disk.container()

    async def _in_turn(self, folder: Path, is_enough: Callable[[int], bool]) -> int:
        """Count a folder; one that hangs leaves its turn to others, and a worker that stops counts no further."""

        def is_over(used: int) -> bool:
            return self._stopping or is_enough(used)

        async with self._turns:
            counting = asyncio.ensure_future(asyncio.to_thread(used_bytes, folder, is_over, LONGEST.total_seconds()))
            await asyncio.wait({counting}, timeout=HUNG_AFTER.total_seconds())
        return await counting

    def _failed(self, pod: PodSnapshot, error: Exception) -> None:
        """Tell it once; the pod goes on, and is counted again with the next look."""
        if pod.uid not in self._told:
            self._told.add(pod.uid)
            where = {"pod": f"{pod.namespace}/{pod.name}", "podUID": pod.uid}
            _log.warning("what a pod holds on disk can't be watched now", **where, err=str(error))


def hinting(client: Client) -> Hint:
    """Tell workflows by their client; one that has ended needs no hint."""

    async def hint(workflow_id: str, signal: StorageExceeded) -> None:
        try:
            handle = client.get_workflow_handle(workflow_id)
            await handle.signal(STORAGE_EXCEEDED, signal, rpc_timeout=_CALL_LIMIT)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise

    return hint


@contextlib.asynccontextmanager
async def watching_storage(watch: StorageWatch | None) -> AsyncIterator[None]:
    """Watch while the block runs; None: nobody shall."""
    if watch is None:
        yield
        return
    watching = asyncio.create_task(watch.run(), name="local storage")
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
