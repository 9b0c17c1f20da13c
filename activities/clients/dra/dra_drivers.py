"""The plugins of DRA drivers that are registered on this node, by driver.

Filled from the sockets in `plugins_registry`; kept in memory only, because a starting worker reads the sockets again. A driver may have
several plugins during its update: the newest that is connected is asked (dra_plugin_manager.go).
"""

import asyncio
import re
from collections.abc import Callable, Mapping
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from activities.clients.plugins.kinds import PluginRefused, Registered
from proto.dra.device_health import DeviceHealth, DeviceKey
from proto.kubernetes.go_quote import go_quoted
from proto.messages import shorten

if TYPE_CHECKING:
    from activities.clients.dra.dra_plugin import DraPlugin
    from proto.pluginregistration.v1 import api_pb2 as registration

DRA_PLUGIN: Final = "DRAPlugin"
MOST_PLUGINS: Final = 128
HEALTH_PAUSE: Final = 5.0
"""Seconds until a plugin whose stream has ended is asked again for the health of its devices."""
_NAME: Final = re.compile(r"(?=.{1,63}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")

_log: Final = structlog.get_logger(__name__)

Counted = Callable[[str, str, str, float], None]
"""Takes a call's driver, method, code and seconds."""


class HealthReader(Protocol):
    """Takes what plugins report of their devices' health."""

    def take(self, driver: str, plugin: object, devices: Mapping[DeviceKey, DeviceHealth]) -> None:
        """Take a report of one of a driver's plugins."""
        ...

    def forget(self, driver: str, plugin: object) -> None:
        """Forget what a plugin has reported, because its stream has ended."""
        ...


class DriverMissing(Exception):
    """No plugin of a driver is registered; the message is the kubelet's."""


class DraDrivers:
    """The plugins; used from one event loop."""

    def __init__(self, counted: Counted = lambda *_: None) -> None:
        self._plugins: dict[str, list[DraPlugin]] = {}
        self._tasks: dict[DraPlugin, asyncio.Task[None]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._counted = counted
        self.health: HealthReader | None = None
        """What takes the health of devices; None: nobody asks for it. Set before the first plugin registers."""
        self.changed: Callable[[str], None] = lambda _: None
        """Called with a driver whose plugins came, went, connected or lost their connection."""

    def get(self, driver: str) -> "DraPlugin":
        """Return the plugin of a driver that is to be asked; raises DriverMissing."""
        if not driver:
            raise DriverMissing("DRA driver name is empty")
        plugins = self._plugins.get(driver, [])
        if not plugins:
            raise DriverMissing(f"DRA driver {shorten(driver)} is not registered")
        return next((one for one in reversed(plugins) if one.is_connected), plugins[-1])

    def is_usable(self, driver: str) -> bool:
        """Report whether a plugin of a driver is connected."""
        return any(one.is_connected for one in self._plugins.get(driver, ()))

    async def register(self, info: "registration.PluginInfo", endpoint: str) -> Registered:
        """Take a plugin; raises PluginRefused."""
        from activities.clients.dra.dra_plugin import SERVICES, DraPlugin  # noqa: PLC0415 - for whom has drivers

        said = f"of DRA driver plugin {shorten(info.name)} at endpoint {endpoint}"
        refusing = "RegisterPlugin error -- plugin validation failed with err: "
        if not _NAME.fullmatch(info.name):  # it becomes a label of metrics and a key of files
            raise PluginRefused(f"{refusing}name {said}: its name must be a domain name of at most 63 characters")
        versions = list(info.supported_versions)
        if not versions:
            raise PluginRefused(
                f"{refusing}invalid supported gRPC versions {said}: "
                "empty list of supported gRPC services (aka supported versions)"
            )
        service = next((one for one in versions if one in SERVICES), None)
        if service is None:
            named, known = (
                " ".join(go_quoted(shorten(one)) for one in some[:8]) for some in (versions, list(SERVICES))
            )
            raise PluginRefused(
                f"{refusing}invalid supported gRPC versions {said}: none of services supported by the plugin "
                f"([{named}]) are supported by the kubelet ([{known}])"
            )
        failing = "RegisterPlugin error -- plugin registration failed with err: "
        if any(one.endpoint == endpoint for one in self._plugins.get(info.name, ())):
            raise PluginRefused(
                f"{failing}endpoint {endpoint} already registered for DRA driver plugin {shorten(info.name)}"
            )
        if len(self._tasks) >= MOST_PLUGINS:
            raise PluginRefused(f"{failing}this node takes {MOST_PLUGINS} DRA driver plugins at most")
        plugin = DraPlugin(info.name, endpoint, service, partial(self._counted, info.name))
        self._plugins.setdefault(info.name, []).append(plugin)
        self._tasks[plugin] = asyncio.create_task(self._follow(plugin))
        self.changed(info.name)
        return Registered(DRA_PLUGIN, info.name, endpoint, service, remove=partial(self.remove, plugin))

    def remove(self, plugin: "DraPlugin") -> None:
        """Forget a plugin whose socket is gone."""
        if (task := self._tasks.pop(plugin, None)) is None:
            return
        self._plugins[plugin.driver].remove(plugin)
        if not self._plugins[plugin.driver]:
            del self._plugins[plugin.driver]
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        task.cancel()
        self.changed(plugin.driver)

    async def close(self) -> None:
        """Close all connections."""
        for plugin in list(self._tasks):
            self.remove(plugin)
        await asyncio.gather(*self._ending, return_exceptions=True)

    async def _follow(self, plugin: "DraPlugin") -> None:
        watching = [asyncio.create_task(self._watch_health(plugin))] if self.health else []
        try:
            async for is_connected in plugin.connections():
                _log.info("DRA plugin", driver=plugin.driver, endpoint=plugin.endpoint, connected=is_connected)
                self.changed(plugin.driver)
        finally:
            for task in watching:
                task.cancel()
            await asyncio.shield(asyncio.gather(plugin.close(), *watching, return_exceptions=True))

    async def _watch_health(self, plugin: "DraPlugin") -> None:
        """Take a plugin's reports for ever; one that serves none is asked again when it has connected again."""
        from activities.clients.dra.dra_plugin import HealthUnserved  # noqa: PLC0415 - for whom has drivers

        told = ""
        while True:
            await plugin.until_connected()
            why = "it has ended"
            try:
                async with aclosing(plugin.health()) as reports:
                    async for devices in reports:
                        if self.health:
                            self.health.take(plugin.driver, plugin, devices)
            except HealthUnserved:
                why = ""
            except Exception as error:  # noqa: BLE001 - whatever a plugin brings about, its health is asked for again
                why = str(error) or type(error).__name__
            finally:
                if self.health:
                    self.health.forget(plugin.driver, plugin)
            if not why:
                await plugin.until_connected(connected=False)
                continue
            if why != told:
                _log.info(
                    "WatchResources health stream has ended", driver=plugin.driver, endpoint=plugin.endpoint, err=why
                )
                told = why
            await asyncio.sleep(HEALTH_PAUSE)
