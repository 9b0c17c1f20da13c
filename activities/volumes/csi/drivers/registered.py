"""The driver of a volume that is to be mounted, or what its pod is told while it is not registered: the kubelet's step and words.

A PersistentVolume of any driver goes through MountDevice or SetUpDevice first, which find out whether the driver stages volumes;
one that is on the node already, and a pod's own volume, are published only (csi_plugin.go CanDeviceMount, csi_attacher.go, csi_block.go).
"""

import asyncio
from typing import Final

from activities.clients.csi_drivers import CsiDrivers, Driver, DriverNotRegistered
from activities.files import mounts
from activities.volumes.csi.records.places import PLUGIN, Place
from activities.volumes.csi.records.volume import CsiVolume, Lifecycle
from activities.volumes.plugin.volume_type import Step, failed_at

_DOING: Final = {
    (Step.DEVICE, False): "attacher.MountDevice failed to create newCsiDriverClient",
    (Step.DEVICE, True): "blockMapper.SetUpDevice failed to get CSI client",
    (Step.PUBLISH, False): "mounter.SetUpAt failed to get CSI client",
    (Step.PUBLISH, True): "blockMapper.MapPodDevice failed to get CSI client",
}
"""By the step, and whether the volume is a device."""


async def registered(drivers: CsiDrivers, volume: CsiVolume, place: Place, *, again: bool = False) -> Driver:
    """Return the driver of a volume as soon as it is registered; raises VolumeFailed. `again`: the pod has the volume."""
    try:
        return await drivers.get(volume.driver)
    except DriverNotRegistered as missing:
        key = (volume.driver, volume.handle)
        on_node = again or key in drivers.staged or await asyncio.to_thread(_is_on_node, place, key)
        step = Step.PUBLISH if on_node or volume.lifecycle is Lifecycle.EPHEMERAL else Step.DEVICE
        raise failed_at(step, f"{PLUGIN}: {_DOING[step, volume.block]}: {missing}") from None


def _is_on_node(place: Place, key: tuple[str, str]) -> bool:
    return mounts.is_mount_point(place.target) or place.used_by_others(*key)
