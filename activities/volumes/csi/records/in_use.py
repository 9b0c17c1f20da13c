"""Lists the attachable volumes in use on this node, for the Node's status.volumesInUse: CSI's, and disks of iSCSI and Fibre Channel.

Used by the node process for each status. While a volume is listed, the attach/detach controller does not detach it
(pkg/kubelet/nodestatus VolumesInUse). Read from the records that the worker writes before it calls a driver, and from its list of
volumes that pods wait for.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from activities.volumes.csi.records.layout import ATTACHABLE, DATA, ESCAPED_PLUGIN, NOT_ATTACHABLE, unique_name
from proto.volumes_in_use import UNIQUE_NAME, wanted_volumes

_EPHEMERAL: Final = "Ephemeral"
"""The lifecycle of volumes that are never attached.

A constant of its own, so that the node process need not import `volume`.
"""
_DISKS: Final = ("pods/*/plugins/kubernetes.io~iscsi/*.json", "pods/*/plugins/kubernetes.io~fc/*.json")
"""Records of disks, which have their names (`activities.volumes.disks.attached_disk`)."""
_PLACES: Final = (f"pods/*/volumes/{ESCAPED_PLUGIN}/*/{DATA}", f"plugins/kubernetes.io/csi/volumeDevices/*/data/{DATA}")


def volumes_in_use(root_dir: Path) -> list[str]:
    """List them by the controller's names, each once; an unreadable record is skipped. Blocks on files."""
    found = set(wanted_volumes(root_dir))
    for pattern in (*_PLACES, *_DISKS):
        for file in root_dir.glob(pattern):
            try:
                record = json.loads(file.read_bytes())
                found.update(_names(record, disk=pattern in _DISKS))
            except (OSError, ValueError, KeyError, TypeError, AttributeError):
                continue
    return sorted(found)


def _names(record: Mapping[str, Any], *, disk: bool) -> Iterator[str]:
    """Yield the name of a recorded volume.

    None of one that is ephemeral or was mounted without being attached, or of a disk that an earlier version has recorded.
    """
    if disk:
        yield from (one for one in [record.get(UNIQUE_NAME)] if isinstance(one, str))
    elif record.get("volumeLifecycleMode") != _EPHEMERAL and record.get(ATTACHABLE) != NOT_ATTACHABLE:
        yield unique_name(record["driverName"], record["volumeHandle"])
