"""The registration service of a node plugin (pluginregistration v1).

Imported when the first socket is found. The deadlines are the kubelet's (pluginmanager operation_generator.go).
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio

from activities.clients.plugins.channel import UNDECODABLE, channel_options, unix_target
from proto.messages import shorten
from proto.pluginregistration.v1 import api_pb2 as registration
from proto.pluginregistration.v1 import api_pb2_grpc

_MOST_BYTES: Final = 64 * 1024
_CONNECT_SECONDS: Final = 10.0
_INFO_SECONDS: Final = 1.0
_NOTIFY_SECONDS: Final = 5.0


class PluginUnreachable(Exception):
    """The plugin behind a socket does not answer in time."""


class Plugin:
    """A connection to a plugin's registration service."""

    def __init__(self, socket: Path, channel: grpc.aio.Channel) -> None:
        self._socket = socket
        self._plugin: Any = api_pb2_grpc.RegistrationStub(channel)

    async def info(self) -> registration.PluginInfo:
        """Ask for the plugin's type, name and endpoint."""
        answer: registration.PluginInfo = await self._ask(
            self._plugin.GetInfo, registration.InfoRequest(), _INFO_SECONDS
        )
        return answer

    async def notify(self, error: str = "") -> None:
        """Notify the plugin that it is registered, or why not."""
        status = registration.RegistrationStatus(plugin_registered=not error, error=error)
        await self._ask(self._plugin.NotifyRegistrationStatus, status, _NOTIFY_SECONDS)

    async def _ask(self, method: Any, request: Any, seconds: float) -> Any:
        try:
            answer = await method(request, timeout=seconds)
        except grpc.aio.AioRpcError as error:
            details = shorten(error.details() or error.code().name)
            raise PluginUnreachable(f"the plugin at {self._socket} did not answer: {details}") from error
        if answer is None:
            raise PluginUnreachable(f"the plugin at {self._socket} did not answer: {UNDECODABLE}")
        return answer


@asynccontextmanager
async def plugin_at(socket: Path) -> AsyncIterator[Plugin]:
    """Connect to the plugin behind a socket; raises PluginUnreachable if nothing listens there."""
    channel = grpc.aio.insecure_channel(unix_target(str(socket)), options=channel_options(_MOST_BYTES))
    try:
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                await channel.channel_ready()
        except TimeoutError:
            raise PluginUnreachable(f"nothing answers at {socket}") from None
        yield Plugin(socket, channel)
    finally:
        await asyncio.shield(channel.close(None))
