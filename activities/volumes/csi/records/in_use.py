"""Lists the CSI volumes in use on this node, for the Node's status.volumesInUse.

Used by the node process for each status. While a volume is listed, the attach/detach controller does not detach it
(pkg/kubelet/nodestatus VolumesInUse). Read from the records that the worker writes before it calls a driver, and from its list of
volumes that pods wait for.
"""

import json
from pathlib import Path
from typing import Final

from activities.volumes.csi.records.layout import DATA, ESCAPED_PLUGIN, unique_name
from proto.volumes_in_use import wanted_volumes

_EPHEMERAL: Final = "Ephemeral"
"""The lifecycle of volumes that are never attached.

A constant of its own, so that the node process need not import `volume`.
"""
_PLACES: Final = (f"pods/*/volumes/{ESCAPED_PLUGIN}/*/{DATA}", f"plugins/kubernetes.io/csi/volumeDevices/*/data/{DATA}")


def volumes_in_use(root_dir: Path) -> list[str]:
    """List them by the controller's names, each once; an unreadable record is skipped. Blocks on files."""
    found = set(wanted_volumes(root_dir))
    for pattern in _PLACES:
        for file in root_dir.glob(pattern):
            try:
                record = json.loads(file.read_bytes())
                if record.get("volumeLifecycleMode") != _EPHEMERAL:
                    found.add(unique_name(record["driverName"], record["volumeHandle"]))
            except (OSError, ValueError, KeyError, TypeError, AttributeError):
                continue
    return sorted(found)
