"""The CSI drivers that have registered on this node, by name.

Filled by the process that mounts (`worker.host.plugin_watch`, from the sockets in `plugins_registry`), asked by whoever
calls a driver. It is memory only: the sockets are the truth, and a worker that starts reads them again. So one that has
just started waits a moment for a driver before it says that there is none.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

REGISTERS_WITHIN: Final = timedelta(seconds=5)
"""How long a driver that is not there is waited for: it may start beside us, and FailedMount costs ten seconds."""


class DriverNotRegistered(Exception):
    """No driver of this name has registered; the words are the kubelet's (csi_client.go newCsiDriverClient)."""

    def __init__(self, name: str) -> None:
        super().__init__(f"driver name {name} not found in the list of registered CSI drivers")


@dataclass(frozen=True, slots=True)
class Driver:
    """A registered driver: where it answers, and what it said of this node (for CSINode, where there is an API server)."""

    name: str
    endpoint: str
    version: tuple[int, ...] = (1, 0)
    node_id: str = ""
    max_volumes: int = 0
    """How many volumes it can publish here at most; 0: it does not say."""
    topology: Mapping[str, str] = field(default_factory=dict)


class CsiDrivers:
    """The registered drivers, and which of their volumes this process has staged."""

    def __init__(self) -> None:
        self._drivers: dict[str, Driver] = {}
        self._changed = asyncio.Condition()
        self._hearers: list[Callable[[str, Driver | None], None]] = []
        self.staged: set[tuple[str, str]] = set()
        """By driver and volume handle. One that is missing may be staged all the same: staging it again is safe."""
        self.published: set[str] = set()
        """The places of pods to which this process has published, by path; likewise."""

    def find(self, name: str) -> Driver | None:
        """Answer the driver of this name, or None."""
        return self._drivers.get(name)

    async def get(self, name: str, within: timedelta = REGISTERS_WITHIN) -> Driver:
        """Answer the driver of this name as soon as it is registered; raises DriverNotRegistered after `within`."""
        try:
            async with asyncio.timeout(within.total_seconds()), self._changed:
                await self._changed.wait_for(lambda: name in self._drivers)
        except TimeoutError:
            raise DriverNotRegistered(name) from None
        return self._drivers[name]

    async def add(self, driver: Driver) -> None:
        """Take a driver in; one of the same name gives way."""
        async with self._changed:
            self._drivers[driver.name] = driver
            self._tell(driver.name, driver)
            self.staged = {
                one for one in self.staged if one[0] != driver.name
            }  # one that was restarted may have lost it
            self._changed.notify_all()

    def remove(self, driver: Driver) -> None:
        """Forget a driver whose socket is gone, unless another one of its name has taken its place."""
        if self._drivers.get(driver.name) is driver:
            del self._drivers[driver.name]
            self._tell(driver.name, None)

    def on_change(self, hear: Callable[[str, Driver | None], None]) -> None:
        """Tell somebody of each driver that is there, and of each that registers or (None) goes from now on."""
        self._hearers.append(hear)
        for name, driver in self._drivers.items():
            hear(name, driver)

    def _tell(self, name: str, driver: Driver | None) -> None:
        for hear in self._hearers:
            hear(name, driver)
