"""Registers the plugin behind a registration socket, in the kubelet's order.

Called by `worker.host.plugin_watch` for every new socket (pluginmanager operation_generator.go, csi_plugin.go
ValidatePlugin and RegisterPlugin): ask what it is, validate it, ask the driver about this node, and notify it.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from activities.clients.csi_driver import CsiError, connected
from activities.clients.csi_drivers import CsiDrivers, Driver
from activities.clients.plugins.registration import plugin_at
from activities.volumes.csi.records.volume import DRIVER_NAME
from proto.pluginregistration.v1 import api_pb2 as registration

CSI_PLUGIN: Final = "CSIPlugin"
_VERSION: Final = re.compile(r"v?(0|[1-9][0-9]{0,17})((?:\.[0-9]{1,18})+)(?!\.?[0-9])", re.ASCII)
_MAJOR: Final = 1


class PluginRefused(Exception):
    """The plugin cannot be registered; it has been notified why."""


async def register(socket: Path, drivers: CsiDrivers) -> Driver:
    """Register the plugin behind a socket; raises PluginRefused or PluginUnreachable."""
    driver = None
    try:
        async with plugin_at(socket) as plugin:
            info = await plugin.info()
            try:
                driver = await _driver(info, socket, drivers)
            except PluginRefused as refused:
                await plugin.notify(str(refused))
                raise
            await drivers.add(driver)
            await plugin.notify()
    except BaseException:
        if driver is not None:
            drivers.remove(driver)
        raise
    return driver


async def _driver(info: registration.PluginInfo, socket: Path, drivers: CsiDrivers) -> Driver:
    """Validate a plugin and ask the driver about this node; raises PluginRefused."""
    if info.type != CSI_PLUGIN:
        raise PluginRefused(
            f"RegisterPlugin error -- no handler registered for plugin type: {info.type} at socket {socket}; "
            f"this node takes {CSI_PLUGIN} only"
        )
    endpoint = info.endpoint or str(socket)
    version = _acceptable(info, endpoint, drivers)
    try:
        async with connected(endpoint) as node:
            node_info = await node.info()
    except CsiError as error:
        raise PluginRefused(f"RegisterPlugin error -- plugin registration failed with err: {error}") from error
    return Driver(
        info.name,
        endpoint,
        version,
        node_info.node_id,
        node_info.max_volumes_per_node,
        dict(node_info.accessible_topology.segments),
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
