"""fc: a disk behind a Fibre Channel host adapter (pkg/volume/fc).

The kernel finds such disks by itself, so there is no login. The disk is looked up by its WWNs and LUN, or its WWIDs;
if it is missing, all adapters are rescanned. If there are several paths, their multipath device is used.
"""

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from activities.volumes.disks.attached_disk import AttachedDisk, Disk, path_component
from activities.volumes.disks.scsi import TREE, ScsiTree, flush
from activities.volumes.plugin.persistent_type import PersistentType
from activities.volumes.plugin.table import plugin_of
from activities.volumes.plugin.volume_type import PodVolume, VolumeFailed, VolumeType


class FibreChannel:
    """Disks behind a host adapter."""

    plugin = plugin_of("fc")

    def __init__(self, tree: ScsiTree = TREE) -> None:
        self._tree = tree

    def read(self, source: Mapping[str, Any], name: str) -> Disk:
        """Read WWNs and LUN, or WWIDs, in which blanks become underscores as in udev's names."""
        wwns, wwids, lun = source.get("targetWWNs") or [], source.get("wwids") or [], source.get("lun")
        if wwns and isinstance(lun, int) and all(isinstance(one, str) for one in wwns):
            return {"wwns": list(wwns), "lun": lun}
        if wwids and not wwns and all(isinstance(one, str) for one in wwids):
            return {"wwids": [one.replace(" ", "_") for one in wwids]}
        raise VolumeFailed(f"fc: no fc disk information found for volume {name}: it needs targetWWNs and lun, or wwids")

    def volume_name(self, source: Mapping[str, Any]) -> str:
        """`[<wwn> <wwn>]:<lun>` or `[<wwid> <wwid>]`, as Go prints lists."""
        wwns = source.get("targetWWNs")
        return f"[{' '.join(wwns)}]:{source['lun']}" if wwns else f"[{' '.join(source['wwids'])}]"

    def place(self, disk: Disk) -> tuple[str, ...]:
        """`<wwn>-<wwn>-lun-<lun>` or `<wwid>-<wwid>`."""
        if "wwids" in disk:
            return (path_component("-".join(disk["wwids"])),)
        return (path_component(f"{'-'.join(disk['wwns'])}-lun-{disk['lun']}"),)

    async def attach(self, volume: PodVolume, disk: Disk) -> Path:  # noqa: ARG002 - the kernel has it already
        """Find its device; rescan the adapters if it is missing or has no multipath device."""
        found = await asyncio.to_thread(self._find, disk)
        if not any(map(self._tree.multipath_of, found)):
            await asyncio.to_thread(self._tree.scan)
            found = await asyncio.to_thread(self._find, disk)
        if not found:
            raise VolumeFailed("no fc disk found")
        return await asyncio.to_thread(self._tree.best_of, found)

    async def detach(self, volume: PodVolume, disk: Disk) -> None:  # noqa: ARG002 - the kernel has it
        """Remove the disk and all its paths from the kernel."""
        found = await asyncio.to_thread(self._find, disk)
        if not found:
            return
        device = await asyncio.to_thread(self._tree.best_of, found)
        behind = await asyncio.to_thread(self._tree.paths_of, device)
        if device not in behind:
            await flush(device)
        for one in behind:
            await flush(one)
            await asyncio.to_thread(self._tree.forget, one)

    def _find(self, disk: Disk) -> list[Path]:
        if "wwids" in disk:
            names = {f"scsi-{wwid}" for wwid in disk["wwids"]}
            return [one for one in self._tree.links("by-id") if one.name in names]
        wwns = "|".join(map(re.escape, disk["wwns"]))
        wanted = re.compile(rf"(?:pci-.*-fc|fc)-0x(?:{wwns})-lun-{disk['lun']}")
        return [one for one in self._tree.links("by-path") if wanted.fullmatch(one.name)]


_DISK: Final = AttachedDisk(FibreChannel())
TYPE: Final[VolumeType] = _DISK
PERSISTENT: Final[PersistentType] = _DISK
