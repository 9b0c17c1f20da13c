"""The device plugins of this node, by resource, and what they list.

Part of the worker. Rules: pkg/kubelet/cm/devicemanager/manager.go and plugin/v1beta1. A plugin whose stream is lost makes its devices
unhealthy at once, and its resource is gone five minutes later. After a start the resources known before have none until
their plugins register again. A plugin that registers again replaces the one before without a gap.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import structlog

from proto.kubernetes.go_quote import go_quoted
from proto.kubernetes.resources.extended import is_extended_resource
from worker.devices.plugin_news import PluginNews
from worker.devices.unused_plugins import UnusedPlugins
from workflows.decide.devices.awaited import LISTED_NOTHING, LISTS_NONE, closed, not_registered, registered
from workflows.decide.devices.inventory import HEALTHY, UNREGISTERED, Inventory, Listed
from workflows.decide.manifest.fields.names import qualified_name

if TYPE_CHECKING:
    from activities.clients.device_plugins.device_plugin import DevicePlugin

VERSION: Final = "v1beta1"
STOP_GRACE: Final = timedelta(minutes=5)
"""endpointStopGracePeriod."""
MOST_RESOURCES: Final = 128
MOST_DEVICES: Final = 50_000
"""Of all plugins together."""
MOST_BYTES: Final = 2_000_000
"""Of all their devices' names, once for each NUMA node near a device: they are written and hashed at each change."""
_LOWEST, _HIGHEST = 0, 63
"""NUMA nodes that a bit mask of the kubelet can have."""

_log: Final = structlog.get_logger(__name__)


class RegistrationRefused(Exception):
    """A plugin cannot be registered; the message is the kubelet's where it has one."""


class RegisteredAnew(RegistrationRefused):
    """A plugin registered while an earlier one of its resource was being connected: the later one counts."""


@dataclass(slots=True)
class _Endpoint:
    """One plugin's connection; only its own task closes it."""

    socket: str
    plugin: "DevicePlugin | None" = None
    asks_preference: bool = False
    task: asyncio.Task[None] | None = None


@dataclass(slots=True)
class _Resource:
    listed: Listed = UNREGISTERED
    size: int = 0
    """Bytes of the devices' names."""
    endpoint: _Endpoint | None = None
    going: asyncio.TimerHandle | None = None
    connecting: asyncio.Task[None] | None = None
    is_prestarted: bool = False
    """What its plugin said last, which counts while the plugin is away."""


class DevicePlugins:
    """The plugins; used from one event loop."""

    def __init__(self, changed: Callable[[], None], stop_grace: timedelta = STOP_GRACE) -> None:
        """Take a callback for every change of what is listed."""
        self._changed, self._stop_grace = changed, stop_grace
        self._resources: dict[str, _Resource] = {}
        self._registered = asyncio.Condition()
        self.removed: set[str] = set()
        """Resources that were known and are gone: the Node keeps them with zero."""
        self.unused = UnusedPlugins(MOST_RESOURCES)
        """Why plugins that have come are not in use."""
        self.news = PluginNews(MOST_RESOURCES)

    @property
    def inventory(self) -> Inventory:
        """Return what is listed, by resource; a plugin that has not been reached yet has none."""
        return {name: one.listed for name, one in self._resources.items() if one.endpoint or one.going}

    def known_before(self, resources: Iterable[str]) -> None:
        """Take the resources of a checkpoint; each is gone in five minutes if no plugin registers it."""
        for name in list(resources)[:MOST_RESOURCES]:
            one = self._resources.setdefault(name, _Resource())
            self._go(name, one)
        self._changed()

    async def register(self, resource: str, socket: str, versions: Iterable[str]) -> None:
        """Connect to a plugin, and follow it from now on; raises RegistrationRefused or DevicePluginError."""
        from activities.clients.device_plugins.device_plugin import DevicePluginError  # noqa: PLC0415 - for whom has plugins

        try:
            await self._register(resource, socket, versions)
        except RegisteredAnew:
            raise
        except (RegistrationRefused, DevicePluginError) as error:
            one = self._resources.get(resource)
            if not why_invalid(resource) and not (one and one.endpoint):
                self._tell_unused(resource, not_registered(str(error)))
            raise

    async def _register(self, resource: str, socket: str, versions: Iterable[str]) -> None:
        self._refuse_invalid(resource, list(versions))
        one = self._resources.get(resource)
        if one is None:
            if len(self._resources) >= MOST_RESOURCES:
                raise RegistrationRefused(f"there are {MOST_RESOURCES} resources of device plugins already")
            one = self._resources[resource] = _Resource()
        if one.connecting:  # one that registers each second waits for itself, and others do not wait for it
            one.connecting.cancel()
        endpoint = _Endpoint(socket)
        connected: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        endpoint.task = one.connecting = asyncio.create_task(self._follow(resource, one, endpoint, connected))
        endpoint.task.add_done_callback(lambda _: connected.cancel())  # it may be cancelled before it begins
        try:
            await asyncio.wait([connected])
        finally:
            if not connected.done() or connected.cancelled() or connected.exception():
                self._never_connected(resource, one, endpoint)
        if connected.cancelled():
            raise RegisteredAnew(f"{resource} was registered once more meanwhile")
        connected.result()

    def _never_connected(self, resource: str, one: _Resource, endpoint: _Endpoint) -> None:
        if endpoint.task:
            endpoint.task.cancel()
        if one.connecting is endpoint.task:
            one.connecting = None
            if one.endpoint is None and one.going is None and self._resources.get(resource) is one:
                del self._resources[resource]

    def deregister(self, resource: str, socket: str) -> None:
        """Disconnect a plugin whose registration socket is gone, unless another has replaced it."""
        one = self._resources.get(resource)
        if one and one.endpoint and one.endpoint.socket == socket and one.endpoint.task:
            one.endpoint.task.cancel()

    async def close(self) -> None:
        """Disconnect all."""
        tasks = [one.endpoint.task for one in self._resources.values() if one.endpoint and one.endpoint.task]
        for one in self._resources.values():
            if one.going:
                one.going.cancel()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def is_registered(self, resource: str, within: timedelta) -> bool:
        """Wait until a plugin has listed a resource's devices, and report whether one has."""
        try:
            async with asyncio.timeout(within.total_seconds()), self._registered:
                await self._registered.wait_for(lambda: self.inventory.get(resource, UNREGISTERED).registered)
        except TimeoutError:
            return False
        return True

    async def preferred(
        self, resource: str, available: Iterable[str], must_include: Iterable[str], size: int
    ) -> list[str]:
        """Ask a plugin what it prefers; nothing if it does not want to be asked. Raises DevicePluginError."""
        from activities.clients.device_plugins.device_plugin import DevicePluginError  # noqa: PLC0415 - for whom has plugins

        one = self._resources.get(resource)
        if one is None or one.endpoint is None or one.endpoint.plugin is None or not one.endpoint.asks_preference:
            return []
        try:
            return await one.endpoint.plugin.preferred(available, must_include, size)
        except DevicePluginError as error:
            raise DevicePluginError(f"device plugin GetPreferredAllocation rpc failed with err: {error}") from error

    async def allocate(self, resource: str, devices: Iterable[str]) -> Any:
        """Have devices prepared for a container; raises DevicePluginError."""
        return await self._plugin(resource).allocate(devices)

    async def pre_start(self, resource: str, devices: Iterable[str]) -> None:
        """Have devices prepared for a start of their container, if the plugin wants that; raises DevicePluginError."""
        from activities.clients.device_plugins.device_plugin import DevicePluginError  # noqa: PLC0415 - for whom has plugins

        one = self._resources.get(resource)
        if one is None:
            raise DevicePluginError(f"endpoint not found in cache for a registered resource: {resource}")
        if not one.is_prestarted:
            return
        try:
            await self._plugin(resource).pre_start(devices)
        except DevicePluginError as error:
            raise DevicePluginError(f"device plugin PreStartContainer rpc failed with err: {error}") from error

    def socket_of(self, resource: str) -> str:
        """Return where the plugin of a resource listens; empty if it has none now."""
        one = self._resources.get(resource)
        return one.endpoint.socket if one and one.endpoint else ""

    def _plugin(self, resource: str) -> "DevicePlugin":
        from activities.clients.device_plugins.device_plugin import DevicePluginError  # noqa: PLC0415 - for whom has plugins

        one = self._resources.get(resource)
        if one is None:
            raise DevicePluginError(f"unknown Device Plugin {resource}")
        if one.endpoint is None or one.endpoint.plugin is None:
            raise DevicePluginError(f"endpoint {resource} has been stopped")
        return one.endpoint.plugin

    def _refuse_invalid(self, resource: str, versions: list[str]) -> None:
        if VERSION not in versions:
            shown = go_quoted(versions[0][:100] if versions else "")
            raise RegistrationRefused(
                f'requested API version {shown} is not supported by kubelet. Supported version is ["{VERSION}"]'
            )
        if why := why_invalid(resource):
            raise RegistrationRefused(why)

    async def _use(self, resource: str, one: _Resource, endpoint: _Endpoint, plugin: "DevicePlugin") -> None:
        """Ask a plugin what it wants, and put it in the place of the one before; raises DevicePluginError."""
        from activities.clients.device_plugins.device_plugin import DevicePluginError  # noqa: PLC0415 - for whom has plugins

        options = await _options(plugin)
        if self._resources.setdefault(resource, one) is not one:  # it was removed meanwhile, and made anew
            raise DevicePluginError(f"{resource} was registered once more meanwhile")
        endpoint.plugin, before = plugin, one.endpoint
        endpoint.asks_preference = options.get_preferred_allocation_available
        one.is_prestarted = options.pre_start_required
        one.endpoint = endpoint
        if before and before.task:
            before.task.cancel()

    async def _follow(
        self, resource: str, one: _Resource, endpoint: _Endpoint, connected: "asyncio.Future[None]"
    ) -> None:
        """Take its lists until the stream ends."""
        from activities.clients.device_plugins.device_plugin import DevicePluginError, plugin_connected  # noqa: PLC0415 - for whom has plugins

        why = "the stream ended"
        try:
            async with plugin_connected(endpoint.socket) as plugin:
                await self._use(resource, one, endpoint, plugin)
                if connected.cancelled():
                    return
                connected.set_result(None)
                one.connecting = None
                self._await_list(resource, one)
                if not one.listed.capacity:
                    self._tell_unused(resource, registered(self.unused.get(resource)))
                self.news.registered(resource, endpoint.socket)
                async for devices in plugin.lists():
                    if one.endpoint is endpoint:
                        await self._take(resource, one, self._within_bounds(one, listed(devices)))
        except DevicePluginError as error:
            why = str(error)
            if not connected.done():
                connected.set_exception(error)
        except Exception as error:  # noqa: BLE001 - whatever a plugin brings about, the others go on
            why = f"{type(error).__name__}: {error}"
            _log.exception("a device plugin could not be followed", resource=resource, socket=endpoint.socket)
            if not connected.done():
                connected.set_exception(DevicePluginError(why))
        finally:
            endpoint.plugin = None
            if one.endpoint is endpoint:
                self.news.gone(resource, endpoint.socket, why)
                self.unused.tell(resource, closed(why))
                self._lost(resource, one)

    def _lost(self, resource: str, one: _Resource) -> None:
        one.endpoint, one.listed = None, one.listed.disconnected()
        if one.listed.registered:
            self._go(resource, one)
        self._await_list(resource, one)
        self._changed()

    def _tell_unused(self, resource: str, why: str) -> None:
        if self.unused.tell(resource, why):
            self._changed()

    def _within_bounds(self, one: _Resource, found: Listed) -> Listed:
        from activities.clients.device_plugins.device_plugin import DevicePluginError  # noqa: PLC0415 - for whom has plugins

        others = [other for other in self._resources.values() if other is not one]
        for what, mine, theirs, most in (
            ("devices", found.capacity, sum(other.listed.capacity for other in others), MOST_DEVICES),
            ("bytes of names", size := _size(found), sum(other.size for other in others), MOST_BYTES),
        ):
            if mine + theirs > most:
                raise DevicePluginError(
                    f"it lists {mine} {what}, and the other plugins {theirs}: together more than {most}"
                )
        one.size = size
        return found

    async def _take(self, resource: str, one: _Resource, found: Listed) -> None:
        if one.going:
            one.going.cancel()
            one.going = None
        self.removed.discard(resource)
        self._tell_unused(resource, "" if found.capacity else LISTS_NONE)
        if found == one.listed:
            return
        one.listed = found
        self._changed()
        async with self._registered:
            self._registered.notify_all()

    def _await_list(self, name: str, one: _Resource) -> None:
        """Wait for the first list for the grace alone, however often a plugin connects meanwhile."""
        if not one.listed.registered and one.going is None:
            self._go(name, one)

    def _go(self, name: str, one: _Resource) -> None:
        """Remove a resource after its grace, unless a plugin lists it by then; one that has connected and lists nothing has no devices."""

        def gone() -> None:
            one.going = None
            if self._resources.get(name) is not one:
                return
            if one.endpoint is None:
                del self._resources[name]
                if len(self.removed) < MOST_RESOURCES:
                    self.removed.add(name)
                self._changed()
            elif not one.listed.registered:  # pods do not wait any longer for what it does not say
                one.listed = Listed()
                self.unused.tell(name, LISTED_NOTHING)
                self._changed()

        if one.going:
            one.going.cancel()
        one.going = asyncio.get_running_loop().call_later(self._stop_grace.total_seconds(), gone)


def _size(found: Listed) -> int:
    return sum(len(name.encode()) * max(1, len(nodes)) for name, nodes in found.nodes.items())


async def _options(plugin: "DevicePlugin") -> Any:
    from activities.clients.device_plugins.device_plugin import DevicePluginError  # noqa: PLC0415 - for whom has plugins

    try:
        return await plugin.options()
    except DevicePluginError as error:
        raise DevicePluginError(f"failed to get device plugin options: {error}") from error


def why_invalid(resource: str) -> str:
    """Return why no plugin can have this resource; empty if one can."""
    if is_extended_resource(resource) and not next(qualified_name(f"requests.{resource}"), None):
        return ""
    return f"the ResourceName {go_quoted(resource[:300])} is invalid"


def listed(devices: Iterable[Any]) -> Listed:
    """Make what a plugin lists; of two entries of one device the last counts."""
    last = {one.ID: one for one in devices}
    nodes = {
        name: tuple(dict.fromkeys(node.ID for node in one.topology.nodes if _LOWEST <= node.ID <= _HIGHEST))
        for name, one in last.items()
    }
    healthy = frozenset(name for name, one in last.items() if one.health == HEALTHY)
    return Listed(nodes, healthy, frozenset(nodes) - healthy)
