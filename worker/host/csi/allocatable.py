"""Asks CSI drivers again how many volumes they can have on this node, as often as they want (pkg/volume/csi/csi_node_updater.go).

A driver says so in its CSIDriver object (`nodeAllocatableUpdatePeriodSeconds`); without that it is asked when it registers, and
never again. It is asked at once after the cluster could not attach a volume because the node has no place for more. What it
answers goes to the CSINode, by which the scheduler counts (`worker/api_objects/csi_node.py`). Each driver has a task of its own: one
that hangs delays no other.
"""

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from typing import Any, Final

import structlog

from activities.clients.csi_drivers import Driver
from activities.node_services import NodeServices
from activities.objects.objects import ObjectKind, ObjectMissing, ObjectRefused
from activities.volumes.csi.drivers.driver_object import allocatable_period
from worker.daemon.background import in_background

LOOK: Final = 30.0
"""Seconds between looks at the objects of drivers that want no updates: nothing is called then."""
SHORTEST: Final = 10.0
"""Seconds; the API allows no shorter period."""

_log: Final = structlog.get_logger(__name__)


def update_period(driver: Mapping[str, Any]) -> float | None:
    """Return after how many seconds a driver wants to be asked again, by its CSIDriver object; None: never."""
    spec = driver.get("spec")
    seconds = allocatable_period(spec) if isinstance(spec, Mapping) else None
    return None if seconds is None else max(float(seconds), SHORTEST)


class Allocatable:
    """The loop."""

    def __init__(self, services: NodeServices) -> None:
        self._services, self._drivers = services, services.csi
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._drivers.on_change(self._changed)

    async def run(self) -> None:
        """Ask until cancelled."""
        try:
            await asyncio.Event().wait()
        finally:
            for one in self._asking.values():
                one.cancel()
            await asyncio.gather(*self._asking.values(), return_exceptions=True)

    def _changed(self, name: str, driver: Driver | None) -> None:
        """Begin to ask a driver that has registered, and stop to ask one that has gone."""
        if driver is None:
            if (task := self._asking.pop(name, None)) is not None:
                task.cancel()
        elif name not in self._asking:
            self._asking[name] = asyncio.get_running_loop().create_task(self._keep(name), name=f"allocatable of {name}")

    async def _keep(self, name: str) -> None:
        """Ask a driver at its period, or when the cluster had no place for a volume; never raises."""
        while True:
            try:
                period = await self._period(name)
                exhausted = await self._drivers.exhausted.wait(name, period or LOOK)
                if period is not None or (exhausted and await self._period(name) is not None):
                    await self._ask(name)
            except Exception:  # noqa: BLE001 - a defect costs one driver one round
                _log.exception("unexpected error while asking a CSI driver about this node", driver=name)
                await asyncio.sleep(LOOK)

    async def _period(self, name: str) -> float | None:
        try:
            return update_period((await self._services.objects.get(ObjectKind.CSI_DRIVERS, "", name)).json)
        except (ObjectMissing, ObjectRefused):
            return None

    async def _ask(self, name: str) -> None:
        from activities.clients.csi_driver import CsiError, connected  # noqa: PLC0415 - 3 MB, for whom has drivers

        if (driver := self._drivers.find(name)) is None:
            return
        try:
            async with connected(driver.endpoint, partial(self._services.timings.csi, name)) as node:
                most = (await node.info()).max_volumes_per_node
        except CsiError as error:
            _log.warning("a CSI driver does not say how many volumes it can have here", driver=name, err=str(error))
            return
        if most != driver.max_volumes and self._drivers.update(driver, replace(driver, max_volumes=most)):
            _log.info("a CSI driver can have another number of volumes here", driver=name, volumes=most)


def keeping_allocatable(services: NodeServices) -> AbstractAsyncContextManager[None]:
    """Ask drivers while the block runs."""
    return in_background("CSINode's allocatable", Allocatable(services).run)
