"""The worker's loop that measures what pods with ephemeral-storage limits hold on the node's disk.

Temporal is called only when a limit is exceeded: one signal, after which the pod's workflow decides
(`workflows/decide/eviction/local_storage.py`). Which pods have limits is read from their snapshots, so a pod without
costs nothing, and a restarted worker continues. The kubelet checks every ten seconds what it has measured within the
last minute; here each check measures again, but one pod takes at most a tenth of the time. Each pod is measured in a
thread of its own, so that a hanging disk delays no other pod, and is not read twice.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Collection, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Final

import structlog
from temporalio.service import RPCError

from activities.clients.cri_error import CriError
from activities.files.disk_use import CountTimedOut, used_bytes
from activities.node_services import NodeServices
from proto.kubernetes.resources.storage_limits import StorageLimits
from proto.pod_snapshot import PodSnapshot
from proto.temporal.signals import StorageExceeded
from worker.daemon.background import in_background
from worker.delivery.lead import LeadUnavailable
from worker.host.pod_disk import PodDisk

EVERY: Final = timedelta(seconds=10)
"""Between two checks: the kubelet's evictionMonitoringPeriod (pkg/kubelet/kubelet.go)."""
LONGEST: Final = timedelta(minutes=1)
"""A volume that takes longer is skipped for this time, and logged."""
SHARE: Final = 10
"""What took one second to measure is not measured again for this many."""
AT_ONCE: Final = 2
"""Volumes that are measured concurrently; one that hangs stops counting after a while."""
HUNG_AFTER: Final = timedelta(seconds=5)
AGAIN: Final = timedelta(minutes=1)
"""A pod that is still not evicted is signalled again."""

_log: Final = structlog.get_logger(__name__)
Hint = Callable[[str, StorageExceeded], Awaitable[None]]
"""Signals the workflow of that id."""
Count = Callable[[StorageExceeded], None]
"""Counts a pod that exceeds a limit."""


class StorageWatch:
    """Measures every pod that has limits, periodically."""

    def __init__(
        self, services: NodeServices, pods: Callable[[], Iterable[PodSnapshot]], hint: Hint, count: Count
    ) -> None:
        """Take the node's services, the pods of this node, how to signal their workflows, and what counts each pod once."""
        self._services, self._pods, self._hint, self._count_once = services, pods, hint, count
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._counting: dict[str, asyncio.Task[None]] = {}
        """By pod uid."""
        self._not_before: dict[str, float] = {}
        self._leads = 0
        """How often leads of pods have changed: what was signalled before may have gone to a former one."""
        self._stopping = False
        self._logged: set[str] = set()
        """Pods that cannot be measured, and for which that was logged."""
        self._counted: set[str] = set()

    async def run(self) -> None:
        """Check until cancelled."""
        try:
            while True:
                await asyncio.sleep(EVERY.total_seconds())
                self.look()
        finally:
            self._stopping = True
            for task in self._counting.values():
                task.cancel()
            await asyncio.gather(*self._counting.values(), return_exceptions=True)

    def tell_anew(self, workflow_ids: Collection[str]) -> None:
        """Measure pods whose lead has changed at the next check, and signal them again."""
        self._leads += 1
        for pod in self._pods():
            if pod.workflow_id in workflow_ids:
                self._not_before.pop(pod.uid, None)

    def look(self) -> list[asyncio.Task[None]]:
        """Start the measurements that are due; returns all that are running."""
        limited = {pod.uid: (pod, pod.storage_limits) for pod in self._pods() if pod.storage_limits}
        now = time.monotonic()
        for uid, (pod, limits) in limited.items():
            if uid not in self._counting and self._not_before.get(uid, now) <= now:
                self._counting[uid] = asyncio.create_task(self._count(pod, limits), name=f"disk use of {uid}")
        self._not_before = {uid: at for uid, at in self._not_before.items() if uid in limited}
        self._logged &= limited.keys()
        self._counted &= limited.keys()
        return list(self._counting.values())

    async def _count(self, pod: PodSnapshot, limits: StorageLimits) -> None:
        begun, leads = time.monotonic(), self._leads
        rest = 0.0
        try:
            if exceeded := await self._exceeded(pod, limits):
                _log.info("a pod exceeds a storage limit", pod=f"{pod.namespace}/{pod.name}", podUID=pod.uid)
                if pod.uid not in self._counted:
                    self._counted.add(pod.uid)
                    self._count_once(exceeded)
                await self._hint(pod.workflow_id, exceeded)
                rest = AGAIN.total_seconds()
            self._logged.discard(pod.uid)
        except (OSError, CountTimedOut, CriError, RPCError, RuntimeError, LeadUnavailable) as error:
            self._failed(pod, error)
        except Exception:  # noqa: BLE001 - an unexpected error must not end the loop
            _log.exception("could not measure a pod's disk usage this time", podUID=pod.uid)
        finally:
            took = time.monotonic() - begun
            if self._leads == leads:
                self._not_before[pod.uid] = time.monotonic() + max(rest, SHARE * took - EVERY.total_seconds())
            self._counting.pop(pod.uid, None)

    async def _exceeded(self, pod: PodSnapshot, limits: StorageLimits) -> StorageExceeded | None:
        """Measure until a limit is exceeded, in the kubelet's order: volumes, the whole pod, its containers."""
        disk = PodDisk(self._services, pod, limits, self._in_turn)
        return await disk.volume() or await disk.whole() or await disk.container()

    async def _in_turn(self, folder: Path, is_enough: Callable[[int], bool]) -> int:
        """Measure a folder; one that hangs lets others go ahead, and stops when the worker stops."""

        def is_over(used: int) -> bool:
            return self._stopping or is_enough(used)

        async with self._turns:
            counting = asyncio.ensure_future(asyncio.to_thread(used_bytes, folder, is_over, LONGEST.total_seconds()))
            await asyncio.wait({counting}, timeout=HUNG_AFTER.total_seconds())
        return await counting

    def _failed(self, pod: PodSnapshot, error: Exception) -> None:
        """Log it once; the pod continues, and is measured again at the next check."""
        if pod.uid not in self._logged:
            self._logged.add(pod.uid)
            where = {"pod": f"{pod.namespace}/{pod.name}", "podUID": pod.uid}
            _log.warning("cannot measure a pod's disk usage now", **where, err=str(error))


def watching_storage(watch: StorageWatch | None) -> contextlib.AbstractAsyncContextManager[None]:
    """Run the watch while the block runs; None: no limits are enforced."""
    return in_background("local storage", watch.run) if watch else contextlib.nullcontext()
