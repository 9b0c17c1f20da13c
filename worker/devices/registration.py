"""The registration of device plugins at `device-plugins/kubelet.sock` below the root directory.

Part of the worker. Sockets that are left there are removed at the start, so that plugins notice it and register again
(pkg/kubelet/cm/devicemanager/plugin/v1beta1/server.go, CleanupPluginDirectory). Plugins that register at `plugins_registry` come
by `worker/host/plugin_watch.py` (`plugins_registry.py`).
"""

import asyncio
import contextlib
import os
import stat
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio

from activities.clients.device_plugins.device_plugin import DevicePluginError
from proto.deviceplugin.v1beta1 import api_pb2 as api
from proto.deviceplugin.v1beta1 import api_pb2_grpc
from worker.devices.counts import Counts
from worker.devices.plugins import MOST_RESOURCES, DevicePlugins, RegistrationRefused
from worker.endpoints.grpc_servers import serve_until_cancelled
from worker.endpoints.unix_sockets import remove, short_name

FOLDER: Final = "device-plugins"
SOCKET: Final = "kubelet.sock"
_MODE: Final = 0o750
_AT_ONCE: Final = MOST_RESOURCES
"""Each resource connects once at a time."""
_MOST_BYTES: Final = 64 * 1024
_OPTIONS: Final = (("grpc.max_receive_message_length", _MOST_BYTES), ("grpc.so_reuseport", 0))


def clean_folder(folder: Path) -> None:
    """Make the folder, and remove the sockets in it; raises OSError."""
    folder.mkdir(mode=_MODE, parents=True, exist_ok=True)
    for path in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):
            if stat.S_ISSOCK(path.stat().st_mode):
                path.unlink()


async def serve_registration(root_dir: Path, plugins: DevicePlugins, counts: Counts) -> None:
    """Serve until cancelled; raises OSError and RuntimeError if the socket cannot be made."""
    folder = root_dir / FOLDER
    await asyncio.to_thread(clean_folder, folder)
    server = grpc.aio.server(maximum_concurrent_rpcs=_AT_ONCE, options=_OPTIONS)
    api_pb2_grpc.add_RegistrationServicer_to_server(Registration(folder, plugins, counts), server)
    with short_name(folder / SOCKET) as short:
        try:
            server.add_insecure_port(f"unix:{short}")
            await serve_until_cancelled(server)
        finally:
            remove(folder / SOCKET)


class Registration(api_pb2_grpc.RegistrationServicer):  # type: ignore[misc]  # generated without types
    """The service."""

    def __init__(self, folder: Path, plugins: DevicePlugins, counts: Counts) -> None:
        self._folder, self._plugins, self._counts = folder, plugins, counts

    async def Register(self, request: api.RegisterRequest, context: Any) -> api.Empty:  # noqa: N802 - gRPC's name
        """Register a plugin, whose socket is in the same folder."""
        socket = _inside(self._folder, request.endpoint)
        try:
            await self._plugins.register(request.resource_name, socket, [request.version])
        except (RegistrationRefused, DevicePluginError) as error:
            self._plugins.news.refused(request.resource_name[:300], socket[:300], str(error))
            await context.abort(grpc.StatusCode.UNKNOWN, str(error))
        self._counts.registered(request.resource_name)
        return api.Empty()


def _inside(folder: Path, endpoint: str) -> str:
    """Join as Go does; an endpoint is a name in the folder, and may be anything that a plugin sends."""
    return os.path.normpath(f"{folder}/{endpoint}")
