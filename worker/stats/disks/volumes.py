"""Usage of a pod's volumes (pkg/kubelet/server/stats/volume_stat_calculator.go, pkg/volume/metrics_*.go).

Volumes that the node writes (emptyDir, configMap, secret …) are counted file by file, and cached for a minute, as in the
kubelet. CSI volumes are asked of their drivers (`csi_volumes`), block devices among them. For other mounted volumes the file
system reports it. A hostPath is not a volume of its own, and other block devices have no file system: neither is reported.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Container, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from activities.files.disk_use import Count, CountTimedOut, count_files
from activities.files.pod_paths import CLAIMS, plugin_folder
from activities.volumes.csi.records.layout import ESCAPED_PLUGIN
from activities.volumes.plugin.table import VOLUME_PLUGINS, Measured
from activities.volumes.quotas.quotas import quota_use
from activities.volumes.quotas.rules import counts_by_quota
from proto.kubernetes.claims import claim_of
from worker.stats.cgroups.usage import folders
from worker.stats.disks.bounded_reads import BoundedReads
from worker.stats.disks.csi_volumes import CsiReads, CsiUsage, CsiVolume, Timed, recorded_volume
from worker.stats.disks.filesystems import file_system_of

KEEP: Final = 60.0
"""The default of KubeletConfiguration volumeStatsAggPeriod."""
WAIT: Final = 3.0
"""Seconds that a request waits for volumes."""
_LONGEST_COUNT: Final = 20.0
_DEVICES: Final = "plugins/kubernetes.io/csi/volumeDevices"


class VolumeUsage(NamedTuple):
    """Usage of one volume; bytes and counts."""

    at: float
    capacity: int
    available: int
    used: int
    inodes: int
    inodes_free: int
    inodes_used: int
    abnormal: bool | None = None
    """A driver says that something is wrong with it, or nothing; None: nobody was asked."""


class Volume(NamedTuple):
    """One volume of one pod that can be measured."""

    pod_uid: str
    namespace: str
    pod_name: str
    name: str
    claim: str
    """Name of its PersistentVolumeClaim, or ""."""
    is_local: bool
    folder: Path
    is_written: bool
    has_quota: bool = False
    """A project quota counts its files, where the file system and this process's rights allow it."""
    csi: CsiVolume | None = None
    """Its driver has to be asked."""

    def measure(self, timed: Timed = lambda *_: None) -> VolumeUsage:
        """Read or count it; blocks. Raises OSError, also if it is not mounted yet. `timed` takes how, and how long."""
        start, by_quota = time.perf_counter(), quota_use(self.folder) if self.has_quota else None
        try:
            return self._measured(by_quota)
        finally:
            timed(
                ("du" if by_quota is None else "fsquota") if self.is_written else "statfs", time.perf_counter() - start
            )

    def _measured(self, by_quota: Count | None) -> VolumeUsage:
        found = file_system_of(self.folder)
        if not self.is_written:
            used = found.inodes - found.inodes_free
            return VolumeUsage(
                found.at, found.capacity, found.available, found.used, found.inodes, found.inodes_free, used
            )
        try:
            count = count_files(self.folder, _LONGEST_COUNT) if by_quota is None else by_quota
        except CountTimedOut as error:
            raise OSError(str(error)) from error
        return VolumeUsage(
            time.time(),
            found.capacity,
            found.available,
            count.used_bytes,
            found.inodes,
            found.inodes_free,
            count.inodes,
        )


def volumes_of(
    root_dir: Path, pod: Mapping[str, Any], mount_points: Container[str], *, quotas: bool = False
) -> Iterator[Volume]:
    """Yield the volumes of a pod that can be measured, without accessing them; mounted ones if in `mount_points`.

    With `quotas`, project quotas are asked for emptyDir volumes that may have one.
    """
    metadata = pod["metadata"]
    uid, namespace, pod_name = metadata["uid"], metadata["namespace"], metadata["name"]
    home = root_dir / "pods" / uid / "volumes"
    for one in pod["spec"].get("volumes") or ():
        name = one["name"]
        kind = next((kind for kind in VOLUME_PLUGINS if one.get(kind) is not None), "")
        row = VOLUME_PLUGINS.get(kind)
        if row is None or row.measured is Measured.NOT:
            continue
        if row.measured is Measured.FILES:
            in_memory = kind == "emptyDir" and one[kind].get("medium") == "Memory"
            folder = home / plugin_folder(row.plugin) / name
            has_quota = quotas and kind == "emptyDir" and counts_by_quota(pod, one[kind])
            is_local = row.ephemeral_storage and not in_memory
            yield Volume(uid, namespace, pod_name, name, "", is_local, folder, is_written=True, has_quota=has_quota)
        elif found := _mounted(root_dir, uid, name, mount_points):
            folder_mounted, csi = found
            claim = claim_of(pod_name, one)
            yield Volume(
                uid, namespace, pod_name, name, claim, is_local=False, folder=folder_mounted, is_written=False, csi=csi
            )


def _mounted(root_dir: Path, uid: str, name: str, mount_points: Container[str]) -> tuple[Path, CsiVolume | None] | None:
    """Return where a volume is, by its own name or that of its PersistentVolume, and whom to ask about it.

    None for one that is not mounted, and for a block device that is not CSI's.
    """
    home, is_device = root_dir / "pods" / uid / "volumes", False
    with contextlib.suppress(OSError, ValueError, TypeError):
        record = json.loads((home.parent / CLAIMS / name).read_bytes())
        name, is_device = record["name"], record.get("block") is True
    if is_device:
        device = root_dir / _DEVICES / "publish" / name / uid
        csi = recorded_volume(root_dir / _DEVICES / name / "data", device)
        return (device, csi) if csi and (home.parent / "volumeDevices" / ESCAPED_PLUGIN / name).is_symlink() else None
    for plugin in folders(str(home)):
        folder = home / plugin / name
        if plugin == ESCAPED_PLUGIN and str(folder / "mount") in mount_points:
            csi = recorded_volume(folder, folder / "mount")
            return (folder / "mount", csi) if csi else None
        if str(folder) in mount_points:
            return folder, None
    return None


class Volumes:
    """The node's volumes, measured on request."""

    def __init__(
        self,
        csi: CsiReads | None = None,
        abnormal: Callable[[Volume, str], None] = lambda *_: None,
        timed: Timed = lambda *_: None,
    ) -> None:
        """Take what asks CSI drivers; without it their volumes are not measured.

        `abnormal` takes a volume of which its driver says that something is wrong, and what; `timed` how long the others took.
        """
        self._timed = timed
        self._tried: BoundedReads[Volume, VolumeUsage] = BoundedReads(KEEP, WAIT)
        self._csi, self._abnormal = csi, abnormal
        self._told: dict[Volume, float] = {}

    async def measure(self, volumes: list[Volume]) -> dict[Volume, VolumeUsage]:
        """Measure these, as far as they answer in time."""
        questions = {one: partial(Volume.measure, one, self._timed) for one in volumes if one.csi is None}
        found, of_drivers = await asyncio.gather(self._tried.all(questions), self._asked(volumes))
        return found | of_drivers

    async def _asked(self, volumes: list[Volume]) -> dict[Volume, VolumeUsage]:
        """Ask the drivers of CSI volumes."""
        asked = {one: one.csi for one in volumes if one.csi is not None}
        if self._csi is None or not asked:
            return {}
        said = await self._csi.all(asked.values())
        found = {one: said[csi] for one, csi in asked.items() if csi in said}
        self._tell(found)
        return {one: VolumeUsage(*use[:-1]) for one, use in found.items()}

    def _tell(self, found: Mapping[Volume, CsiUsage]) -> None:
        """Tell of each abnormal volume once an answer."""
        wrong = {one: use for one, use in found.items() if use.abnormal and use.message}
        before, self._told = self._told, {one: use.at for one, use in wrong.items()}
        for one, use in wrong.items():
            if before.get(one) != use.at:
                self._abnormal(one, use.message)
