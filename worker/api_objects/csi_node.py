"""Keeps this node's CSINode, and the CSI part of its Node, in sync with the registered drivers.

Runs in a cluster's worker, the process that drivers register with. It is created at the start even without drivers, because the
scheduler reads volume limits from it. A driver that has not registered since this process began stays listed; only one that
deregistered is removed (pkg/volume/csi/nodeinfomanager, csi_plugin.go DeRegisterPlugin). Its owner is the Node. If that is
deleted and created again, the CSINode is gone too, so it is checked at intervals while there are drivers, and written again.

All changes are written at once. If they are refused, each is written on its own, so that a driver which says something wrong about
this node keeps no other out. Who registers waits for the answer (`listed`), and is not registered if it is refused, as by a kubelet.
It does not wait for an API server that is away: volumes that are attached can be mounted meanwhile. One that is refused later stays
registered, and the Node has an event.
"""

import asyncio
import contextlib
import random
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from http import HTTPStatus
from typing import Final

import structlog

from activities.clients.api_server.api_server import MERGE_PATCH, ApiAway, ApiRefused, ApiServer, Json
from activities.clients.api_server.resources import CSI_NODES, NODES
from activities.clients.csi_drivers import CsiDrivers, Driver, DriverRefused
from worker.api_objects.csi_node_objects import (
    UPDATING,
    TopologyCollision,
    fault_of,
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
ANSWERS_WITHIN: Final = timedelta(seconds=5)
"""How long a driver that registers waits for an answer; a kubelet tries four times within half a second."""
NOT_LISTED: Final = "CSIDriverNotListed"
"""The event of a driver that was refused after it had registered."""
_OF_CONTENT: Final = frozenset(
    {
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.FORBIDDEN,  # also by an admission plugin: NodeRestriction allows a node some labels only
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        HTTPStatus.UNPROCESSABLE_ENTITY,
    }
)
"""Answers that may be due to what one driver says."""

_log: Final = structlog.get_logger(__name__)


class CsiNodeKeeper:
    """The loop that keeps it in sync."""

    def __init__(
        self, api: ApiServer, node: str, drivers: CsiDrivers, tell: Callable[[str, str], None] = lambda *_: None
    ) -> None:
        """Keep it for a node; `tell` takes the reason and message of a warning about the node."""
        self._api, self._name, self._tell = api, node, tell
        self._changed = asyncio.Event()
        self._known: dict[str, Driver | None] = {}
        """All driver changes since this process began; None: deregistered."""
        self._pending: dict[str, Driver | None] = {}
        self._refused: dict[str, str] = {}
        """Pending ones that were refused, and why: they are tried on their own."""
        self._trouble, self._is_away = "", False
        self._tried = asyncio.Condition()
        self._registering: set[str] = set()
        """Drivers whose registration waits for the answer."""
        drivers.on_change(self._driver_changed)
        drivers.listed_by(self.listed)

    async def listed(self, driver: Driver) -> None:
        """Return when a driver is in the CSINode, or no answer is to be had now; raises DriverRefused."""
        if fault := fault_of(driver):
            raise DriverRefused(fault)
        self._registering.add(driver.name)
        try:
            async with asyncio.timeout(ANSWERS_WITHIN.total_seconds()), self._tried:
                await self._tried.wait_for(lambda: self._is_away or not self._waits(driver))
        except TimeoutError:
            return
        finally:
            self._registering.discard(driver.name)
        if self._pending.get(driver.name) is driver and (why := self._refused.get(driver.name)):
            raise DriverRefused(why)

    async def run(self) -> None:
        """Keep it in sync until cancelled; failed writes are retried."""
        pause = FIRST_PAUSE
        while True:
            self._changed.clear()
            pending = dict(self._pending)
            try:
                refused = await self._write_each(pending)
            except (ApiAway, ApiRefused, DriverRefused) as error:
                await self._end_round(str(error), is_away=isinstance(error, ApiAway))
                await asyncio.sleep(pause * random.uniform(1, 1.5))  # noqa: S311 - no secret
                pause = min(pause * 2, LONGEST_PAUSE)
                continue
            self._take(pending, refused)
            await self._end_round()
            if self._refused:
                await self._rest(pause * random.uniform(1, 1.5))  # noqa: S311 - no secret
                pause = min(pause * 2, LONGEST_PAUSE)
                continue
            pause = FIRST_PAUSE
            while not (self._pending or self._changed.is_set()):
                await self._rest(LOOK.total_seconds())

    async def _write_each(self, drivers: Mapping[str, Driver | None]) -> dict[str, str]:
        """Write drivers, together if that is possible; returns which of them are refused, and why."""
        apart = {name: one for name, one in drivers.items() if name in self._refused}
        try:
            await self._write({name: one for name, one in drivers.items() if name not in apart})
        except DriverRefused:
            apart = dict(drivers)
            await self._write({})  # refused too: it is due to none of them
        refused = {}
        for name, one in apart.items():
            try:
                await self._write({name: one})
            except DriverRefused as error:
                refused[name] = str(error)
        return refused

    async def _write(self, drivers: Mapping[str, Driver | None]) -> None:
        """Write the drivers into both objects, where they differ; raises DriverRefused if that may be due to one of them."""
        for one in drivers.values():
            if one is not None and (fault := fault_of(one)):
                raise DriverRefused(fault)
        with _updating("Node"):
            node = await self._api.get(NODES.path(self._name))
            if patch := node_patch(node, drivers):
                await self._api.patch(NODES.path(self._name), patch, kind=MERGE_PATCH)
        with _updating("CSINode"):
            await self._write_csi_node(node, drivers)

    async def _write_csi_node(self, node: Json, drivers: Mapping[str, Driver | None]) -> None:
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

    def _take(self, tried: Mapping[str, Driver | None], refused: Mapping[str, str]) -> None:
        """Forget what is written, and note what is refused; what has changed meanwhile is tried again."""
        unchanged = {name for name, one in tried.items() if self._pending[name] is one}
        before, self._refused = self._refused, {name: why for name, why in refused.items() if name in unchanged}
        self._pending = {
            name: one for name, one in self._pending.items() if name not in unchanged or name in self._refused
        }
        for name, why in self._refused.items():
            if before.get(name) != why:
                _log.warning("a CSI driver cannot be in the node's CSINode, retrying", driver=name, err=why)
                if name not in self._registering and tried[name] is not None:
                    self._tell(NOT_LISTED, f"CSI driver {name} is registered, but cannot be in the CSINode: {why}")

    async def _end_round(self, trouble: str = "", *, is_away: bool = False) -> None:
        """Log what concerns no single driver, and tell who waits."""
        if trouble and trouble != self._trouble:
            _log.warning("the node's CSINode cannot be written, retrying", node=self._name, err=trouble)
        self._trouble, self._is_away = trouble, is_away
        async with self._tried:
            self._tried.notify_all()

    async def _rest(self, seconds: float) -> None:
        """Wait for a change, or so long; then all drivers are pending again if the CSINode is gone."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        if not self._changed.is_set() and await self._is_missing():
            self._pending = dict(self._known)

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

    def _waits(self, driver: Driver) -> bool:
        return self._pending.get(driver.name) is driver and driver.name not in self._refused

    def _driver_changed(self, name: str, driver: Driver | None) -> None:
        self._known[name] = self._pending[name] = driver
        self._refused.pop(name, None)
        self._changed.set()


@contextlib.contextmanager
def _updating(kind: str) -> Iterator[None]:
    """Raise DriverRefused for what may be due to a driver while an object of this kind is updated."""
    try:
        yield
    except TopologyCollision as error:
        raise DriverRefused(f"{UPDATING.format(kind=kind)}: {error}") from error
    except ApiRefused as error:
        if error.status not in _OF_CONTENT:
            raise
        raise DriverRefused(f"{UPDATING.format(kind=kind)}: {error}") from error
