"""The worker's loop that rotates container logs and removes dangling links to them.

Temporal is not involved: a rotation does not change the pod. Which containers run is read from the pods' snapshots, so
an idle node costs one stat a container and interval; the kubelet asks the runtime for the list and each container's
status instead. A log that cannot be rotated is logged once, and counted each time.
"""

import asyncio
import contextlib
import os
import stat
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import structlog

from activities.clients.cri_error import CriError
from activities.execution.one_by_one import log_bad_item
from activities.logs.log_files import ContainerLog
from activities.logs.rotation import LogRotation, reopen_missing, rotate
from activities.node_services import NodeServices
from proto.pod_snapshot import PodSnapshot
from proto.temporal.pod import ContainerState, PodKey
from worker.daemon.background import in_background
from worker.settings.log_rotation import ContainerLogs
from worker.telemetry.metrics import Metrics

SWEEP: Final = timedelta(minutes=1)
"""Between two checks for dangling links, the kubelet's ContainerGCPeriod."""

_log: Final = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Running:
    """A running container and its log."""

    container_id: str
    log: ContainerLog


class LogRotator:
    """Checks every running container's log, periodically."""

    def __init__(
        self,
        services: NodeServices,
        settings: ContainerLogs,
        pods: Callable[[], Iterable[PodSnapshot]],
        metrics: Metrics,
    ) -> None:
        """Take the node's services, the settings, the pods of this node, and the metrics."""
        self._services, self._settings, self._pods, self._metrics = services, settings, pods, metrics
        self._rules = LogRotation(settings.max_size, settings.max_files)
        self._turns = asyncio.Semaphore(settings.max_workers)
        self._logged: set[str] = set()
        """Containers whose failure was logged."""
        self._swept = time.monotonic()

    async def run(self) -> None:
        """Check until cancelled."""
        while True:
            await asyncio.sleep(self._settings.monitor_interval.total_seconds())
            try:
                if self._settings.max_size >= 0:
                    await self.look()
                if time.monotonic() - self._swept >= SWEEP.total_seconds():
                    self._swept = time.monotonic()
                    await self.sweep()
            except Exception:  # noqa: BLE001 - an unexpected error must not end the loop
                _log.exception("could not rotate container logs this time")

    async def look(self) -> None:
        """Rotate full logs, and reopen those that were removed."""
        full, missing = await asyncio.to_thread(self._judge)
        work = [self._rotate(one) for one in full] + [self._reopen(one) for one in missing]
        for end in await asyncio.gather(*work, return_exceptions=True):
            if isinstance(end, Exception):  # of one container; the others are rotated
                log_bad_item("log rotation", "a container", end)

    async def sweep(self) -> None:
        """Remove links whose logs are gone."""
        ids = {one.container_id for one in self._running()}
        try:
            if swept := await asyncio.to_thread(self._services.links.sweep, ids):
                _log.info("removed dangling links to container logs", links=swept)
        except OSError as error:
            _log.warning("could not remove dangling links to container logs", err=str(error))
        self._logged &= ids

    def _running(self) -> list[Running]:
        return [
            Running(container.container_id, ContainerLog(self._services.paths(key), name, container.attempt))
            for pod in self._pods()
            for key in [PodKey(pod.namespace, pod.name, pod.uid)]
            for name, container in pod.containers.items()
            if container.state == ContainerState.RUNNING and container.container_id
        ]

    def _judge(self) -> tuple[list[Running], list[Running]]:
        """Return the containers whose log is full, and those without one; blocks on files."""
        full, missing = [], []
        for one in self._running():
            try:
                found = os.stat(one.log.path, follow_symlinks=False)  # noqa: PTH116 - the only call on an idle node
            except FileNotFoundError:
                missing.append(one)
            except OSError:
                full.append(one)  # the rotation will fail and report it
            else:
                if found.st_size >= self._settings.max_size or not stat.S_ISREG(found.st_mode):
                    full.append(one)
        return full, missing

    async def _rotate(self, one: Running) -> None:
        async with self._turns:
            try:
                await rotate(one.log, one.container_id, self._rules, self._services.runtime)
            except (OSError, CriError) as error:
                self._failed(one, "could not rotate a container's log", error)
            else:
                self._metrics.log_rotated(failed=False)
                self._logged.discard(one.container_id)

    async def _reopen(self, one: Running) -> None:
        async with self._turns:
            try:
                await reopen_missing(one.log, one.container_id, self._services.runtime)
            except (OSError, CriError) as error:
                self._failed(one, "a container's log is gone, and could not be reopened", error)

    def _failed(self, one: Running, what: str, error: Exception) -> None:
        """Log and count the failure, unless the container has ended in the meantime."""
        if all(other.container_id != one.container_id for other in self._running()):
            return
        self._metrics.log_rotated(failed=True)
        if one.container_id not in self._logged:
            self._logged.add(one.container_id)
            pod = one.log.paths.key
            where = {"pod": str(pod), "podUID": pod.uid, "containerName": one.log.container, "path": str(one.log)}
            _log.warning(what, **where, containerID=one.container_id, err=str(error))


def keeping_logs_small(rotator: LogRotator) -> contextlib.AbstractAsyncContextManager[None]:
    """Rotate logs while the block runs."""
    return in_background("log rotation", rotator.run)
