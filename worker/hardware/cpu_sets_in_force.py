"""Keeps the CPUs that each running container may use as the assignments say: reconcileState of the kubelet's CPU manager.

Whenever somebody is given hardware, or some is free again, and each cpuManagerReconcilePeriod. What a container was told last is
remembered; a worker that starts tells each once. What pods have that are over is freed here, too.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from datetime import timedelta
from time import monotonic
from typing import Final

import structlog

from activities.clients.cri_error import CriError, Remedy
from activities.clients.runtime import RuntimeClient
from proto.cri.v1 import api_pb2 as cri
from proto.pod_snapshot import PodSnapshot, has_ended
from proto.temporal.pod import ContainerState
from worker.hardware.node_hardware import NodeHardware

GONE_FOR: Final = timedelta(seconds=5)
"""How long a pod is missed before its CPUs are free: one that its source lists again while it stops is on the node again at once."""
EXPECTED_FOR: Final = timedelta(minutes=5)
"""How long a pod that was admitted keeps what it was given without being seen on the node."""
_log: Final = structlog.get_logger(__name__)


class CpuSetsInForce:
    """Those of one node; used from one event loop."""

    def __init__(
        self,
        hardware: NodeHardware,
        runtime: RuntimeClient,
        snapshots: Callable[[], Iterable[PodSnapshot]],
        every: timedelta,
        *,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """Take what knows the CPUs of each container, the runtime, the pods, and the period."""
        self._hardware, self._runtime, self._snapshots, self._every = hardware, runtime, snapshots, every
        self._told: dict[str, str] = {}
        """By container id."""
        self._clock = clock
        self._seen = set[str]()
        """Pods that were on the node."""
        self._gone_since: dict[str, float] = {}
        """When those that are not any more were missed first."""
        self._expected_since: dict[str, float] = {}
        """When those that were admitted and not seen since were missed first."""
        self._changed = asyncio.Event()
        hardware.changed = self._changed.set

    async def run(self) -> None:
        """Keep them until cancelled."""
        while True:
            self._changed.clear()
            await self.reconcile()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if self._hardware.is_idle else self._every.total_seconds()):
                    await self._changed.wait()

    async def reconcile(self) -> None:
        """Free what pods have that are over, then tell each running container its CPUs if they have changed."""
        if self._hardware.is_unknown:
            return
        pods = list(self._snapshots())
        active = {one.uid for one in pods if one.deleting or not has_ended(one)}
        self._seen |= self._hardware.arrived
        self._hardware.arrived.clear()
        missed = self._gone(active) | self._expected_for_long(active)
        over = self._hardware.holders() & ({one.uid for one in pods} - active | missed)
        self._seen = (self._seen | active) & (self._hardware.holders() | active)
        self._hardware.expected &= self._hardware.holders() - active - over
        if over:
            await self._hardware.release(over)
        running = {
            one.container_id: (pod.uid, name)
            for pod in pods
            for name, one in pod.containers.items()
            if one.container_id and one.state == ContainerState.RUNNING
        }
        self._told = {container_id: cpus for container_id, cpus in self._told.items() if container_id in running}
        for container_id, (uid, name) in running.items():
            await self._tell(container_id, uid, name)

    def _gone(self, active: set[str]) -> set[str]:
        """Return the pods that were on the node and are not any more; one may come again under its uid."""
        return self._missed(self._gone_since, self._seen - active - self._hardware.expected, GONE_FOR)

    def _expected_for_long(self, active: set[str]) -> set[str]:
        """Return the pods that were admitted and of which no container ever started."""
        return self._missed(self._expected_since, self._hardware.expected - active, EXPECTED_FOR)

    def _missed(self, since: dict[str, float], uids: set[str], at_least: timedelta) -> set[str]:
        """Note since when each pod has been missed, and return those that have been for so long."""
        now = self._clock()
        noted = {uid: since.get(uid, now) for uid in uids}
        since.clear()
        since.update(noted)
        return {uid for uid, begin in since.items() if now - begin >= at_least.total_seconds()}

    async def _tell(self, container_id: str, uid: str, name: str) -> None:
        cpus = self._hardware.of(uid, name).cpuset_cpus
        if not cpus or self._told.get(container_id) == cpus:
            return
        try:
            resources = cri.LinuxContainerResources(cpuset_cpus=cpus)
            await self._runtime.update_container_resources(container_id, resources)
        except CriError as error:
            if error.remedy is not Remedy.GONE:
                _log.warning(
                    "could not set the CPUs of a container", podUID=uid, container=name, cpus=cpus, err=str(error)
                )
            return
        self._told[container_id] = cpus
