"""Takes device plugins that register by a socket in `plugins_registry`.

One of the kinds of `activities.clients.plugins.kinds` (pkg/kubelet/cm/devicemanager/plugin/v1beta1/handler.go).
"""

from typing import Final

from activities.clients.device_plugins.device_plugin import DevicePluginError
from activities.clients.plugins.kinds import PluginRefused, Registered
from proto.messages import shorten
from proto.pluginregistration.v1 import api_pb2 as registration
from worker.devices.plugins import VERSION, DevicePlugins, RegistrationRefused, why_invalid

DEVICE_PLUGIN: Final = "DevicePlugin"


class DevicePluginKind:
    """The kind of plugins that have devices."""

    def __init__(self, plugins: DevicePlugins) -> None:
        self._plugins = plugins

    async def register(self, info: registration.PluginInfo, endpoint: str) -> Registered:
        """Validate a plugin, connect to it and follow its list; raises PluginRefused."""
        resource, versions = info.name, list(info.supported_versions)
        if VERSION not in versions:
            shown = shorten(" ".join(versions))
            raise _refused(
                "validation", f"manager version, {VERSION}, is not among plugin supported versions [{shown}]"
            )
        if why := why_invalid(resource):
            raise _refused("validation", f"invalid name of device plugin socket: {why}")
        try:
            await self._plugins.register(resource, endpoint, versions)
        except (RegistrationRefused, DevicePluginError) as error:
            raise _refused("registration", str(error)) from error
        return Registered(
            DEVICE_PLUGIN, resource, endpoint, VERSION, remove=lambda: self._plugins.deregister(resource, endpoint)
        )


def _refused(what: str, why: str) -> PluginRefused:
    return PluginRefused(f"RegisterPlugin error -- plugin {what} failed with err: {why}")
