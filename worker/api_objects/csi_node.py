"""Keeps this node's CSINode, and the CSI part of its Node, in sync with the registered drivers.

Runs in a cluster's worker, the process that drivers register with. It is created at the start even without drivers, because the
scheduler reads volume limits from it. A driver that has not registered since this process began stays listed; only one that
deregistered is removed (pkg/volume/csi/nodeinfomanager, csi_plugin.go DeRegisterPlugin). Its owner is the Node. If that is
deleted and created again, the CSINode is gone too, so it is checked at intervals while there are drivers, and written again.
"""

import asyncio
import contextlib
import random
from datetime import timedelta
from typing import Final

import structlog

from activities.clients.api_server.api_server import MERGE_PATCH, ApiAway, ApiRefused, ApiServer
from activities.clients.api_server.resources import CSI_NODES, NODES
from activities.clients.csi_drivers import CsiDrivers, Driver
from worker.api_objects.csi_node_objects import (
    TopologyCollision,
    is_of,
    new_csi_node,
    node_patch,
    with_drivers,
    with_migrated_plugins,
)

FIRST_PAUSE: Final = 0.2
LONGEST_PAUSE: Final = 30.0
LOOK: Final = timedelta(minutes=5)
"""How often its existence is checked: a node may not watch it."""

_log: Final = structlog.get_logger(__name__)


class CsiNodeKeeper:
    """The loop that keeps it in sync."""

    def __init__(self, api: ApiServer, node: str, drivers: CsiDrivers) -> None:
        self._api, self._name = api, node
        self._changed = asyncio.Event()
        self._known: dict[str, Driver | None] = {}
        """All driver changes since this process began; None: deregistered."""
        self._pending: dict[str, Driver | None] = {}
        drivers.on_change(self._driver_changed)

    async def run(self) -> None:
        """Keep it in sync until cancelled; failed writes are retried."""
        pause, self._trouble = FIRST_PAUSE, ""
        while True:
            self._changed.clear()
            pending = dict(self._pending)
            try:
                await self._write(pending)
            except (ApiAway, ApiRefused, TopologyCollision) as error:
                self._log_trouble(str(error))
                await asyncio.sleep(pause * random.uniform(1, 1.5))  # noqa: S311 - no secret
                pause = min(pause * 2, LONGEST_PAUSE)
                continue
            self._log_trouble("")
            pause = FIRST_PAUSE
            self._pending = {name: one for name, one in self._pending.items() if pending.get(name, self) is not one}
            while not (self._pending or self._changed.is_set()):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK.total_seconds()):
                        await self._changed.wait()
                if not self._changed.is_set() and await self._is_missing():
                    self._pending = dict(self._known)

    async def _write(self, drivers: dict[str, Driver | None]) -> None:
        """Write the drivers into both objects, where they differ."""
        node = await self._api.get(NODES.path(self._name))
        if patch := node_patch(node, drivers):
            await self._api.patch(NODES.path(self._name), patch, kind=MERGE_PATCH)
        path = CSI_NODES.path(self._name)
        try:
            found = await self._api.get(path)
        except ApiRefused as error:
            if not error.not_found:
                raise
            await self._api.create(CSI_NODES.path(), with_drivers(new_csi_node(node), drivers))
            return
        if not is_of(found, node):
            await self._api.delete(path, {"preconditions": {"uid": found["metadata"]["uid"]}})
            await self._api.create(CSI_NODES.path(), with_drivers(new_csi_node(node), drivers))
        elif (wanted := with_migrated_plugins(with_drivers(found, drivers))) is not found:
            await self._api.replace(path, wanted)

    async def _is_missing(self) -> bool:
        """Report whether there are drivers but no CSINode."""
        if not any(self._known.values()):
            return False
        try:
            await self._api.get(CSI_NODES.path(self._name))
        except ApiRefused as error:
            return error.not_found
        except ApiAway:
            return False
        return False

    def _driver_changed(self, name: str, driver: Driver | None) -> None:
        self._known[name] = self._pending[name] = driver
        self._changed.set()

    def _log_trouble(self, trouble: str) -> None:
        if trouble and trouble != self._trouble:
            _log.warning("the node's CSINode cannot be written, retrying", node=self._name, err=trouble)
        self._trouble = trouble
