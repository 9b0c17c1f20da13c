"""A device plugin for faults, in the test's own process; the official sample-device-plugin is used for all else."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc.aio

from proto.deviceplugin.v1beta1 import api_pb2 as api
from proto.deviceplugin.v1beta1 import api_pb2_grpc


@dataclass(slots=True)
class Faults:
    """What the plugin does wrong."""

    hangs: frozenset[str] = frozenset()
    """Calls that are never answered."""
    lists: Sequence[Sequence[api.Device]] = ()
    is_endless: bool = True
    """The stream stays open after the lists."""
    answer: api.AllocateResponse = field(default_factory=api.AllocateResponse)
    preferred: Sequence[str] | None = None
    is_prestarted: bool = False
    calls: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    more: asyncio.Queue[Sequence[api.Device]] = field(default_factory=asyncio.Queue)


class Plugin(api_pb2_grpc.DevicePluginServicer):  # type: ignore[misc]  # generated without types
    """The service."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults

    async def GetDevicePluginOptions(self, _: Any, context: Any) -> Any:  # noqa: N802, ARG002 - gRPC's
        """Tell what it wants."""
        await self._called("GetDevicePluginOptions")
        return api.DevicePluginOptions(
            pre_start_required=self._faults.is_prestarted,
            get_preferred_allocation_available=self._faults.preferred is not None,
        )

    async def ListAndWatch(self, _: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802, ARG002 - gRPC's
        """List devices."""
        await self._called("ListAndWatch")
        for devices in self._faults.lists:
            yield api.ListAndWatchResponse(devices=devices)
        while self._faults.is_endless:
            yield api.ListAndWatchResponse(devices=await self._faults.more.get())

    async def GetPreferredAllocation(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - gRPC's
        """Prefer devices."""
        await self._called("GetPreferredAllocation", request.container_requests[0].available_deviceIDs)
        chosen = api.ContainerPreferredAllocationResponse(deviceIDs=self._faults.preferred)
        return api.PreferredAllocationResponse(container_responses=[chosen])

    async def Allocate(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - gRPC's
        """Give devices."""
        await self._called("Allocate", request.container_requests[0].devices_ids)
        return self._faults.answer

    async def PreStartContainer(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - gRPC's
        """Prepare a start."""
        await self._called("PreStartContainer", request.devices_ids)
        return api.PreStartContainerResponse()

    async def _called(self, name: str, devices: Sequence[str] = ()) -> None:
        self._faults.calls.append((name, tuple(devices)))
        if name in self._faults.hangs:
            await asyncio.Event().wait()


@asynccontextmanager
async def serving(socket: Path, faults: Faults) -> AsyncIterator[Faults]:
    """Serve the plugin."""
    server = grpc.aio.server()
    api_pb2_grpc.add_DevicePluginServicer_to_server(Plugin(faults), server)
    server.add_insecure_port(f"unix://{socket}")
    await server.start()
    try:
        yield faults
    finally:
        await server.stop(None)


def devices(*names: str, health: str = "Healthy", node: int | None = None) -> list[api.Device]:
    """Build devices."""
    nodes = [] if node is None else [api.NUMANode(ID=node)]
    return [api.Device(ID=name, health=health, topology=api.TopologyInfo(nodes=nodes)) for name in names]
