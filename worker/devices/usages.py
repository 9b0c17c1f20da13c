"""A plugin's answer to Allocate, decoded: how a container uses its devices."""

from google.protobuf.message import DecodeError

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
