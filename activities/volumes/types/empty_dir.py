"""emptyDir: a folder that lives as long as its pod, on disk or in memory (pkg/volume/emptydir).

On disk it is a folder; in memory a tmpfs (or hugetlbfs) is mounted on it, with the smallest of the volume's sizeLimit,
the pod's memory limit and the node's allocatable memory as its size. Its content survives restarts of containers and
of the worker; in memory it is lost when the node restarts. A ready file beside the volume says that it is complete;
without it the volume is made again. The worker enforces a sizeLimit on disk (`worker/host/local_storage.py`). Where a project
quota counts it (`activities/volumes/quotas`), it has one as long as it is there.
"""

import asyncio
import errno
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from activities.files import mounts
from activities.files.file_trees import remove_tree
from activities.files.mounts import Mount
from activities.volumes.plugin.ownership import FsGroup, apply_fs_group, fs_group_of
from activities.volumes.plugin.table import plugin_of
from activities.volumes.plugin.volume_type import Mounted, PodVolume, VolumeFailed, VolumeType
from activities.volumes.quotas.quotas import assign_quota, clear_quota
from activities.volumes.quotas.rules import counts_by_quota, is_limited
from proto.kubernetes.resources.node_resources import NodeResources
from proto.kubernetes.resources.quantity import Quantity, QuantityError, parse_quantity
from proto.kubernetes.resources.resources import pod_resources
from proto.temporal.mounted import MountedVolume

PLUGIN: Final = plugin_of("emptyDir")
MEMORY: Final = "Memory"
HUGE_PAGES: Final = "HugePages"
_HUGE_PAGE_RESOURCE: Final = "hugepages-"
_FILE_SYSTEMS: Final = {MEMORY: "tmpfs", HUGE_PAGES: "hugetlbfs"}
_MODE: Final = 0o777
_FOLDER_MODE: Final = 0o750
_ANY_NODE: Final = NodeResources(memory_capacity=1)
"""For the pod's memory limit, which does not depend on the node."""


class EmptyDir:
    """emptyDir volumes; fsGroup is applied before one is marked as ready."""

    async def mount(self, volume: PodVolume) -> Mounted:
        """Find or make it."""
        directory = volume.directory(PLUGIN)
        found = await asyncio.to_thread(make, volume, directory)
        return Mounted(MountedVolume(volume.name, str(directory), selinux_relabel=True), found)

    async def unmount(self, volume: PodVolume) -> None:
        """Unmount it if it is in memory, and remove it with its content."""
        await asyncio.to_thread(remove, volume, volume.directory(PLUGIN))


def make(volume: PodVolume, directory: Path) -> bool:
    """Make the volume; returns whether it was there and ready. Raises VolumeFailed and OSError."""
    found = _found_or_made(volume, directory)
    if volume.services.settings.monitors_quotas and counts_by_quota(volume.pod_spec, volume.source):
        try:
            assign_quota(directory, limited=is_limited(volume.pod_spec, volume.source))
        except OSError as error:
            raise VolumeFailed(f"assign quota FAILED {error}") from error
    return found


def _found_or_made(volume: PodVolume, directory: Path) -> bool:
    medium, group = volume.source.get("medium") or "", fs_group_of(volume.pod_spec)
    there = directory.is_dir() and not directory.is_symlink()
    kind = file_system(medium)
    if there and ready_file(volume).exists() and (not kind or mounts.is_mount_point(directory)):
        return True
    _make_folder(directory)
    if kind:
        _mount(volume, directory, medium)
    if group:
        with suppress(OSError):  # the kubelet ignores it, too: the pod can still use the volume
            apply_fs_group(directory, FsGroup(group.group))
    ready = ready_file(volume)
    ready.parent.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
    ready.touch()
    return False


def remove(volume: PodVolume, directory: Path) -> None:
    """Undo `make`; raises StillMounted and OSError."""
    remove_tree(ready_file(volume).parent)
    if mounts.is_mount_point(directory):
        mounts.unmount(directory)
    else:
        with suppress(OSError):  # as in the kubelet; the next volume that gets a quota gives this one back
            clear_quota(directory)
    remove_tree(directory)


def ready_file(volume: PodVolume) -> Path:
    """Return the file that says that the volume is ready (pkg/volume/util/util.go SetReady)."""
    return volume.paths.plugin_state(PLUGIN) / volume.name / "ready"


def file_system(medium: str) -> str:
    """Return the file system for a medium, empty for the disk; raises VolumeFailed for an unknown medium."""
    if not medium:
        return ""
    if medium not in (MEMORY, HUGE_PAGES) and not medium.startswith(f"{HUGE_PAGES}-"):
        raise VolumeFailed(f'unknown storage medium "{medium}"')
    return _FILE_SYSTEMS[MEMORY if medium == MEMORY else HUGE_PAGES]


def memory_size(source: Mapping[str, Any], pod: Mapping[str, Any], allocatable: int) -> int:
    """Return the size of a volume in memory (calculateEmptyDirMemorySize); 0: the kernel's default."""
    limit = pod_resources(pod, _ANY_NODE).memory_limit if (pod.get("spec") or {}).get("containers") else None
    least = min(limit, allocatable) if limit and limit > 0 else allocatable
    own = parse_quantity(source.get("sizeLimit") or "0").value
    return min(own, least) if own > 0 else least


def page_size(medium: str, pod: Mapping[str, Any]) -> Quantity:
    """Return the page size of a volume (getPageSizeMountOption).

    Raises VolumeFailed if no container requests huge pages.
    """
    asked = list(dict.fromkeys(_page_sizes(pod)))
    wanted = _page_size_of(medium)
    if wanted is None and len(asked) > 1:
        raise VolumeFailed(f"medium: {medium} can't be used if container requests multiple huge page sizes")
    fitting = [one for one in asked if wanted in (None, one)]
    if not fitting:
        raise VolumeFailed(
            f"medium {medium}: hugePages storage requested, but there is no resource request for huge pages"
        )
    return fitting[0]


def _page_sizes(pod: Mapping[str, Any]) -> Iterator[Quantity]:
    spec = pod.get("spec") or {}
    for one in (spec, *spec.get("containers", ()), *spec.get("initContainers", ())):
        for name in (one.get("resources") or {}).get("requests") or {}:
            if name.startswith(_HUGE_PAGE_RESOURCE):
                yield parse_quantity(name.removeprefix(_HUGE_PAGE_RESOURCE))


def _page_size_of(medium: str) -> Quantity | None:
    size = medium.removeprefix(HUGE_PAGES).removeprefix("-")
    try:
        return parse_quantity(size) if size else None
    except QuantityError as error:
        raise VolumeFailed(f"medium {medium}: {error}") from error


def _make_folder(directory: Path) -> None:
    directory.parent.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
    with suppress(FileExistsError):
        directory.mkdir()
    if directory.is_symlink() or not directory.is_dir():
        raise NotADirectoryError(f"{directory} is not a directory; remove it, and the pod continues by itself")
    if directory.stat().st_mode & 0o777 != _MODE:  # the umask removed some bits
        directory.chmod(_MODE)


def _mount(volume: PodVolume, directory: Path, medium: str) -> None:
    """Mount the medium, unless an earlier try has mounted it."""
    there = mounts.mount_at(directory) if mounts.is_mount_point(directory) else None
    if there and there.kind == file_system(medium):
        if medium != MEMORY:
            _check_pages(there, directory, medium)
    elif medium == MEMORY:
        _mount_memory(directory, memory_size(volume.source, volume.pod_spec, _allocatable(volume)))
    else:
        _mount_pages(directory, medium, page_size(medium, volume.pod_spec).value)


def _mount_memory(directory: Path, size: int) -> None:
    """Mount a tmpfs of this size, excluded from swap where the kernel can do that (since 6.4)."""
    kind, options = _FILE_SYSTEMS[MEMORY], [f"size={size}"] if size > 0 else []
    try:
        mounts.mount(kind, directory, kind, options=[*options, "noswap"])
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        mounts.mount(kind, directory, kind, options=options)


def _mount_pages(directory: Path, medium: str, size: int) -> None:
    try:
        mounts.mount("nodev", directory, _FILE_SYSTEMS[HUGE_PAGES], options=[f"pagesize={size}"])
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENODEV):
            raise
        raise VolumeFailed(f"medium {medium}: this machine's kernel has no huge pages of {size} bytes") from error


def _allocatable(volume: PodVolume) -> int:
    settings = volume.services.settings
    value = settings.allocatable.get("memory")
    return settings.resources.memory_capacity if value is None else value.value


def _check_pages(there: Mount, directory: Path, medium: str) -> None:
    """Refuse a mounted page size that differs from the requested one (setupHugepages)."""
    wanted = _page_size_of(medium)
    value = next((one.removeprefix("pagesize=") for one in there.super_options if one.startswith("pagesize=")), "")
    if wanted is None or (value and parse_quantity(f"{value}i") == wanted):
        return
    raise VolumeFailed(f"mounted dir {directory} pagesize '{value}i' and requested medium {medium} differ")


TYPE: Final[VolumeType] = EmptyDir()
