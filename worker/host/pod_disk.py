"""Measures a pod's usage of the node's disk as the kubelet does (pkg/kubelet/stats/helper.go calcEphemeralStorage).

Used by `local_storage` for a pod with limits. The runtime reports what containers write into their root file systems;
everything else is measured here. Volumes count if they are on the disk and written with the pod: emptyDir and configMap
(pkg/volume/util/util.go IsLocalEphemeralVolume). What is mounted below does not count. Termination messages count, too,
unlike in the kubelet: a container can write without limit into that file.
"""

from asyncio import to_thread
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from activities.node_services import NodeServices
from activities.volumes.plugin.table import VOLUME_PLUGINS, plugin_of
from activities.volumes.quotas.quotas import quota_use
from proto.kubernetes.resources.storage_limits import StorageLimits, is_more
from proto.pod_snapshot import PodSnapshot
from proto.temporal.pod import ContainerState, PodKey
from proto.temporal.signals import StorageExceeded

SOURCE: Final = "local-storage"
_EMPTY_DIR: Final = plugin_of("emptyDir")
_ON_DISK: Final = [one.plugin for one in VOLUME_PLUGINS.values() if one.ephemeral_storage and not one.in_memory]
IsEnough = Callable[[int], bool]
Count = Callable[[Path, IsEnough], Awaitable[int]]
"""Measures a folder until the limit is exceeded."""


class PodDisk:
    """One pod at one time; nothing is measured twice. Raises OSError, CriError and what `count` raises."""

    def __init__(self, services: NodeServices, pod: PodSnapshot, limits: StorageLimits, count: Count) -> None:
        """Take the pod, its limits, and the function that measures."""
        self._services, self._pod, self._limits, self._count = services, pod, limits, count
        self._paths = services.paths(PodKey(pod.namespace, pod.name, pod.uid))
        self._layers: dict[str, int] | None = None
        self._logs: dict[str, int] = {}

    async def volume(self) -> StorageExceeded | None:
        """Return the first emptyDir that exceeds its limit."""
        for name, limit in self._limits.empty_dirs.items():
            folder = self._paths.volumes(_EMPTY_DIR) / name
            used = await self._empty_dir(folder, lambda used, limit=limit: is_more(used, limit))  # type: ignore[misc]  # a default
            if is_more(used, limit):
                return StorageExceeded(SOURCE, name, used)
        return None

    async def whole(self) -> StorageExceeded | None:
        """Report whether the whole pod exceeds its limit."""
        if not (limit := self._limits.pod):
            return None
        layers = await self._running()
        total = sum(layers.values()) + await to_thread(_files, self._paths.etc_hosts)
        total += await self._count(self._paths.containers, lambda _: False)
        for name in layers:
            total += await self._written_logs(name)
        for plugin in _ON_DISK:
            if is_more(total, limit):
                break
            so_far = total
            total += await self._volumes(plugin, lambda used: is_more(so_far + used, limit))  # noqa: B023 - called at once
        return StorageExceeded(SOURCE, used_bytes=total) if is_more(total, limit) else None

    async def container(self) -> StorageExceeded | None:
        """Return a container that exceeds its limit: its logs and messages, and its writable layer if on the same disk."""
        if not self._limits.containers:
            return None
        layers = await self._running()
        counts_layers = not await self._images_have_a_disk()
        for name, layer in layers.items():
            used = await self._written_logs(name) + (layer if counts_layers else 0)
            used += await self._count(self._paths.container(name), lambda _: False)
            if is_more(used, self._limits.containers.get(name, "")):
                return StorageExceeded(SOURCE, used_bytes=used, container=name)
        return None

    async def _volumes(self, plugin: str, is_enough: IsEnough) -> int:
        """Measure all volumes of a type, each by its quota if it may have one."""
        folder = self._paths.volumes(plugin)
        if plugin != _EMPTY_DIR or not self._services.settings.monitors_quotas:
            return await self._count(folder, is_enough)
        total = 0
        for name in await to_thread(_names, folder):
            so_far = total
            total += await self._empty_dir(folder / name, lambda used: is_enough(so_far + used))  # noqa: B023 - called at once
        return total

    async def _empty_dir(self, folder: Path, is_enough: IsEnough) -> int:
        by_quota = await to_thread(quota_use, folder) if self._services.settings.monitors_quotas else None
        return await self._count(folder, is_enough) if by_quota is None else by_quota.used_bytes

    async def _running(self) -> dict[str, int]:
        """Return what running containers have written into their root file systems, by name."""
        if self._layers is None:
            ids = {one.container_id for one in self._pod.containers.values() if one.state == ContainerState.RUNNING}
            listed = await self._services.runtime.list_container_stats(self._pod.sandbox_id) if ids else ()
            self._layers = {
                one.attributes.metadata.name: one.writable_layer.used_bytes.value
                for one in listed
                if one.attributes.id in ids
            }
        return self._layers

    async def _written_logs(self, container: str) -> int:
        if container not in self._logs:
            self._logs[container] = await self._count(self._paths.container_logs(container), lambda _: False)
        return self._logs[container]

    async def _images_have_a_disk(self) -> bool:
        """Report whether images and writable layers are on another disk than pods (HasDedicatedImageFs)."""
        found = await self._services.runtime.image_fs_info()
        images, layers = (
            [Path(one.fs_id.mountpoint) for one in each[:1]]
            for each in (found.image_filesystems, found.container_filesystems)
        )
        return await to_thread(_is_elsewhere, images, layers, self._services.settings.root_dir)


def _is_elsewhere(images: list[Path], layers: list[Path], root_dir: Path) -> bool:
    """Report whether either lies elsewhere; layers of which nothing is told lie with the images."""
    pods = root_dir.stat().st_dev
    return not images or any(disk.stat().st_dev != pods for disk in (*images, *layers))


def _names(folder: Path) -> list[str]:
    """List the volumes of a type that lie on the disk: a volume in memory is mounted."""
    try:
        device = folder.lstat().st_dev
        return sorted(one.name for one in folder.iterdir() if one.lstat().st_dev == device)
    except FileNotFoundError:
        return []


def _files(path: Path) -> int:
    try:
        return path.lstat().st_blocks * 512
    except FileNotFoundError:
        return 0
