"""A container's volumeMounts and volumeDevices for the runtime (pkg/kubelet/kubelet_pods.go makeMounts); pure.

Used at each start, with the volumes that MountVolumes has returned.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from proto.cri.v1 import api_pb2 as cri
from proto.temporal.mounted import MountedVolume

_PROPAGATION: Final = {
    "": cri.MountPropagation.PROPAGATION_PRIVATE,
    "None": cri.MountPropagation.PROPAGATION_PRIVATE,
    "HostToContainer": cri.MountPropagation.PROPAGATION_HOST_TO_CONTAINER,
    "Bidirectional": cri.MountPropagation.PROPAGATION_BIDIRECTIONAL,
}
_READ: Final = "r"
_READ_WRITE: Final = "mrw"
Paths = Mapping[int, str]
"""Paths that are mounted instead of a whole volume (subPaths), by the index of the mount."""


class UnmountableVolume(ValueError):
    """A container cannot have one of its mounts; the message is the kubelet's."""


def is_covered(container: Mapping[str, Any], path: str) -> bool:
    """Report whether the container itself mounts something at exactly this path."""
    return any(one.get("mountPath") == path for one in container.get("volumeMounts") or ())


def volume_mounts(
    container: Mapping[str, Any], volumes: Sequence[MountedVolume], paths: Paths | None = None
) -> list[cri.Mount]:
    """Build the mounts of a container's volumes; `paths` are its subPaths. Raises UnmountableVolume."""
    known = {one.name: one for one in volumes if not one.device}
    built = []
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        volume = known.get(mount["name"])
        if volume is None:
            raise UnmountableVolume(
                f'cannot find volume "{mount["name"]}" to mount into container "{container.get("name", "")}"'
            )
        path = str(mount["mountPath"])
        shown = (paths or {}).get(index, volume.path)
        image = cri.ImageSpec(image=volume.image_ref, user_specified_image=volume.image) if volume.image else None
        built.append(
            cri.Mount(
                container_path=path if path.startswith("/") else f"/{path}",
                host_path="" if image else shown,
                image=image,
                image_sub_path=shown if image else "",
                readonly=bool(mount.get("readOnly")) or volume.read_only,
                recursive_read_only=is_recursive(mount, supported=volume.recursive_read_only),
                propagation=propagation(mount.get("mountPropagation") or ""),
                selinux_relabel=volume.selinux_relabel,
            )
        )
    return built


def is_recursive(mount: Mapping[str, Any], *, supported: bool) -> bool:
    """Report whether a mount is recursively read-only (resolveRecursiveReadOnly). Raises UnmountableVolume."""
    mode, name = mount.get("recursiveReadOnly") or "Disabled", mount["name"]
    if mode == "Disabled":
        return False
    asked = (
        f'failed to resolve recursive read-only mode: volume "{name}" requested recursive read-only mode, but it is not'
    )
    if not mount.get("readOnly"):
        raise UnmountableVolume(f"{asked} read-only")
    if (other := mount.get("mountPropagation") or "None") != "None":
        raise UnmountableVolume(f'{asked} compatible with propagation "{other}"')
    if mode == "Enabled" and not supported:
        raise UnmountableVolume(f"{asked} supported by the runtime")
    return supported


def propagation(mode: str) -> cri.MountPropagation:
    """Return CRI's value of a mountPropagation (translateMountPropagation). Raises UnmountableVolume."""
    if mode not in _PROPAGATION:
        raise UnmountableVolume(f'invalid MountPropagation mode: "{mode}"')
    return _PROPAGATION[mode]


def volume_devices(container: Mapping[str, Any], volumes: Sequence[MountedVolume]) -> list[cri.Device]:
    """Build the block devices of a container (makeBlockVolumes). Raises UnmountableVolume."""
    known = {one.name: one for one in volumes if one.device}
    built = []
    for device in container.get("volumeDevices") or ():
        volume, path = known.get(device["name"]), str(device["devicePath"])
        if not path.startswith("/"):
            raise UnmountableVolume(f"error DevicePath `{path}` must be an absolute path")
        if volume is None:
            raise UnmountableVolume(
                f'cannot find volume "{device["name"]}" to pass into container "{container.get("name", "")}"'
            )
        permissions = _READ if volume.read_only else _READ_WRITE
        built.append(cri.Device(container_path=path, host_path=volume.path, permissions=permissions))
    return built
