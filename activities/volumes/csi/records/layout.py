"""Names of the folders and files by which CSI volumes are recorded on disk, as the kubelet has them, and our own.

A module of its own without imports: the poller and the node process read them, too.
"""

from typing import Final

ESCAPED_PLUGIN: Final = "kubernetes.io~csi"
DATA: Final = "vol_data.json"
ATTACHABLE: Final = "tempolet.dev/attachable"
"""In a record: `NOT_ATTACHABLE` says that the volume was mounted without being attached. Without it, the volume counts as attached."""
NOT_ATTACHABLE: Final = "false"
REPUBLISH: Final = "republish.json"
REPUBLISHED_DEVICES: Final = "plugins/tempolet.dev~republished"
"""In a pod's folder: a folder for each device to be published again. Beside its link, a kubelet would take it for a device."""


def unique_name(driver: str, handle: str) -> str:
    """Return a volume's name in the Node's status.volumesInUse (pkg/volume/util GetUniqueVolumeName)."""
    return f"kubernetes.io/csi/{driver}^{handle}"
