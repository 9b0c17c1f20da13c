"""The CSI drivers registered on this node, by name.

Filled by the worker (`worker.host.plugin_watch`) from the sockets in `plugins_registry`. Kept in memory only, because
a starting worker reads the sockets again. Therefore a look-up waits a moment before it reports that a driver is
missing.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

REGISTERS_WITHIN: Final = timedelta(seconds=5)
"""How long to wait for a missing driver: it may be starting, and a FailedMount costs ten seconds."""


class DriverNotRegistered(Exception):
    """No driver of this name is registered; the message is the kubelet's (csi_client.go newCsiDriverClient)."""

    def __init__(self, name: str) -> None:
        super().__init__(f"driver name {name} not found in the list of registered CSI drivers")


class DriverRefused(Exception):
    """A driver cannot be in this node's CSINode; the message says why, in the kubelet's words (nodeinfomanager.go)."""


@dataclass(frozen=True, slots=True)
class Driver:
    """A registered driver: its endpoint, and what it said about this node (for CSINode)."""

    name: str
    endpoint: str
    version: tuple[int, ...] = (1, 0)
    node_id: str = ""
    max_volumes: int = 0
    """The most volumes that it can publish on this node; 0: not limited."""
    topology: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class VolumeSizes:
    """What this process knows of volumes that are expanded while they are mounted, by driver and volume handle."""

    known: dict[tuple[str, str], int] = field(default_factory=dict)
    """Bytes, as the claim or the last expansion said."""
    failed: set[tuple[str, str]] = field(default_factory=set)
    """Their drivers have refused to expand them."""
    in_use: set[tuple[str, str]] = field(default_factory=set)
    """Their drivers expand them only while nobody uses them."""

    def forget(self, key: tuple[str, str]) -> None:
        """Forget a volume that is no longer on this node."""
        self.known.pop(key, None)
        self.failed.discard(key)
        self.in_use.discard(key)


class Exhausted:
    """Drivers for whose volumes this node had no place: the cluster could not attach one."""

    def __init__(self) -> None:
        self._events: dict[str, asyncio.Event] = {}

    def set(self, name: str) -> None:
        """Say that there was no place for a volume of a driver; of one for which nobody waits, it is ignored."""
        if (event := self._events.get(name)) is not None:
            event.set()

    async def wait(self, name: str, seconds: float) -> bool:
        """Wait until there is no place for a volume of a driver, or so long; reports which it was."""
        event = self._events.setdefault(name, asyncio.Event())
        try:
            async with asyncio.timeout(seconds):  # wait_for of Python 3.11 may swallow a cancellation
                await event.wait()
        except TimeoutError:
            return False
        event.clear()
        return True


class WantedVolumes:
    """Volumes that pods wait for until they are attached, which the Node has to list as in use."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        """By the path at which each is to be published."""
        self.changed = asyncio.Event()

    @property
    def names(self) -> frozenset[str]:
        """Their names in the Node's status."""
        return frozenset(self._names.values())

    def add(self, target: str, name: str) -> None:
        """Add the volume that a pod waits for."""
        if self._names.get(target) != name:
            self._names[target] = name
            self.changed.set()

    def discard(self, target: str) -> None:
        """Remove it: its pod has it no longer."""
        if self._names.pop(target, None) is not None:
            self.changed.set()


class CsiDrivers:
    """The registered drivers, and which of their volumes this process has staged and published."""

    def __init__(self) -> None:
        self._drivers: dict[str, Driver] = {}
        self._registered: dict[str, Driver] = {}
        """As they were when they registered."""
        self._changed = asyncio.Condition()
        self._listeners: list[Callable[[str, Driver | None], None]] = []
        self._lister: Callable[[Driver], Awaitable[None]] | None = None
        self.staged: set[tuple[str, str]] = set()
        """Driver and volume handle. A volume that is missing here may still be staged: staging it again is safe."""
        self.published: set[str] = set()
        """Target paths; likewise."""
        self.sizes = VolumeSizes()
        self.exhausted = Exhausted()
        self.wanted = WantedVolumes()

    def find(self, name: str) -> Driver | None:
        """Return the driver of this name, or None."""
        return self._drivers.get(name)

    async def get(self, name: str, within: timedelta = REGISTERS_WITHIN) -> Driver:
        """Return the driver of this name as soon as it is registered; raises DriverNotRegistered after `within`."""
        try:
            async with asyncio.timeout(within.total_seconds()), self._changed:
                await self._changed.wait_for(lambda: name in self._drivers)
        except TimeoutError:
            raise DriverNotRegistered(name) from None
        return self._drivers[name]

    async def add(self, driver: Driver) -> None:
        """Add a driver; it replaces one of the same name."""
        async with self._changed:
            self._drivers[driver.name] = self._registered[driver.name] = driver
            self._notify(driver.name, driver)
            self.staged = {one for one in self.staged if one[0] != driver.name}  # after a restart it may have lost them
            self._changed.notify_all()

    def remove(self, driver: Driver) -> None:
        """Remove a driver whose socket is gone, unless another one has replaced it."""
        if self._registered.get(driver.name) is driver:
            del self._drivers[driver.name], self._registered[driver.name]
            self._notify(driver.name, None)

    def update(self, known: Driver, now: Driver) -> bool:
        """Replace what a driver said about this node; False if it has registered again meanwhile, or has gone."""
        if self._drivers.get(known.name) is not known:
            return False
        self._drivers[known.name] = now
        self._notify(known.name, now)
        return True

    def on_change(self, listener: Callable[[str, Driver | None], None]) -> None:
        """Call `listener` for each registered driver, and from now on for each that registers or (with None) is removed."""
        self._listeners.append(listener)
        for name, driver in self._drivers.items():
            listener(name, driver)

    def listed_by(self, lister: Callable[[Driver], Awaitable[None]]) -> None:
        """Let `lister` say of each driver that registers whether it is in the CSINode; see `listed`."""
        self._lister = lister

    async def listed(self, driver: Driver) -> None:
        """Return when a driver is in the CSINode, or nobody can say now; raises DriverRefused. A standalone node has none."""
        if self._lister is not None:
            await self._lister(driver)

    def _notify(self, name: str, driver: Driver | None) -> None:
        for listener in self._listeners:
            listener(name, driver)
