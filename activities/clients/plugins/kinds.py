"""The kinds of plugins that register by a socket in `plugins_registry`, and the registration itself.

Called by `worker.host.plugin_watch` for every new socket, in the kubelet's order (pluginmanager operation_generator.go): ask what it is, have
its kind validate and take it, and notify it. A kind is a row of the mapping: CSI drivers, DRA drivers.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from activities.clients.plugins.registration import plugin_at
from proto.messages import shorten
from proto.pluginregistration.v1 import api_pb2 as registration


class PluginRefused(Exception):
    """The plugin cannot be registered; it has been notified why."""


@dataclass(frozen=True, slots=True)
class Registered:
    """A plugin that this node uses."""

    kind: str
    """Its type in the registration, as CSIPlugin."""
    name: str
    endpoint: str
    version: str
    remove: Callable[[], None]
    """Ends its use; called when its socket is gone."""


class PluginKind(Protocol):
    """What this node does with the plugins of one type."""

    async def register(self, info: registration.PluginInfo, endpoint: str) -> Registered:
        """Validate a plugin and take it; raises PluginRefused, and then leaves nothing behind."""
        ...


PluginKinds = Mapping[str, PluginKind]
"""By the type that a plugin names."""


async def register(socket: Path, kinds: PluginKinds) -> Registered:
    """Register the plugin behind a socket; raises PluginRefused or PluginUnreachable."""
    registered = None
    try:
        async with plugin_at(socket) as plugin:
            info = await plugin.info()
            try:
                registered = await _kind(info, socket, kinds).register(info, info.endpoint or str(socket))
            except PluginRefused as refused:
                await plugin.notify(str(refused))
                raise
            await plugin.notify()
    except BaseException:
        if registered is not None:
            registered.remove()
        raise
    return registered


def _kind(info: registration.PluginInfo, socket: Path, kinds: PluginKinds) -> PluginKind:
    """Return what takes plugins of this type; raises PluginRefused."""
    if (found := kinds.get(info.type)) is None:
        raise PluginRefused(
            f"RegisterPlugin error -- no handler registered for plugin type: {shorten(info.type)} at socket {socket}; "
            f"this node takes {' and '.join(sorted(kinds))} only"
        )
    return found
