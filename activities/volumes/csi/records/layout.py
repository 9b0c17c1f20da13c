"""Names of the folder and the file by which CSI volumes are recorded on disk, as the kubelet has them.

A module of its own without imports: the poller and the node process read them, too.
"""

from typing import Final

ESCAPED_PLUGIN: Final = "kubernetes.io~csi"
DATA: Final = "vol_data.json"


def unique_name(driver: str, handle: str) -> str:
    """Return a volume's name in the Node's status.volumesInUse (pkg/volume/util GetUniqueVolumeName)."""
    return f"kubernetes.io/csi/{driver}^{handle}"
