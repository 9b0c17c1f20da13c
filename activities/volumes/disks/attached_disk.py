"""Volumes whose disk is attached to the node first, shared by all pods that use it, and detached after the last one.

The common part of `iscsi` and `fc`, which only attach and detach. A pod's use of a disk is recorded in its folder
before anything is attached, so it can be undone without the spec or the claim. The users of a disk are found in the
mount table; for devices passed to containers, in a folder with a file for each pod
(`plugins/<plugin>/volumeDevices/<disk>/<pod uid>`, as in the kubelet).
"""

import asyncio
import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol

from activities.files import mounts
from activities.files.atomic_files import write_json
from activities.files.pod_paths import plain_name, plugin_folder
from activities.volumes.disks.mounting import bind_into_pod, mount_disk, other_mounts, unmount_and_remove
from activities.volumes.plugin.attaching import wait_in_node_status, wait_reported
from activities.volumes.plugin.persistent_type import PersistentVolume
from activities.volumes.plugin.selinux import LabelledVolume, LabelUser, check_label, label_option
from activities.volumes.plugin.volume_type import Mounted, PodVolume, Step, VolumeFailed, failing_at
from proto.temporal.mounted import MountedVolume
from proto.volumes_in_use import UNIQUE_NAME

Disk = dict[str, Any]
"""Identifies a disk, as recorded."""
_MODE: Final = 0o750
_LABEL: Final = "label"
_ASKED_LABEL: Final = "asked_label"


class DiskKind(Protocol):
    """How one kind of disk is attached."""

    plugin: str

    def read(self, source: Mapping[str, Any], name: str) -> Disk:
        """Read which disk a volume refers to; raises VolumeFailed."""
        ...

    def volume_name(self, source: Mapping[str, Any]) -> str:
        """Return the name that the attach/detach controller makes of a source which `read` takes (GetVolumeName)."""
        ...

    def place(self, disk: Disk) -> tuple[str, ...]:
        """Return the parts of the disk's path below the plugin's folder.

        Raises VolumeFailed if it would lead out of it.
        """
        ...

    async def attach(self, volume: PodVolume, disk: Disk) -> Path:
        """Find the disk's device or attach the disk; raises VolumeFailed and OSError."""
        ...

    async def detach(self, volume: PodVolume, disk: Disk) -> None:
        """Detach the disk; one that is gone counts as detached. Raises VolumeFailed and OSError."""
        ...


@dataclass(frozen=True, slots=True)
class _Wanted:
    """How a pod wants to use a disk."""

    disk: Disk
    read_only: bool
    kind: str = ""
    """Of the file system."""
    options: Sequence[str] = ()
    block: bool = False
    label: str = ""
    """The SELinux label that it is mounted with."""


class AttachedDisk:
    """Volumes of one kind of disk, in a pod's spec or by a claim."""

    takes_mount_options = True
    takes_block = True

    def __init__(self, kind: DiskKind) -> None:
        self._kind = kind

    async def mount(self, volume: PodVolume, persistent: PersistentVolume | None = None) -> Mounted:
        """Attach the disk, mount it for all pods, and bind it into this one."""
        source = persistent.source if persistent else volume.source
        disk = self._kind.read(source, volume.name)
        read_only = persistent.read_only if persistent else bool(source.get("readOnly"))
        wanted = _Wanted(disk, read_only, str(source.get("fsType") or ""))
        if persistent:
            wanted = _Wanted(disk, read_only, wanted.kind, persistent.mount_options, persistent.block)
        name = f"{self._kind.plugin}/{self._kind.volume_name(source)}"
        await self._attached(volume, name)
        async with volume.services.locks.hold(str(self._point(volume, disk))):
            labels = await asyncio.to_thread(self._labels, volume, disk, name, persistent)
            wanted = replace(wanted, label=labels.get(_LABEL, ""))
            record = {"disk": disk, "block": wanted.block, UNIQUE_NAME: name, **labels}
            await asyncio.to_thread(_remember, self._record(volume), record)
            return await (self._give(volume, wanted) if wanted.block else self._show(volume, wanted))

    async def unmount(self, volume: PodVolume, *, block: bool = False) -> None:  # noqa: ARG002 - it is written down
        """Unmount it from the pod, and detach it if no other pod uses it."""
        target, record = volume.directory(self._kind.plugin), self._record(volume)
        volume.services.csi.wanted.discard(str(target))
        written = await asyncio.to_thread(_recorded, record)
        await asyncio.to_thread(unmount_and_remove, target)
        if written is None:
            return
        disk: Disk = written["disk"]
        point, devices = self._point(volume, disk), self._devices(volume, disk)
        async with volume.services.locks.hold(str(point)):
            await asyncio.to_thread((devices / volume.pod.uid).unlink, missing_ok=True)
            if not await asyncio.to_thread(_is_used, point, devices, volume.services.settings.root_dir / "pods"):
                await asyncio.to_thread(unmount_and_remove, point)
                await asyncio.to_thread(_remove, devices)
                await self._kind.detach(volume, disk)
            await asyncio.to_thread(record.unlink, missing_ok=True)

    async def _attached(self, volume: PodVolume, name: str) -> None:
        """Wait until the cluster lists a disk as in use and attached, unless the pod has it; raises NotAttached.

        The controller has nothing to do for such a disk but to list it.
        """
        services, settings = volume.services, volume.services.settings
        if services.api is None or await asyncio.to_thread(self._record(volume).exists):
            return
        shown = f"volume {name}"
        services.csi.wanted.add(str(volume.directory(self._kind.plugin)), name)
        await wait_reported(settings.root_dir, name, settings.node_name, shown=shown)
        await wait_in_node_status(services.api, name, settings.node_name, shown=shown)

    async def _show(self, volume: PodVolume, wanted: _Wanted) -> Mounted:
        point, target = self._point(volume, wanted.disk), volume.directory(self._kind.plugin)
        if not await asyncio.to_thread(mounts.is_mount_point, point):
            await asyncio.to_thread(
                point.mkdir, _MODE, parents=True, exist_ok=True
            )  # a concurrent `detach` looks for it
            with failing_at(Step.ATTACH):
                device = await self._kind.attach(volume, wanted.disk)
            options = [*wanted.options, *(["ro"] if wanted.read_only else []), *label_option(wanted.label)]
            with failing_at(Step.DEVICE):
                await mount_disk(device, point, wanted.kind, options)
        found = await bind_into_pod(point, target, read_only=wanted.read_only)
        mounted = MountedVolume(volume.name, str(target), read_only=wanted.read_only, selinux_relabel=not wanted.label)
        return Mounted(mounted, found=found, needs_fs_group=not wanted.read_only)

    def _labels(self, volume: PodVolume, disk: Disk, name: str, persistent: PersistentVolume | None) -> dict[str, str]:
        """Choose the SELinux label to mount a disk with, as recorded; raises VolumeFailed.

        A disk that the pod has already keeps its label. An empty one is not recorded.
        """
        if (before := _recorded(self._record(volume))) is not None:
            return {key: str(before[key]) for key in (_LABEL, _ASKED_LABEL) if before.get(key)}
        if persistent is None or persistent.block or (asked := persistent.label) is None:
            return {}
        named = LabelledVolume(persistent.name, name, self._kind.plugin)
        check_label(named, asked, list(self._users(volume, disk)), volume.services.timings.labelled)
        labels = {_LABEL: asked.mounted, _ASKED_LABEL: asked.label}
        return {key: label for key, label in labels.items() if label}

    def _users(self, volume: PodVolume, disk: Disk) -> Iterator[LabelUser]:
        """Yield the pods that have a disk's files; a damaged record is skipped."""
        point = self._kind.place(disk)
        pattern = f"pods/*/plugins/{plugin_folder(self._kind.plugin)}/*.json"
        for file in volume.services.settings.root_dir.glob(pattern):
            with contextlib.suppress(OSError, LookupError, TypeError, AttributeError, VolumeFailed):
                written = _recorded(file)
                if written and not written.get("block") and self._kind.place(written["disk"]) == point:
                    leaving = volume.services.terminating.has(file.parents[2].name)
                    yield LabelUser(str(written.get(_ASKED_LABEL, "")), leaving)

    async def _give(self, volume: PodVolume, wanted: _Wanted) -> Mounted:
        used_by = self._devices(volume, wanted.disk) / volume.pod.uid
        found = await asyncio.to_thread(used_by.exists)
        await asyncio.to_thread(used_by.parent.mkdir, _MODE, parents=True, exist_ok=True)  # as in `_show`
        with failing_at(Step.ATTACH):
            device = await self._kind.attach(volume, wanted.disk)
        await asyncio.to_thread(used_by.touch)
        return Mounted(MountedVolume(volume.name, str(device), device=True, read_only=wanted.read_only), found=found)

    def _folder(self, volume: PodVolume) -> Path:
        return volume.services.settings.root_dir / "plugins" / self._kind.plugin

    def _point(self, volume: PodVolume, disk: Disk) -> Path:
        return self._folder(volume).joinpath(*self._kind.place(disk))

    def _devices(self, volume: PodVolume, disk: Disk) -> Path:
        return self._folder(volume).joinpath("volumeDevices", *self._kind.place(disk))

    def _record(self, volume: PodVolume) -> Path:
        return volume.paths.plugin_state(self._kind.plugin) / f"{plain_name(volume.name, 'volume name')}.json"


def path_component(part: str) -> str:
    """Return `part` if it is a single path component; raises VolumeFailed."""
    if not part or "/" in part or "\0" in part or part in (".", ".."):
        raise VolumeFailed(f"{part[:100]!r} is not a valid folder name")
    return part


def _remember(record: Path, content: Mapping[str, Any]) -> None:
    record.parent.mkdir(mode=_MODE, parents=True, exist_ok=True)
    write_json(record, content)


def _recorded(record: Path) -> dict[str, Any] | None:
    try:
        written: dict[str, Any] = json.loads(record.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise OSError(f"{record} is damaged: unmount and detach what its pod has, then remove it") from error
    return written


def _is_used(point: Path, devices: Path, pods: Path) -> bool:
    if devices.is_dir() and any(devices.iterdir()):
        return True
    return bool(other_mounts(point, pods))


def _remove(folder: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        folder.rmdir()
