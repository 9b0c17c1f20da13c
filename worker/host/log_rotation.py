"""The loop of a worker that keeps its containers' logs small, and the links to them alive.

Nothing of it is Temporal's: no history tells of a rotation, for nothing of the pod changes. Which containers run is taken from
the pods' snapshots, so a node at rest costs one stat a container and interval; the kubelet asks the runtime for the list and
for each container's status instead. A container whose log can't be rotated is told once, and counted each time.
"""

import asyncio
import contextlib
import os
import stat
import time
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import structlog

from activities.clients.cri_error import CriError
from activities.logs.log_files import ContainerLog
from activities.logs.rotation import LogRotation, reopen_missing, rotate
from activities.node_services import NodeServices
from proto.pod_snapshot import PodSnapshot
from proto.temporal.pod import ContainerState, PodKey
from worker.settings.log_rotation import ContainerLogs
from worker.telemetry.metrics import Metrics

SWEEP: Final = timedelta(minutes=1)
"""Between two looks for dangling links, the kubelet's ContainerGCPeriod."""

_log: Final = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Running:
    """A container that runs, and where it writes."""

    container_id: str
    log: ContainerLog


class LogRotator:
    """Looks at every running container's log, again and again."""

    def __init__(
        self,
        services: NodeServices,
        settings: ContainerLogs,
        pods: Callable[[], Iterable[PodSnapshot]],
        metrics: Metrics,
    ) -> None:
        """Take who does it, when and how, the pods of this node, and who counts."""
        self._services, self._settings, self._pods, self._metrics = services, settings, pods, metrics
        self._rules = LogRotation(settings.max_size, settings.max_files)
        self._turns = asyncio.Semaphore(settings.max_workers)
        self._told: set[str] = set()
        """Containers whose failure was told."""
        self._swept = time.monotonic()

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(self._settings.monitor_interval.total_seconds())
            try:
                if self._settings.max_size >= 0:
                    await self.look()
                if time.monotonic() - self._swept >= SWEEP.total_seconds():
                    self._swept = time.monotonic()
                    await self.sweep()
            except Exception:  # noqa: BLE001 - a defect of ours may cost a look, not every one after it
                _log.exception("container logs are not looked after this time")

    async def look(self) -> None:
        """Rotate what is full, have begun anew what is gone."""
        full, missing = await asyncio.to_thread(self._judge)
        work = [self._rotate(one) for one in full] + [self._reopen(one) for one in missing]
        if work:
            await asyncio.gather(*work)

    async def sweep(self) -> None:
        """Remove links whose logs are gone."""
        ids = {one.container_id for one in self._running()}
        try:
            if swept := await asyncio.to_thread(self._services.links.sweep, ids):
                _log.info("removed links to container logs that are gone", links=swept)
        except OSError as error:
            _log.warning("links to container logs that are gone could not be removed", err=str(error))
        self._told &= ids

    def _running(self) -> list[Running]:
        return [
            Running(container.container_id, ContainerLog(self._services.paths(key), name, container.attempt))
            for pod in self._pods()
            for key in [PodKey(pod.namespace, pod.name, pod.uid)]
            for name, container in pod.containers.items()
            if container.state == ContainerState.RUNNING and container.container_id
        ]

    def _judge(self) -> tuple[list[Running], list[Running]]:
        """List whose log is full, and who has none; blocks on files."""
        full, missing = [], []
        for one in self._running():
            try:
                found = os.stat(one.log.path, follow_symlinks=False)  # noqa: PTH116 -- the one call of a node at rest
            except FileNotFoundError:
                missing.append(one)
            except OSError:
                full.append(one)  # the rotation finds out and tells
            else:
                if found.st_size >= self._settings.max_size or not stat.S_ISREG(found.st_mode):
                    full.append(one)
        return full, missing

    async def _rotate(self, one: Running) -> None:
        async with self._turns:
            try:
                await rotate(one.log, one.container_id, self._rules, self._services.runtime)
            except (OSError, CriError) as error:
                self._failed(one, "a container's log could not be rotated", error)
            else:
                self._metrics.log_rotated(failed=False)
                self._told.discard(one.container_id)

    async def _reopen(self, one: Running) -> None:
        async with self._turns:
            try:
                await reopen_missing(one.log, one.container_id, self._services.runtime)
            except (OSError, CriError) as error:
                self._failed(one, "a container's log is gone, and no new one could be begun", error)

    def _failed(self, one: Running, what: str, error: Exception) -> None:
        """Tell and count it, unless the container has ended meanwhile."""
        if all(other.container_id != one.container_id for other in self._running()):
            return
        self._metrics.log_rotated(failed=True)
        if one.container_id not in self._told:
            self._told.add(one.container_id)
            pod = one.log.paths.key
            where = {"pod": str(pod), "podUID": pod.uid, "containerName": one.log.container, "path": str(one.log)}
            _log.warning(what, **where, containerID=one.container_id, err=str(error))


@contextlib.asynccontextmanager
async def keeping_logs_small(rotator: LogRotator) -> AsyncIterator[None]:
    """Rotate while the block runs."""
    turning = asyncio.create_task(rotator.run(), name="log rotation")
    try:
        yield
    finally:
        turning.cancel()
        await asyncio.gather(turning, return_exceptions=True)
