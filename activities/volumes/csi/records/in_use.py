"""Which volumes of CSI drivers are in use on this node, for the Node's status.volumesInUse.

Asked by the node process at each look: as long as a volume stands there, the attach/detach controller does not take it away
(pkg/kubelet/nodestatus VolumesInUse). Read from what the worker remembers of each before it asks a driver for anything.
"""

import json
from pathlib import Path
from typing import Final

from activities.volumes.csi.records.layout import DATA, ESCAPED_PLUGIN

_EPHEMERAL: Final = "Ephemeral"
"""The lifecycle of a volume that nobody attaches (activities.volumes.csi.records.volume, which the node process can do without)."""
_PLACES: Final = (f"pods/*/volumes/{ESCAPED_PLUGIN}/*/{DATA}", f"plugins/kubernetes.io/csi/volumeDevices/*/data/{DATA}")


def volumes_in_use(root_dir: Path) -> list[str]:
    """Name them as the controller does, each once; one whose record can't be read is left out. Blocks on files."""
    found = set()
    for pattern in _PLACES:
        for file in root_dir.glob(pattern):
            try:
                said = json.loads(file.read_bytes())
                if said.get("volumeLifecycleMode") != _EPHEMERAL:
                    found.add(f"kubernetes.io/csi/{said['driverName']}^{said['volumeHandle']}")
            except (OSError, ValueError, KeyError, TypeError, AttributeError):
                continue
    return sorted(found)
