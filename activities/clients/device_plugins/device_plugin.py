"""The service of a device plugin as bounded calls (deviceplugin v1beta1).

Used by `worker/devices/`; imported when the first plugin registers. The kubelet waits for GetDevicePluginOptions,
GetPreferredAllocation and Allocate for ever, here each has a limit. What a plugin sends is limited in bytes, number and rate: it may
lie or be broken, and nobody else must suffer.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final

import grpc
import grpc.aio

from activities.clients.plugins.channel import UNDECODABLE, channel_options, in_words, unix_target
from proto.deviceplugin.v1beta1 import api_pb2 as api
from proto.deviceplugin.v1beta1 import api_pb2_grpc

CONNECT_SECONDS: Final = 10.0
OPTIONS_SECONDS: Final = 10.0
PREFERRED_SECONDS: Final = 30.0
ALLOCATE_SECONDS: Final = 60.0
PRE_START_SECONDS: Final = 30.0
"""KubeletPreStartContainerRPCTimeoutInSecs."""
MOST_BYTES: Final = 4 * 1024 * 1024
"""Of one message: the limit of Go's gRPC, which the kubelet has, too."""
MOST_DEVICES: Final = 10_000
LONGEST_ID: Final = 256
MOST_NODES: Final = 64
"""NUMA nodes of one device: more than a bit mask of the kubelet has."""
MOST_SETTINGS: Final = 1_000
"""Variables, mounts, devices and the like in one answer."""
LIST_PAUSE: Final = 0.1
"""Seconds between two lists of a plugin: it may send them faster, but they wait in its socket."""


class DevicePluginError(Exception):
    """A plugin failed, or sent what is beyond the limits; in the words of Go's gRPC where it has some."""


class DevicePlugin:
    """One connection to a plugin."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._plugin: Any = api_pb2_grpc.DevicePluginStub(channel)

    async def options(self) -> api.DevicePluginOptions:
        """Ask what it wants to be asked."""
        found: api.DevicePluginOptions = await _ask(self._plugin.GetDevicePluginOptions, api.Empty(), OPTIONS_SECONDS)
        return found

    async def lists(self) -> AsyncIterator[list[api.Device]]:
        """Yield each list of its devices; ends with the stream. Raises DevicePluginError."""
        stream = self._plugin.ListAndWatch(api.Empty())
        try:
            async for said in stream:
                if said is None:
                    raise DevicePluginError(UNDECODABLE)
                yield _checked(said.devices)
                await asyncio.sleep(LIST_PAUSE)
        except grpc.aio.AioRpcError as error:
            raise _worded(error) from error
        finally:
            stream.cancel()

    async def preferred(self, available: Iterable[str], must_include: Iterable[str], size: int) -> list[str]:
        """Ask which of the available devices it prefers."""
        wanted = api.ContainerPreferredAllocationRequest(
            available_deviceIDs=available, must_include_deviceIDs=must_include, allocation_size=size
        )
        request = api.PreferredAllocationRequest(container_requests=[wanted])
        answer = await _ask(self._plugin.GetPreferredAllocation, request, PREFERRED_SECONDS)
        return list(answer.container_responses[0].deviceIDs) if answer.container_responses else []

    async def allocate(self, devices: Iterable[str]) -> api.ContainerAllocateResponse:
        """Have devices prepared for a container, and ask how it uses them."""
        request = api.AllocateRequest(container_requests=[api.ContainerAllocateRequest(devices_ids=devices)])
        answer = await _ask(self._plugin.Allocate, request, ALLOCATE_SECONDS)
        if not answer.container_responses:
            raise DevicePluginError("no containers return in allocation response")
        found: api.ContainerAllocateResponse = answer.container_responses[0]
        settings = (found.envs, found.mounts, found.devices, found.annotations, found.cdi_devices)
        if any(len(one) > MOST_SETTINGS for one in settings):
            raise DevicePluginError(f"the allocation response has more than {MOST_SETTINGS} settings of a kind")
        return found

    async def pre_start(self, devices: Iterable[str]) -> None:
        """Have devices prepared for a start of their container."""
        request = api.PreStartContainerRequest(devices_ids=devices)
        await _ask(self._plugin.PreStartContainer, request, PRE_START_SECONDS)


@asynccontextmanager
async def plugin_connected(socket: str) -> AsyncIterator[DevicePlugin]:
    """Connect to the plugin behind a socket; raises DevicePluginError."""
    channel = grpc.aio.insecure_channel(unix_target(socket), options=channel_options(MOST_BYTES))
    try:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await channel.channel_ready()
        except TimeoutError:
            raise DevicePluginError("failed to dial device plugin: context deadline exceeded") from None
        yield DevicePlugin(channel)
    finally:
        await asyncio.shield(channel.close(None))


async def _ask(method: Any, request: Any, seconds: float) -> Any:
    try:
        answer = await method(request, timeout=seconds)
    except grpc.aio.AioRpcError as error:
        raise _worded(error) from error
    if answer is None:
        raise DevicePluginError(UNDECODABLE)
    return answer


def _worded(error: grpc.aio.AioRpcError) -> DevicePluginError:
    return DevicePluginError(in_words(error.code(), error.details() or ""))


def _checked(devices: Any) -> list[api.Device]:
    if len(devices) > MOST_DEVICES:
        raise DevicePluginError(f"it lists {len(devices)} devices, more than {MOST_DEVICES}")
    for one in devices:
        if len(one.ID) > LONGEST_ID:
            raise DevicePluginError(f"it lists a device whose ID has more than {LONGEST_ID} characters")
        if len(one.topology.nodes) > MOST_NODES:
            raise DevicePluginError(f"it lists a device with more than {MOST_NODES} NUMA nodes: {one.ID}")
    return list(devices)
