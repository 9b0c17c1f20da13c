"""A small CSI driver: its volumes are folders, which it bind-mounts to the requested paths.

It runs as a process of its own, `python -m tests.csi.driver FOLDER REGISTRY`: it serves its node service in FOLDER and registers
in REGISTRY, as a driver's registrar does. A volume of volumeMode Block is a loop device over a file. `tests.csi.orders`
tells it how to behave at each call.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import grpc.aio
from google.protobuf.json_format import MessageToDict

from activities.files import mounts
from proto.csi.v1 import csi_pb2 as csi
from proto.csi.v1 import csi_pb2_grpc
from proto.pluginregistration.v1 import api_pb2 as registration
from proto.pluginregistration.v1 import api_pb2_grpc as registration_grpc
from tests.csi.orders import DriverFolder, Setup
from tests.csi.services import Controller, Identity, require

REQUIRED: Final = {
    "NodeStageVolume": ("volume_id", "staging_target_path", "volume_capability"),
    "NodeUnstageVolume": ("volume_id", "staging_target_path"),
    "NodePublishVolume": ("volume_id", "target_path", "volume_capability"),
    "NodeUnpublishVolume": ("volume_id", "target_path"),
    "NodeExpandVolume": ("volume_id", "volume_path"),
    "NodeGetVolumeStats": ("volume_id", "volume_path"),
}
"""The fields that CSI demands of each call."""


class Registrar(registration_grpc.RegistrationServicer):  # type: ignore[misc]  # generated without types
    """The registration service."""

    def __init__(self, folder: DriverFolder, setup: Setup) -> None:
        self._folder, self._setup = folder, setup

    async def GetInfo(self, _: Any, context: Any) -> registration.PluginInfo:  # noqa: N802, ARG002 - gRPC's names
        """Describe the driver."""
        return registration.PluginInfo(
            type=self._setup.kind,
            name=self._setup.name,
            endpoint=str(self._folder.path / "csi.sock"),
            supported_versions=self._setup.versions,
        )

    async def NotifyRegistrationStatus(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - gRPC's names
        """Record the outcome of the registration."""
        status = {"registered": request.plugin_registered, "error": request.error}
        self._folder.write_call("NotifyRegistrationStatus", status)
        return registration.RegistrationStatusResponse()


class Node(csi_pb2_grpc.NodeServicer):  # type: ignore[misc]  # generated without types
    """The driver's node service."""

    def __init__(self, folder: DriverFolder, setup: Setup) -> None:
        self._folder, self._setup = folder, setup
        self.called: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        """Set when a call of that kind has come."""
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._working = set[asyncio.Task[None]]()

    async def NodeGetInfo(self, request: Any, context: Any) -> csi.NodeGetInfoResponse:  # noqa: N802 - gRPC's name
        """Return the driver's id of this node."""
        await self._obey("NodeGetInfo", request, context)
        return csi.NodeGetInfoResponse(
            node_id=self._setup.node_id,
            max_volumes_per_node=self._folder.most_volumes,
            accessible_topology=csi.Topology(segments=self._setup.topology),
        )

    async def NodeGetCapabilities(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's name
        """Return the driver's capabilities."""
        await self._obey("NodeGetCapabilities", request, context)
        kinds = self._setup.capabilities
        able = [csi.NodeServiceCapability(rpc=csi.NodeServiceCapability.RPC(type=one)) for one in kinds]
        return csi.NodeGetCapabilitiesResponse(capabilities=able)

    async def NodeStageVolume(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's name
        """Stage a volume on the node."""
        die = await self._obey("NodeStageVolume", request, context)
        if not request.volume_capability.HasField("block"):
            staging = Path(request.staging_target_path)
            await self._carry_out(request, partial(_show, self._volume(request), staging, read_only=False))
        _die_if(die)
        return csi.NodeStageVolumeResponse()

    async def NodeUnstageVolume(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's name
        """Unstage a volume."""
        die = await self._obey("NodeUnstageVolume", request, context)
        await self._hide(request, Path(request.staging_target_path), context)
        await self._carry_out(request, partial(_detach, self._folder.volume(request.volume_id)))
        _die_if(die)
        return csi.NodeUnstageVolumeResponse()

    async def NodePublishVolume(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's name
        """Publish a volume for a pod."""
        die = await self._obey("NodePublishVolume", request, context)
        target = Path(request.target_path)
        if request.volume_capability.HasField("block"):
            await self._carry_out(request, partial(_show_device, self._volume(request), target))
        else:
            staged = Path(request.staging_target_path) if request.staging_target_path else self._volume(request)
            if request.staging_target_path and not mounts.is_mount_point(staged):
                await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "the volume is not staged")
            await self._carry_out(request, partial(_show, staged, target, read_only=request.readonly))
        _die_if(die)
        return csi.NodePublishVolumeResponse()

    async def NodeUnpublishVolume(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's name
        """Unpublish a volume."""
        die = await self._obey("NodeUnpublishVolume", request, context)
        target = Path(request.target_path)
        await self._hide(request, target, context)
        await self._carry_out(request, partial(_remove, target))
        _die_if(die)
        return csi.NodeUnpublishVolumeResponse()

    async def NodeExpandVolume(self, request: Any, context: Any) -> csi.NodeExpandVolumeResponse:  # noqa: N802 - gRPC's name
        """Expand a volume, which folders need not be."""
        die = await self._obey("NodeExpandVolume", request, context)
        if not Path(request.volume_path).exists():  # noqa: ASYNC240 - a folder of the test
            await context.abort(grpc.StatusCode.NOT_FOUND, "no volume is published there")
        _die_if(die)
        return csi.NodeExpandVolumeResponse(capacity_bytes=request.capacity_range.required_bytes)

    async def NodeGetVolumeStats(self, request: Any, context: Any) -> csi.NodeGetVolumeStatsResponse:  # noqa: N802 - gRPC's name
        """Return what the file system says, and the condition that a test has written."""
        await self._obey("NodeGetVolumeStats", request, context)
        if not Path(request.volume_path).exists():  # noqa: ASYNC240 - a folder of the test
            await context.abort(grpc.StatusCode.NOT_FOUND, "no volume is published there")
        disk, condition = os.statvfs(request.volume_path), self._folder.condition
        size, free = disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize
        by_unit = ((csi.VolumeUsage.BYTES, size, free), (csi.VolumeUsage.INODES, disk.f_files, disk.f_ffree))
        return csi.NodeGetVolumeStatsResponse(
            usage=[
                csi.VolumeUsage(unit=unit, total=total, available=left, used=total - left)
                for unit, total, left in by_unit
            ],
            volume_condition=csi.VolumeCondition(abnormal=bool(condition), message=condition or "it is well"),
        )

    def _volume(self, request: Any) -> Path:
        volume = self._folder.volume(request.volume_id)
        if not volume.exists():
            volume.mkdir(parents=True)
        return volume

    async def _carry_out(self, request: Any, work: Callable[[], object]) -> None:
        """Do what is blocking, one after the other for a volume, and to its end although the caller has gone, as a driver does."""

        async def carry_out() -> None:
            async with self._turns[request.volume_id]:
                await asyncio.to_thread(work)

        working = asyncio.create_task(carry_out())
        self._working.add(working)
        working.add_done_callback(self._working.discard)
        await asyncio.shield(working)

    async def _hide(self, request: Any, target: Path, context: Any) -> None:
        try:
            await self._carry_out(request, partial(mounts.unmount, target))
        except OSError as error:
            await context.abort(grpc.StatusCode.INTERNAL, f"unmount failed: {error.strerror}")

    async def _obey(self, call: str, request: Any, context: Any) -> bool:
        await require(context, request, *REQUIRED.get(call, ()))
        asked = MessageToDict(request)
        self._folder.write_call(call, asked)
        self.called[call].set()
        order = self._folder.order_for(call)
        while order.until and not Path(order.until).exists():  # noqa: ASYNC110, ASYNC240 - the order comes from another process
            await asyncio.sleep(0.02)
        if order.code:
            await context.abort(grpc.StatusCode[order.code], order.details)
        return order.die


def _die_if(die: bool) -> None:
    if die:
        os.kill(os.getpid(), signal.SIGKILL)


def _remove(target: Path) -> None:
    if target.is_dir():
        target.rmdir()
    else:
        target.unlink(missing_ok=True)


def _show(source: Path, target: Path, read_only: bool) -> None:
    target.mkdir(mode=0o750, parents=True, exist_ok=True)
    if not mounts.is_mount_point(target):
        mounts.bind(source, target, read_only=read_only)


def _show_device(volume: Path, target: Path) -> None:
    """Bind-mount a loop device over a file of the volume to the target."""
    backing = volume / "disk"
    if not backing.exists():
        backing.write_bytes(bytes(1 << 20))
    attached = _loop_devices(backing)
    device = attached[0] if attached else _said("losetup", "--find", "--show", str(backing)).strip()
    target.touch()
    if not mounts.is_mount_point(target):
        mounts.bind(Path(device), target)


def detach_all(driver: Path) -> None:
    """Detach the loop devices of all volumes of a driver's folder, also of those that were never unpublished."""
    for volume in (driver / "volumes").glob("*"):
        _detach(volume)


def _detach(volume: Path) -> None:
    for device in _loop_devices(volume / "disk"):
        subprocess.run(["losetup", "--detach", device], check=True)


def _loop_devices(backing: Path) -> list[str]:
    listed = _said("losetup", "--associated", str(backing), "--noheadings", "--output", "NAME")
    return listed.split() if backing.exists() else []


def _said(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


async def serve(folder: DriverFolder, registry: Path) -> None:
    """Serve until told to stop; the socket in the registry is removed, unless the process is killed."""
    setup = folder.read_setup()
    node, registrar = grpc.aio.server(), grpc.aio.server()
    csi_pb2_grpc.add_NodeServicer_to_server(Node(folder, setup), node)
    csi_pb2_grpc.add_IdentityServicer_to_server(Identity(setup), node)
    csi_pb2_grpc.add_ControllerServicer_to_server(Controller(folder), node)
    registration_grpc.add_RegistrationServicer_to_server(Registrar(folder, setup), registrar)
    socket = registry / f"{setup.name}-reg.sock"
    for server, path in ((node, folder.path / "csi.sock"), (registrar, socket)):
        path.unlink(missing_ok=True)
        server.add_insecure_port(f"unix://{path}")
        await server.start()
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    await ended.wait()
    socket.unlink(missing_ok=True)
    await registrar.stop(None)
    await node.stop(None)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(DriverFolder(Path(sys.argv[1])), Path(sys.argv[2])))
