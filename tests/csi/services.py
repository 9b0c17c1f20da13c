"""The identity and controller services of the driver in `tests.csi.driver`: a volume that is created is a folder.

A node calls neither. The official sanity suite does (`tests/cluster/csi`), which needs volumes for its tests of the node service.
"""

import json
import shutil
from hashlib import sha256
from typing import Any

import grpc.aio
from google.protobuf.wrappers_pb2 import BoolValue

from proto.csi.v1 import csi_pb2 as csi
from proto.csi.v1 import csi_pb2_grpc
from tests.csi.orders import DriverFolder, Setup

_PROVISIONS = csi.ControllerServiceCapability.RPC.CREATE_DELETE_VOLUME
_SIZE = 1 << 20


class Identity(csi_pb2_grpc.IdentityServicer):  # type: ignore[misc]  # generated without types
    """The driver's identity service."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup

    async def GetPluginInfo(self, request: Any, context: Any) -> csi.GetPluginInfoResponse:  # noqa: N802, ARG002 - gRPC's names
        """Return its name."""
        return csi.GetPluginInfoResponse(name=self._setup.name, vendor_version="1")

    async def GetPluginCapabilities(self, request: Any, context: Any) -> csi.GetPluginCapabilitiesResponse:  # noqa: N802, ARG002 - gRPC's names
        """Say that it has a controller."""
        service = csi.PluginCapability.Service(type=csi.PluginCapability.Service.CONTROLLER_SERVICE)
        return csi.GetPluginCapabilitiesResponse(capabilities=[csi.PluginCapability(service=service)])

    async def Probe(self, request: Any, context: Any) -> csi.ProbeResponse:  # noqa: N802, ARG002 - gRPC's names
        """Say that it is ready."""
        return csi.ProbeResponse(ready=BoolValue(value=True))


class Controller(csi_pb2_grpc.ControllerServicer):  # type: ignore[misc]  # generated without types
    """The driver's controller service, which only creates and deletes volumes."""

    def __init__(self, folder: DriverFolder) -> None:
        self._made = folder.path / "made"
        self._folder = folder

    async def ControllerGetCapabilities(self, request: Any, context: Any) -> csi.ControllerGetCapabilitiesResponse:  # noqa: N802, ARG002 - gRPC's names
        """Return what it can do."""
        able = csi.ControllerServiceCapability(rpc=csi.ControllerServiceCapability.RPC(type=_PROVISIONS))
        return csi.ControllerGetCapabilitiesResponse(capabilities=[able])

    async def CreateVolume(self, request: Any, context: Any) -> csi.CreateVolumeResponse:  # noqa: N802 - gRPC's name
        """Create a volume; one of this name and size is found."""
        await require(context, request, "name", "volume_capabilities")
        handle = sha256(request.name.encode()).hexdigest()[:16]
        size = request.capacity_range.required_bytes or request.capacity_range.limit_bytes or _SIZE
        record = self._made / handle
        if record.exists() and json.loads(record.read_text()) != size:
            await context.abort(grpc.StatusCode.ALREADY_EXISTS, "there is one of this name and another size")
        self._folder.volume(handle).mkdir(parents=True, exist_ok=True)
        self._made.mkdir(exist_ok=True)
        record.write_text(json.dumps(size))
        return csi.CreateVolumeResponse(volume=csi.Volume(volume_id=handle, capacity_bytes=size))

    async def DeleteVolume(self, request: Any, context: Any) -> csi.DeleteVolumeResponse:  # noqa: N802 - gRPC's name
        """Delete a volume; one that is gone counts as deleted."""
        await require(context, request, "volume_id")
        if self._is_known(request.volume_id):
            shutil.rmtree(self._folder.volume(request.volume_id))
            (self._made / request.volume_id).unlink()
        return csi.DeleteVolumeResponse()

    async def ValidateVolumeCapabilities(self, request: Any, context: Any) -> csi.ValidateVolumeCapabilitiesResponse:  # noqa: N802 - gRPC's name
        """Confirm any of a volume that there is."""
        await require(context, request, "volume_id", "volume_capabilities")
        if not self._is_known(request.volume_id):
            await context.abort(grpc.StatusCode.NOT_FOUND, "there is no such volume")
        confirmed = csi.ValidateVolumeCapabilitiesResponse.Confirmed(volume_capabilities=request.volume_capabilities)
        return csi.ValidateVolumeCapabilitiesResponse(confirmed=confirmed)

    def _is_known(self, handle: str) -> bool:
        return "/" not in handle and (self._made / handle).is_file()


async def require(context: Any, request: Any, *fields: str) -> None:
    """Refuse a request without these fields, as CSI demands."""
    given = {one.name for one, _ in request.ListFields()}
    if lacking := [one for one in fields if one not in given]:
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"{lacking[0]} is required")
