"""A plugin's answer to Allocate: how a container uses its devices, and what it is created with for that."""

from dataclasses import replace

from google.protobuf.message import DecodeError

from activities.hardware.services import ContainerHardware
from proto.cri.v1 import api_pb2 as cri
from workflows.decide.devices.answers import DeviceMount, DeviceNode, Usage


def usage(answer: bytes) -> Usage:
    """Decode an answer; one that cannot be decoded says nothing, as in the kubelet."""
    from proto.deviceplugin.v1beta1 import api_pb2 as api  # noqa: PLC0415 - for whom has plugins

    try:
        found = api.ContainerAllocateResponse.FromString(answer)
    except DecodeError:
        return Usage()
    return Usage(
        dict(found.envs),
        tuple(DeviceMount(one.container_path, one.host_path, one.read_only) for one in found.mounts),
        tuple(DeviceNode(one.container_path, one.host_path, one.permissions) for one in found.devices),
        dict(found.annotations),
        tuple(one.name for one in found.cdi_devices),
    )


def added(made: ContainerHardware, uses: Usage) -> ContainerHardware:
    """Add to what a container is created with; what is there already wins."""
    mounts = (
        cri.Mount(container_path=one.container_path, host_path=one.host_path, readonly=one.read_only)
        for one in uses.mounts
    )
    devices = (
        cri.Device(container_path=one.container_path, host_path=one.host_path, permissions=one.permissions)
        for one in uses.devices
    )
    return replace(
        made,
        environment={**uses.env, **made.environment},
        mounts=(*made.mounts, *mounts),
        devices=(*made.devices, *devices),
        annotations={**uses.annotations, **made.annotations},
        cdi_devices=(*made.cdi_devices, *uses.cdi_devices),
    )
