"""Volumes of clouds in a pod's spec: each is mounted as a PersistentVolume of the CSI driver that took its type over.

Used by the kubelet's rules (populator/desired_state_of_world_populator.go createVolumeSpec, csi-translation-lib). What was mounted is recorded as that of a
claim, so that it is unmounted without the spec.
"""

from typing import Final

from activities.files.pod_paths import UnsafeName
from activities.volumes.migration.handles import MigrationError
from activities.volumes.migration.translation import inline_volume
from activities.volumes.plugin.persistent_type import PersistentVolume
from activities.volumes.plugin.table import plugin_label
from activities.volumes.plugin.volume_type import Mounted, NotProcessed, PodVolume, VolumeType
from activities.volumes.types.persistent_volume_claim import PersistentVolumes, mount_persistent


class CloudVolumes(PersistentVolumes):
    """Volumes of one type."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    async def mount(self, volume: PodVolume) -> Mounted:
        """Mount it by its driver, which is told as by the kubelet whether it is read-only: by the access mode alone."""
        try:
            made = inline_volume({"name": volume.name, self._kind: volume.source}, volume.pod.namespace)
            name, spec = made["metadata"]["name"], made["spec"]
            found = PersistentVolume(name=name, type="csi", source=spec["csi"], access_modes=tuple(spec["accessModes"]))
            volume.timed.plugin = plugin_label(found.type, found.source)
            return await mount_persistent(volume, found)
        except (MigrationError, UnsafeName) as error:
            raise NotProcessed(str(error)) from error


AWS_ELASTIC_BLOCK_STORE: Final[VolumeType] = CloudVolumes("awsElasticBlockStore")
AZURE_DISK: Final[VolumeType] = CloudVolumes("azureDisk")
AZURE_FILE: Final[VolumeType] = CloudVolumes("azureFile")
CINDER: Final[VolumeType] = CloudVolumes("cinder")
GCE_PERSISTENT_DISK: Final[VolumeType] = CloudVolumes("gcePersistentDisk")
PORTWORX_VOLUME: Final[VolumeType] = CloudVolumes("portworxVolume")
VSPHERE_VOLUME: Final[VolumeType] = CloudVolumes("vsphereVolume")
