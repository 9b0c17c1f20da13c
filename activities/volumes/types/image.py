"""image: the files of an image, read-only (pkg/volume/image).

The workflow has it pulled like the images of containers, and the runtime mounts it into each container that asks for it
(CRI Mount.image), so nothing is to be done on the node itself.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from activities.clients.runtime import RuntimeClient
from activities.volumes.plugin.volume_type import Mounted, PodVolume, VolumeType
from proto.temporal.mounted import MountedVolume

_KNOWS_PATHS: Final = (2, 2)
"""The first containerd that shows one path of an image; one before it shows all of it and says nothing (containerd#11578)."""
_VERSION: Final = re.compile(r"v?(\d+)\.(\d+)")


class PathIgnored(ValueError):
    """The runtime would not act on the subPath of an image's mount."""


class Image:
    """image volumes."""

    async def mount(self, volume: PodVolume) -> Mounted:
        """Say that it is read-only, whatever a container's mount says."""
        return Mounted(MountedVolume(volume.name, read_only=True))

    async def unmount(self, volume: PodVolume) -> None:
        """Leave it to the runtime."""


async def check_image_paths(
    runtime: RuntimeClient, container: Mapping[str, Any], volumes: Sequence[MountedVolume]
) -> None:
    """Ask the runtime whether it can show a container one path of an image; raises PathIgnored and CriError."""
    images = {one.name for one in volumes if one.image}
    mounts = [one for one in container.get("volumeMounts") or () if one["name"] in images]
    if not any(one.get("subPath") or one.get("subPathExpr") for one in mounts):
        return
    told = await runtime.version()
    if ignores_paths(told.runtime_name, told.runtime_version):
        raise PathIgnored(
            f"{told.runtime_name} {told.runtime_version} takes no notice of the subPath of an image and would show all of "
            f"it; use containerd 2.2 or newer, or mount the image as a whole"
        )


def ignores_paths(runtime: str, version: str) -> bool:
    """Say whether a runtime is known to take no notice."""
    numbers = _VERSION.match(version)
    return runtime == "containerd" and numbers is not None and (int(numbers[1]), int(numbers[2])) < _KNOWS_PATHS


TYPE: Final[VolumeType] = Image()
