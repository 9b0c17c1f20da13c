"""Takes CSI drivers that register by a socket: validates them, and asks them about this node.

One of the kinds of `activities.clients.plugins.kinds` (csi_plugin.go ValidatePlugin and RegisterPlugin). In a cluster a driver that
cannot be in the CSINode is not registered, as by a kubelet: no volume of it would be attached here, and nobody would be told why.
"""

import re
from collections.abc import Iterable
from typing import Final

from activities.clients.csi_driver import CsiError, connected
from activities.clients.csi_drivers import CsiDrivers, Driver, DriverRefused
from activities.clients.plugins.kinds import PluginRefused, Registered
from activities.volumes.csi.records.volume import DRIVER_NAME
from proto.pluginregistration.v1 import api_pb2 as registration

CSI_PLUGIN: Final = "CSIPlugin"
_FAILED: Final = "RegisterPlugin error -- plugin registration failed with err"
_VERSION: Final = re.compile(r"v?(0|[1-9][0-9]{0,17})((?:\.[0-9]{1,18})+)(?!\.?[0-9])", re.ASCII)
_MAJOR: Final = 1


class CsiPlugins:
    """The kind of plugins that are CSI drivers."""

    def __init__(self, drivers: CsiDrivers) -> None:
        self._drivers = drivers

    async def register(self, info: registration.PluginInfo, endpoint: str) -> Registered:
        """Validate a driver, ask it about this node, and take it; raises PluginRefused."""
        version = _acceptable(info, endpoint, self._drivers)
        try:
            async with connected(endpoint) as node:
                node_info = await node.info()
        except CsiError as error:
            raise PluginRefused(f"{_FAILED}: {error}") from error
        segments = dict(node_info.accessible_topology.segments)
        driver = Driver(
            info.name, endpoint, version, node_info.node_id, node_info.max_volumes_per_node, topology=segments
        )
        try:
            await self._drivers.add(driver)
            await self._drivers.listed(driver)
        except DriverRefused as error:
            self._drivers.remove(driver)
            raise PluginRefused(f"{_FAILED}: {error}") from error
        except BaseException:
            self._drivers.remove(driver)
            raise
        return Registered(
            CSI_PLUGIN, info.name, endpoint, ".".join(map(str, version)), remove=lambda: self._drivers.remove(driver)
        )


def _acceptable(info: registration.PluginInfo, endpoint: str, drivers: CsiDrivers) -> tuple[int, ...]:
    """Return the version to use with a driver; raises PluginRefused for an invalid name or unsupported versions."""
    doing = f"validation failed for CSI Driver {info.name} at endpoint {endpoint}"
    refusing = "RegisterPlugin error -- plugin validation failed with err: " + doing
    if not DRIVER_NAME.fullmatch(info.name):  # the name becomes part of a path
        raise PluginRefused(f"{refusing}: its name must be a domain name of at most 63 characters")
    version = highest_version(info.supported_versions)
    if version is None:
        shown = ", ".join(info.supported_versions) or "none"
        raise PluginRefused(f"{refusing}: this node speaks CSI v1.x, and the driver names {shown}")
    known = drivers.find(info.name)
    if known is not None and known.version >= version:
        number = ".".join(map(str, known.version))
        raise PluginRefused(
            f"{refusing}: Another driver with the same name is already registered with a higher supported version: "
            f'"{number}"'
        )
    return version


def highest_version(versions: Iterable[str]) -> tuple[int, ...] | None:
    """Return the highest version 1.x of these; None if there is none (version.go HighestSupportedVersion)."""
    found = [_parsed(one) for one in versions]
    return max((one for one in found if one is not None and one[0] == _MAJOR), default=None)


def _parsed(version: str) -> tuple[int, ...] | None:
    match = _VERSION.match(version.strip())
    return None if match is None else (int(match[1]), *map(int, match[2].lstrip(".").split(".")))
