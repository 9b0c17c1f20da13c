"""Every type of volume that this version mounts, in one table.

A new type is a file in `activities/volumes/types/`, a row here, and a row in the rules for manifests. A row says all that
others need to know of a type; its code is imported when the first volume of that type is mounted, so that the poller and the
node process can read the table at little cost.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from activities.volumes.plugin.persistent_type import PersistentType
    from activities.volumes.plugin.volume_type import VolumeType

_TYPES: Final = "activities.volumes.types"


class Measured(Enum):
    """How the space that a volume takes is measured, for the kubelet's statistics."""

    NOT = "not"
    """It has no space of its own."""
    FILES = "files"
    """Its files are counted: it shares the file system of the pod's folder."""
    FILE_SYSTEM = "file system"
    """Its file system says it, where it is mounted."""


class Undo(Enum):
    """How an orphaned pod's volume is found and unmounted, when only the pod's folder is left."""

    REMOVE = "remove"
    """It has no mounts: it is removed with the pod's folder."""
    UNMOUNT_MEMORY = "unmount memory"
    """It may be a file system in memory at `volumes/<plugin>/<name>`, which only has to be unmounted."""
    BY_FOLDER = "by folder"
    """Its type undoes it, if `volumes/<plugin>/<name>` is there."""
    BY_RECORD = "by record"
    """Its type undoes it, if `plugins/<plugin>/<name>.json` is there."""
    BY_DRIVER = "by driver"
    """Its type undoes it, if it is recorded or a device as the kubelet keeps CSI volumes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumePlugin:
    """One type of volume, as it is known without its code."""

    plugin: str
    """The kubelet's name for it: in folders, and in the labels of metrics."""
    own: str = ""
    """`<module>:<name>` of the VolumeType for volumes in a pod's spec; empty: a pod's spec cannot have it."""
    persistent: str = ""
    """The same of the PersistentType for PersistentVolumes; empty: none can be made of it."""
    measured: Measured = Measured.NOT
    undo: Undo = Undo.REMOVE
    in_memory: bool = False
    """Its files never reach a disk."""
    ephemeral_storage: bool = False
    """It counts as the pod's ephemeral storage, unless it is in memory (pkg/volume/util IsLocalEphemeralVolume)."""


_FILES, _FILE_SYSTEM = Measured.FILES, Measured.FILE_SYSTEM
_CSI: Final = "kubernetes.io/csi"
_CLAIM: Final = "persistentVolumeClaim"
"""Stands for the plugin of a claim, which is known once the claim's volume is."""

VOLUME_PLUGINS: Final[Mapping[str, VolumePlugin]] = {
    "emptyDir": VolumePlugin(
        plugin="kubernetes.io/empty-dir",
        own="empty_dir:TYPE",
        measured=_FILES,
        undo=Undo.UNMOUNT_MEMORY,
        ephemeral_storage=True,
    ),
    "configMap": VolumePlugin(
        plugin="kubernetes.io/configmap", own="written:CONFIG_MAP", measured=_FILES, ephemeral_storage=True
    ),
    "secret": VolumePlugin(
        plugin="kubernetes.io/secret", own="written:SECRET", measured=_FILES, undo=Undo.UNMOUNT_MEMORY, in_memory=True
    ),
    "downwardAPI": VolumePlugin(
        plugin="kubernetes.io/downward-api",
        own="written:DOWNWARD_API",
        measured=_FILES,
        undo=Undo.UNMOUNT_MEMORY,
        in_memory=True,
        ephemeral_storage=True,
    ),
    "projected": VolumePlugin(
        plugin="kubernetes.io/projected",
        own="written:PROJECTED",
        measured=_FILES,
        undo=Undo.UNMOUNT_MEMORY,
        in_memory=True,
    ),
    "hostPath": VolumePlugin(plugin="kubernetes.io/host-path", own="host_path:TYPE", persistent="host_path:PERSISTENT"),
    "image": VolumePlugin(plugin="kubernetes.io/image", own="image:TYPE"),
    _CLAIM: VolumePlugin(plugin=_CLAIM, own="persistent_volume_claim:TYPE", measured=_FILE_SYSTEM),
    "ephemeral": VolumePlugin(plugin=_CLAIM, own="persistent_volume_claim:EPHEMERAL", measured=_FILE_SYSTEM),
    "csi": VolumePlugin(
        plugin=_CSI,
        own="csi:TYPE",
        persistent="csi:PERSISTENT",
        measured=_FILE_SYSTEM,
        undo=Undo.BY_DRIVER,
    ),
    "local": VolumePlugin(
        plugin="kubernetes.io/local-volume", persistent="local:PERSISTENT", measured=_FILE_SYSTEM, undo=Undo.BY_FOLDER
    ),
    "nfs": VolumePlugin(
        plugin="kubernetes.io/nfs",
        own="nfs:TYPE",
        persistent="nfs:PERSISTENT",
        measured=_FILE_SYSTEM,
        undo=Undo.BY_FOLDER,
    ),
    "iscsi": VolumePlugin(
        plugin="kubernetes.io/iscsi",
        own="iscsi:TYPE",
        persistent="iscsi:PERSISTENT",
        measured=_FILE_SYSTEM,
        undo=Undo.BY_RECORD,
    ),
    "fc": VolumePlugin(
        plugin="kubernetes.io/fc", own="fc:TYPE", persistent="fc:PERSISTENT", measured=_FILE_SYSTEM, undo=Undo.BY_RECORD
    ),
    # of clouds: PersistentVolumes of these types are translated before they are looked up here, and orphans are found as those of CSI
    "awsElasticBlockStore": VolumePlugin(plugin=_CSI, own="cloud:AWS_ELASTIC_BLOCK_STORE", measured=_FILE_SYSTEM),
    "azureDisk": VolumePlugin(plugin=_CSI, own="cloud:AZURE_DISK", measured=_FILE_SYSTEM),
    "azureFile": VolumePlugin(plugin=_CSI, own="cloud:AZURE_FILE", measured=_FILE_SYSTEM),
    "cinder": VolumePlugin(plugin=_CSI, own="cloud:CINDER", measured=_FILE_SYSTEM),
    "gcePersistentDisk": VolumePlugin(plugin=_CSI, own="cloud:GCE_PERSISTENT_DISK", measured=_FILE_SYSTEM),
    "portworxVolume": VolumePlugin(plugin=_CSI, own="cloud:PORTWORX_VOLUME", measured=_FILE_SYSTEM),
    "vsphereVolume": VolumePlugin(plugin=_CSI, own="cloud:VSPHERE_VOLUME", measured=_FILE_SYSTEM),
}
"""By the field of a volume in a pod's spec, or of a PersistentVolume's spec, that says its type."""


def kind_of(volume: Mapping[str, Any]) -> str:
    """Name the field that says the type of a volume in a pod's spec; empty when there is none."""
    return next((field for field in volume if field != "name"), "")


def plugin_of(kind: str) -> str:
    """Name the plugin of a type as the kubelet's labels do, also of one that is not in the table."""
    row = VOLUME_PLUGINS.get(kind)
    return row.plugin if row else f"kubernetes.io/{kind}"


def plugin_label(kind: str, source: Mapping[str, Any]) -> str:
    """Name a volume's plugin as the kubelet's labels do, CSI's with its driver (GetFullQualifiedPluginNameForVolume).

    Empty for what has to be looked up or translated first: claims, and volumes of clouds.
    """
    plugin, driver = plugin_of(kind), source.get("driver")
    if kind == "csi":
        return csi_label(str(driver)) if driver else plugin
    return "" if plugin in {_CLAIM, _CSI} else plugin


def csi_label(driver: str) -> str:
    """Name the plugin of a CSI driver's volumes, as the kubelet's labels do."""
    return f"{_CSI}:{driver}"


def volume_type(kind: str) -> "VolumeType | None":
    """Import what mounts volumes of this type that a pod's spec has; None when it cannot have any."""
    row = VOLUME_PLUGINS.get(kind)
    found: VolumeType | None = _imported(row.own) if row and row.own else None
    return found


def persistent_type(kind: str) -> "PersistentType | None":
    """Import what mounts PersistentVolumes of this type; None when there are none."""
    row = VOLUME_PLUGINS.get(kind)
    found: PersistentType | None = _imported(row.persistent) if row and row.persistent else None
    return found


@cache
def _imported(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(f"{_TYPES}.{module}"), name)
