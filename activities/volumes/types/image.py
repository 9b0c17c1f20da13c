"""image: the files of an image, read-only (pkg/volume/image).

The workflow pulls it like a container's image, and the runtime mounts it into containers (CRI Mount.image), so nothing
has to be done on the node.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from activities.clients.runtime import RuntimeClient
from activities.volumes.plugin.volume_type import Mounted, PodVolume, VolumeType
from proto.temporal.mounted import MountedVolume

_KNOWS_PATHS: Final = (2, 2)
"""The first containerd that shows a subPath of an image.

Earlier ones show the whole image without an error (containerd#11578).
"""
_VERSION: Final = re.compile(r"v?(\d+)\.(\d+)")


class SubPathIgnored(ValueError):
    """The runtime would ignore the subPath of an image's mount."""


class Image:
    """image volumes."""

    async def mount(self, volume: PodVolume) -> Mounted:
        """Report that it is read-only, whatever a container's mount says."""
        return Mounted(MountedVolume(volume.name, read_only=True))

    async def unmount(self, volume: PodVolume) -> None:
        """Do nothing: the runtime unmounts it."""


async def check_image_sub_paths(
    runtime: RuntimeClient, container: Mapping[str, Any], volumes: Sequence[MountedVolume]
) -> None:
    """Check that the runtime supports subPaths of images if a container uses one; raises PathIgnored and CriError."""
    images = {one.name for one in volumes if one.image}
    mounts = [one for one in container.get("volumeMounts") or () if one["name"] in images]
    if not any(one.get("subPath") or one.get("subPathExpr") for one in mounts):
        return
    version = await runtime.version()
    if ignores_sub_paths(version.runtime_name, version.runtime_version):
        raise SubPathIgnored(
            f"{version.runtime_name} {version.runtime_version} ignores the subPath of an image and would show all of "
            f"it; use containerd 2.2 or newer, or mount the image as a whole"
        )


def ignores_sub_paths(runtime: str, version: str) -> bool:
    """Report whether a runtime is known to ignore subPaths of images."""
    numbers = _VERSION.match(version)
    return runtime == "containerd" and numbers is not None and (int(numbers[1]), int(numbers[2])) < _KNOWS_PATHS


TYPE: Final[VolumeType] = Image()
