"""Disk usage of the node by owner: images, writable layers, logs, volumes. Used by `node_stats` for the summary."""

import asyncio
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from activities.clients.runtime import RuntimeClient
from activities.files.mounts import mounts_below
from proto.cri.v1 import api_pb2 as cri
from worker.daemon.config import NodeConfig
from worker.settings.kubelet.feature_gates import QUOTA_GATE
from worker.stats.cgroups.pod_readings import NodeReading
from worker.stats.disks.filesystems import FileSystem, file_system_of
from worker.stats.disks.log_use import FileUsage, hosts_file_usage, log_usage
from worker.stats.disks.pod_files import PodFile, PodFiles
from worker.stats.disks.volume_counts import VolumeCounts, count_volumes
from worker.stats.disks.volumes import Volume, Volumes, VolumeUsage, volumes_of

_NANOSECOND: Final = 10**9


@dataclass(frozen=True, slots=True)
class WritableLayer:
    """A container's writable layer, as the runtime reports it."""

    at: float
    disk: FileSystem | None
    used_bytes: int
    inodes: int


@dataclass(frozen=True, slots=True)
class PodDisks:
    """Disk usage of pods: layers and logs by container id, the rest by the pod's UID."""

    layers: Mapping[str, WritableLayer] = field(default_factory=dict)
    logs: Mapping[str, FileUsage] = field(default_factory=dict)
    hosts: Mapping[str, FileUsage] = field(default_factory=dict)
    volumes: Mapping[str, Mapping[Volume, VolumeUsage]] = field(default_factory=dict)


class UsedDisk(NamedTuple):
    """The disk of images or of writable layers, and how much of it they use."""

    disk: FileSystem | None = None
    used_bytes: int = 0
    inodes: int = 0


class RuntimeDisks(NamedTuple):
    """The runtime's disks; the same for both unless it splits them."""

    images: UsedDisk = UsedDisk()
    containers: UsedDisk = UsedDisk()


class NodeDisks:
    """The disks of one node; used from one event loop."""

    def __init__(
        self, config: NodeConfig, runtime: RuntimeClient, pods: PodFiles, volumes: Volumes | None = None
    ) -> None:
        """Take the node's configuration, the client of the runtime, the pods' files, and what measures volumes."""
        self._config, self._runtime, self._pods = config, runtime, pods
        self._volumes = volumes or Volumes()
        self._places: list[Path] = []

    async def file_systems(self) -> list[FileSystem]:
        """Read the file systems of pods and images, each once; raises CriError if the runtime was never reached."""
        if not self._places:
            answer = await self._runtime.image_fs_info()
            listed = (*answer.image_filesystems, *answer.container_filesystems)
            self._places = list(dict.fromkeys(Path(one.fs_id.mountpoint) for one in listed))
        found = await asyncio.to_thread(_read_all, [self._config.root_dir, *self._places])
        return list({one.device_id: one for one in found}.values())

    async def of(self, read: NodeReading) -> PodDisks:
        """Return the disk usage of these pods; raises CriError, OSError."""
        uids = {pod.sandbox.pod_uid for pod in read.pods}
        volumes = await self._volumes.measure(await asyncio.to_thread(self._held, uids))
        layers = await self._layers()
        return await asyncio.to_thread(self._counted, read, layers, volumes)

    async def volumes(self) -> tuple[dict[Volume, VolumeUsage], VolumeCounts]:
        """Measure the volumes that have a PersistentVolumeClaim, and count all volumes by plugin."""
        claimed, counts = await asyncio.to_thread(self._claimed)
        return await self._volumes.measure(claimed), counts

    async def of_runtime(self) -> RuntimeDisks:
        """Measure the disks of images and writable layers; raises CriError."""
        answer = await self._runtime.image_fs_info()
        if not answer.image_filesystems:
            return RuntimeDisks()
        images = await asyncio.to_thread(_used, answer.image_filesystems[0])
        if not answer.container_filesystems:
            return RuntimeDisks(images, images)
        layers = await asyncio.to_thread(_used, answer.container_filesystems[0])
        is_split = images.disk and layers.disk and images.disk.device_id != layers.disk.device_id
        return RuntimeDisks(images, layers if is_split else images)

    def _claimed(self) -> tuple[list[Volume], VolumeCounts]:
        pods = self._pods.all()
        counts = count_volumes(self._config.root_dir, [one.pod for one in pods])
        return [one for one in self._listed(pods) if one.claim], counts

    def _held(self, uids: Collection[str]) -> list[Volume]:
        return self._listed(self._pods.all(uids))

    def _listed(self, pods: Iterable[PodFile]) -> list[Volume]:
        root_dir = self._config.root_dir
        points = frozenset(mounts_below(root_dir / "pods"))
        quotas = self._config.feature_gates.enabled(QUOTA_GATE)
        return [volume for pod in pods for volume in volumes_of(root_dir, pod.pod, points, quotas=quotas)]

    async def _layers(self) -> dict[str, WritableLayer]:
        stats = await self._runtime.list_container_stats("")
        places = {one.writable_layer.fs_id.mountpoint for one in stats if one.writable_layer.fs_id.mountpoint}
        disks = {place: await asyncio.to_thread(_read_one, Path(place)) for place in places}
        return {
            one.attributes.id: WritableLayer(
                one.writable_layer.timestamp / _NANOSECOND,
                disks.get(one.writable_layer.fs_id.mountpoint),
                one.writable_layer.used_bytes.value,
                one.writable_layer.inodes_used.value,
            )
            for one in stats
            if one.HasField("writable_layer")
        }

    def _counted(
        self, read: NodeReading, layers: dict[str, WritableLayer], volumes: dict[Volume, VolumeUsage]
    ) -> PodDisks:
        logs_dir, root_dir = self._config.pod_logs_dir, self._config.root_dir
        logs = {one.owner.id: log_usage(logs_dir, one.owner) for pod in read.pods for one in pod.containers}
        hosts = {pod.sandbox.pod_uid: hosts_file_usage(root_dir, pod.sandbox.pod_uid) for pod in read.pods}
        by_pod: dict[str, dict[Volume, VolumeUsage]] = {}
        for volume, use in volumes.items():
            by_pod.setdefault(volume.pod_uid, {})[volume] = use
        return PodDisks(layers, logs, hosts, by_pod)


def _used(told: cri.FilesystemUsage) -> UsedDisk:
    """Read the disk of which the runtime tells."""
    return UsedDisk(_read_one(Path(told.fs_id.mountpoint)), told.used_bytes.value, told.inodes_used.value)


def _read_all(places: list[Path]) -> list[FileSystem]:
    """Read the file systems that can be read."""
    return [found for found in map(_read_one, places) if found is not None]


def _read_one(place: Path) -> FileSystem | None:
    """Read one; None if it cannot be read."""
    try:
        return file_system_of(place)
    except OSError:
        return None
