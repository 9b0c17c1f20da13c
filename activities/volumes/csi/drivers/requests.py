"""What a driver is asked for a volume, as CSI's messages (csi_client.go NodeStageVolume, NodePublishVolume).

Pure. Imported with the first driver's call: the messages' descriptors cost memory.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from activities.volumes.csi.records.volume import CsiVolume
from proto.csi.v1 import csi_pb2 as csi

_Rpc: Final = csi.NodeServiceCapability.RPC
STAGES: Final = _Rpc.STAGE_UNSTAGE_VOLUME
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
"""For a driver that tells one writer from several on one node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """One volume, and what only the moment of its mounting knows."""

    volume: CsiVolume
    able: frozenset[int]
    """The driver's capabilities on this node."""
    fs_group: int | None = None
    publish_context: Mapping[str, str] = field(default_factory=dict)
    """What attaching it answered: nothing where nobody attaches."""

    @property
    def stages(self) -> bool:
        """Say whether the driver stages volumes before it publishes them."""
        return STAGES in self.able

    @property
    def group_is_drivers(self) -> bool:
        """Say whether the driver itself gives the files to the pod's fsGroup."""
        return TAKES_GROUP in self.able


def stage_request(asking: Asking, staging: str, secrets: Mapping[str, str]) -> csi.NodeStageVolumeRequest:
    """Ask for a volume to be brought onto the node."""
    return csi.NodeStageVolumeRequest(
        volume_id=asking.volume.handle,
        publish_context=asking.publish_context,
        staging_target_path=staging,
        volume_capability=capability(asking),
        secrets=secrets,
        volume_context=asking.volume.attributes,
    )


def publish_request(
    asking: Asking, places: tuple[str, str], attributes: Mapping[str, str], secrets: Mapping[str, str]
) -> csi.NodePublishVolumeRequest:
    """Ask for a volume to be brought into a pod; `places` are where it is staged (may be empty) and where it shall be."""
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


def capability(asking: Asking) -> csi.VolumeCapability:
    """Say how a volume is to be used; an access mode that CSI does not know is its UNKNOWN."""
    volume = asking.volume
    modes = _FINER_MODES if _MANY_WRITERS in asking.able else _MODES
    mode = csi.VolumeCapability.AccessMode(mode=modes.get(volume.access_mode, _Mode.UNKNOWN))
    if volume.block:
        return csi.VolumeCapability(access_mode=mode, block=csi.VolumeCapability.BlockVolume())
    group = str(asking.fs_group) if asking.group_is_drivers and asking.fs_group is not None else ""
    mounted = csi.VolumeCapability.MountVolume(
        fs_type=volume.fs_type, mount_flags=volume.mount_options, volume_mount_group=group
    )
    return csi.VolumeCapability(access_mode=mode, mount=mounted)
