"""Keeps the CSINode of this node as its registered drivers are, and what of them stands in the Node itself.

Run in a cluster's worker, which is the process that drivers register with. Made at the start even where there is no driver, for the
scheduler asks it how many volumes fit. A driver that has not registered yet since this process began stays in it: only one that
went is taken out (pkg/volume/csi/nodeinfomanager, csi_plugin.go DeRegisterPlugin). It goes with its Node, which the node process makes anew
when somebody has deleted it; so, where drivers are, it is looked for now and then and all of them are written again.
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
from worker.api_objects.csi_node_objects import TopologyCollision, is_of, new_csi_node, node_patch, with_drivers

FIRST_PAUSE: Final = 0.2
LONGEST_PAUSE: Final = 30.0
LOOK: Final = timedelta(minutes=5)
"""Between two looks whether it is still there: a node may not watch it."""

_log: Final = structlog.get_logger(__name__)


class CsiNodeKeeper:
    """The loop that keeps it."""

    def __init__(self, api: ApiServer, node: str, drivers: CsiDrivers) -> None:
        self._api, self._name = api, node
        self._changed = asyncio.Event()
        self._known: dict[str, Driver | None] = {}
        """All that drivers have said since this process began; None: it went."""
        self._pending: dict[str, Driver | None] = {}
        drivers.on_change(self._note)

    async def run(self) -> None:
        """Keep it until cancelled; what could not be written is tried again."""
        pause, self._trouble = FIRST_PAUSE, ""
        while True:
            self._changed.clear()
            pending = dict(self._pending)
            try:
                await self._write(pending)
            except (ApiAway, ApiRefused, TopologyCollision) as error:
                self._tell(str(error))
                await asyncio.sleep(pause * random.uniform(1, 1.5))  # noqa: S311 - no secret
                pause = min(pause * 2, LONGEST_PAUSE)
                continue
            self._tell("")
            pause = FIRST_PAUSE
            self._pending = {name: one for name, one in self._pending.items() if pending.get(name, self) is not one}
            while not (self._pending or self._changed.is_set()):
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), LOOK.total_seconds())
                if not self._changed.is_set() and await self._is_missing():
                    self._pending = dict(self._known)

    async def _write(self, drivers: dict[str, Driver | None]) -> None:
        """Write drivers into both objects, as far as they do not stand there."""
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
        elif (wanted := with_drivers(found, drivers)) is not found:
            await self._api.replace(path, wanted)

    async def _is_missing(self) -> bool:
        """Say whether drivers are here that no CSINode tells of."""
        if not any(self._known.values()):
            return False
        try:
            await self._api.get(CSI_NODES.path(self._name))
        except ApiRefused as error:
            return error.not_found
        except ApiAway:
            return False
        return False

    def _note(self, name: str, driver: Driver | None) -> None:
        self._known[name] = self._pending[name] = driver
        self._changed.set()

    def _tell(self, trouble: str) -> None:
        if trouble and trouble != self._trouble:
            _log.warning("the node's CSINode can't be written now, it is tried again", node=self._name, err=trouble)
        self._trouble = trouble
