"""Keeps memory that pods have requested from those of a lower QoS class: the key qosReserved, behind the alpha gate QOSReserved.

Run by the worker. The cgroup of the burstable pods may use what the node has less the guaranteed pods' requests, that of the
best-effort pods also less the burstable ones'; a percentage of the requests is kept. Set again for each pod that comes or goes, and each
minute (pkg/kubelet/cm/qos_container_manager_linux.go). What is used already may be more: cgroup v1 refuses such a limit, and the use
becomes the limit. On v2 the kernel takes it, and frees the memory or kills for it, as with the kubelet.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import structlog

from activities.machine.cgroup_files import NodeLimits
from activities.machine.node_cgroups import NodeCgroups
from proto.kubernetes.resources.overhead import requests_and_overhead
from proto.kubernetes.resources.qos import QosClass, qos_class
from proto.kubernetes.resources.quantity import ZERO
from proto.pod_snapshot import PodSnapshot, is_counted
from worker.daemon.background import in_background

EVERY: Final = timedelta(minutes=1)
TIERS: Final = (QosClass.BURSTABLE, QosClass.BEST_EFFORT)
Publish = Callable[[PodSnapshot], None]

_log: Final = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Reservation:
    """What is reserved of what."""

    percent: int
    allocatable: Callable[[], int]
    """Measures the bytes of memory that all pods may use."""


class TierLimits:
    """The memory limits of the tiers; without a reservation those that an earlier configuration has left are taken back."""

    def __init__(
        self, cgroups: NodeCgroups, reservation: Reservation | None, pods: Callable[[], Iterable[PodSnapshot]]
    ) -> None:
        """Take the cgroups, what is reserved, and what returns the newest snapshots."""
        self._cgroups, self._reservation, self._pods = cgroups, reservation, pods
        self._known: set[str] = set()
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()

    def after(self, publish: Publish) -> Publish:
        """Return a function that passes each snapshot on, and then has the limits set again if pods came or went."""
        if self._reservation is None:
            return publish

        def publish_and_wake(snapshot: PodSnapshot) -> None:
            publish(snapshot)
            counts = is_counted(snapshot)
            if counts != (snapshot.uid in self._known):
                (self._known.add if counts else self._known.discard)(snapshot.uid)
                self._loop.call_soon_threadsafe(self._changed.set)

        return publish_and_wake

    def keeping(self, every: timedelta = EVERY) -> AbstractAsyncContextManager[None]:
        """Keep the limits while the block runs."""

        async def keep() -> None:
            while True:
                self._changed.clear()
                await asyncio.to_thread(self.keep)
                if self._reservation is None:
                    return
                try:
                    async with asyncio.timeout(every.total_seconds()):
                        await self._changed.wait()
                except TimeoutError:
                    continue

        return in_background("the limits of the QoS classes", keep)

    def keep(self) -> None:
        """Set the limits where they differ; what fails is logged, and tried again the next time. Blocks."""
        if self._reservation is None:
            self._take_back()
            return
        percent, allocatable = self._reservation.percent, self._reservation.allocatable()
        if allocatable == 0:
            _log.warning("qosReserved: no memory is allocatable, so nothing is reserved")
            return
        wanted = tier_memory((one.pod for one in self._pods() if is_counted(one)), allocatable, percent)
        done = [self._limit(qos, limit) for qos, limit in wanted.items()]  # each is tried
        if not all(done):
            self._limit_to_usage(wanted)

    def _limit(self, qos: QosClass, limit: int) -> bool:
        """Set a limit; a negative one cannot be set, and 0 is none, as in the kubelet."""
        if limit < 0:
            return False
        try:
            self._cgroups.limit(self._cgroups.tier(qos), NodeLimits(memory=limit))
        except OSError as error:
            _log.info("qosReserved: a limit could not be set", qos=qos.value, limit=limit, error=str(error))
            return False
        return True

    def _limit_to_usage(self, wanted: Mapping[QosClass, int]) -> None:
        """Let the tiers that use more than they may at least not grow (retrySetMemoryReserve)."""
        for qos, limit in wanted.items():
            try:
                used = self._cgroups.memory_used(self._cgroups.tier(qos))
                self._cgroups.limit(self._cgroups.tier(qos), NodeLimits(memory=max(used, limit)))
            except OSError as error:
                _log.warning("Failed to update QoS cgroup configuration", qos=qos.value, error=str(error))

    def _take_back(self) -> None:
        for qos in TIERS:
            try:
                if self._cgroups.unlimit_memory(self._cgroups.tier(qos)):
                    _log.info("qosReserved: the limit of an earlier configuration is taken back", qos=qos.value)
            except OSError as error:
                _log.warning("qosReserved: a limit could not be taken back", qos=qos.value, error=str(error))


def tier_memory(pods: Iterable[Mapping[str, Any]], allocatable: int, percent: int) -> dict[QosClass, int]:
    """Return the limits of the tiers in bytes; negative if more is requested than allocatable (setMemoryReserve)."""
    requested = dict.fromkeys(QosClass, 0)
    for pod in pods:
        requested[qos_class(pod)] += requests_and_overhead(pod).get("memory", ZERO).value
    burstable = allocatable - requested[QosClass.GUARANTEED] * percent // 100
    best_effort = burstable - requested[QosClass.BURSTABLE] * percent // 100
    return {QosClass.BURSTABLE: burstable, QosClass.BEST_EFFORT: best_effort}
