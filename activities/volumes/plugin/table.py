"""Every type of volume that this version mounts: the name of its field in the spec, and what does it.

One more type is one file beside this one and one line here; its fields are taken in `workflows/decide/manifest/supported_volumes.py`
and judged in `workflows/decide/manifest/validation/volumes.py`.
"""

from collections.abc import Mapping
from typing import Final

from activities.volumes.plugin.volume_type import VolumeType
from activities.volumes.types import (
    config_map,
    csi,
    downward_api,
    empty_dir,
    fc,
    host_path,
    image,
    iscsi,
    nfs,
    projected,
    secret,
)
from activities.volumes.types import persistent_volume_claim as persistent_volumes

VOLUME_TYPES: Final[Mapping[str, VolumeType]] = {
    "emptyDir": empty_dir.TYPE,
    "hostPath": host_path.TYPE,
    "csi": csi.TYPE,
    "persistentVolumeClaim": persistent_volumes.TYPE,
    "ephemeral": persistent_volumes.EPHEMERAL,
    "image": image.TYPE,
    "nfs": nfs.TYPE,
    "iscsi": iscsi.TYPE,
    "fc": fc.TYPE,
    "configMap": config_map.TYPE,
    "secret": secret.TYPE,
    "downwardAPI": downward_api.TYPE,
    "projected": projected.TYPE,
}
