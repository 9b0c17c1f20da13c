"""Builds CSI's requests for a volume (csi_client.go NodeStageVolume, NodePublishVolume); pure.

Imported with the first call to a driver: the message descriptors cost memory.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from activities.volumes.csi.records.volume import CsiVolume
from activities.volumes.plugin.selinux import label_option
from proto.csi.v1 import csi_pb2 as csi

_Rpc: Final = csi.NodeServiceCapability.RPC
STAGES: Final = _Rpc.STAGE_UNSTAGE_VOLUME
EXPANDS: Final = _Rpc.EXPAND_VOLUME
TAKES_GROUP: Final = _Rpc.VOLUME_MOUNT_GROUP
_MANY_WRITERS: Final = _Rpc.SINGLE_NODE_MULTI_WRITER
_Mode: Final = csi.VolumeCapability.AccessMode
_MODES: Final[Mapping[str, csi.VolumeCapability.AccessMode.Mode]] = {
    "ReadWriteOnce": _Mode.SINGLE_NODE_WRITER,
    "ReadOnlyMany": _Mode.MULTI_NODE_READER_ONLY,
    "ReadWriteMany": _Mode.MULTI_NODE_MULTI_WRITER,
    "ReadWriteOncePod": _Mode.SINGLE_NODE_WRITER,
}
_FINER_MODES: Final[Mapping[str, csi.VolumeCapability.AccessMode.Mode]] = {
    **_MODES,
    "ReadWriteOnce": _Mode.SINGLE_NODE_MULTI_WRITER,
    "ReadWriteOncePod": _Mode.SINGLE_NODE_SINGLE_WRITER,
}
"""For a driver that distinguishes one writer from several on a node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeRequest:
    """A volume, and what is known only when it is mounted."""

    volume: CsiVolume
    able: frozenset[int]
    """The driver's capabilities on this node."""
    fs_group: int | None = None
    publish_context: Mapping[str, str] = field(default_factory=dict)
    """The attachment's metadata; empty if the volume is not attached."""

    @property
    def stages(self) -> bool:
        """Report whether the driver stages volumes before publishing them."""
        return STAGES in self.able

    @property
    def driver_applies_group(self) -> bool:
        """Report whether the driver itself applies the pod's fsGroup."""
        return TAKES_GROUP in self.able


def stage_request(asking: VolumeRequest, staging: str, secrets: Mapping[str, str]) -> csi.NodeStageVolumeRequest:
    """Build the request that stages a volume on the node."""
    return csi.NodeStageVolumeRequest(
        volume_id=asking.volume.handle,
        publish_context=asking.publish_context,
        staging_target_path=staging,
        volume_capability=capability(asking),
        secrets=secrets,
        volume_context=asking.volume.attributes,
    )


def publish_request(
    asking: VolumeRequest, places: tuple[str, str], attributes: Mapping[str, str], secrets: Mapping[str, str]
) -> csi.NodePublishVolumeRequest:
    """Build the request that publishes a volume to a pod.

    `places` are the staging path, which may be empty, and the target path.
    """
    staging, target = places
    return csi.NodePublishVolumeRequest(
        volume_id=asking.volume.handle,
        publish_context=asking.publish_context,
        staging_target_path=staging,
        target_path=target,
        volume_capability=capability(asking),
        readonly=asking.volume.read_only,
        secrets=secrets,
        volume_context={**asking.volume.attributes, **attributes},
    )


def expand_request(
    asking: VolumeRequest, places: tuple[str, str], size: int, secrets: Mapping[str, str]
) -> csi.NodeExpandVolumeRequest:
    """Build the request that expands a volume to a size in bytes.

    `places` are the staging path, which may be empty, and the target path.
    """
    staging, target = places
    return csi.NodeExpandVolumeRequest(
        volume_id=asking.volume.handle,
        volume_path=target,
        capacity_range=csi.CapacityRange(required_bytes=size),
        staging_target_path=staging,
        volume_capability=capability(replace(asking, volume=replace(asking.volume, label=""))),
        secrets=secrets,
    )


def capability(asking: VolumeRequest) -> csi.VolumeCapability:
    """Return the requested volume capability; an access mode that CSI does not have becomes UNKNOWN."""
    volume = asking.volume
    modes = _FINER_MODES if _MANY_WRITERS in asking.able else _MODES
    mode = csi.VolumeCapability.AccessMode(mode=modes.get(volume.access_mode, _Mode.UNKNOWN))
    if volume.block:
        return csi.VolumeCapability(access_mode=mode, block=csi.VolumeCapability.BlockVolume())
    group = str(asking.fs_group) if asking.driver_applies_group and asking.fs_group is not None else ""
    mounted = csi.VolumeCapability.MountVolume(
        fs_type=volume.fs_type,
        mount_flags=[*volume.mount_options, *label_option(volume.label)],
        volume_mount_group=group,
    )
    return csi.VolumeCapability(access_mode=mode, mount=mounted)
