"""Disks at SCSI hosts: finds them, scans for them, and removes them from the kernel.

Used by `iscsi` and `fc`; source: pkg/volume/util/device_util_linux.go, pkg/volume/iscsi/iscsi_util.go scanOneLun and
deleteDevice, pkg/volume/fc/fc_util.go. Everything may block: call it in a thread.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from activities.execution.programs import ProgramMissing, ProgramTimedOut, run

_FLUSH_WITHIN: Final = 30.0


@dataclass(frozen=True, slots=True)
class ScsiTree:
    """The kernel's files about disks; tests use a tree of their own."""

    sys: Path = Path("/sys")
    dev: Path = Path("/dev")

    def links(self, folder: str) -> Iterator[Path]:
        """List the links of `/dev/disk/<folder>`."""
        with contextlib.suppress(OSError):
            yield from sorted((self.dev / "disk" / folder).iterdir())

    def scan(self, host: int | None = None, lun: int | None = None) -> None:
        """Scan a host (default: all) for a disk (default: all). Raises OSError only for a named host."""
        wanted = "- - -" if lun is None else f"0 0 {lun}"
        if host is not None:
            (self.sys / f"class/scsi_host/host{host}/scan").write_text(wanted)
            return
        for file in (self.sys / "class/scsi_host").glob("host*/scan"):
            with contextlib.suppress(OSError):
                file.write_text(wanted)

    def multipath_of(self, device: Path) -> Path | None:
        """Return the multipath device that a disk is a path of; such a device returns itself."""
        name = device.resolve().name
        if name.startswith("dm-"):
            return self.dev / name
        found = sorted((self.sys / "block").glob(f"dm-*/slaves/{name}"))
        return self.dev / found[0].parents[1].name if found else None

    def best_of(self, devices: Sequence[Path]) -> Path:
        """Choose what to mount: the disks' multipath device, else the first disk."""
        found = [one for one in map(self.multipath_of, devices) if one]
        return found[0] if found else devices[0].resolve()

    def paths_of(self, device: Path) -> list[Path]:
        """List the disks behind a device: itself, or the paths of a multipath device."""
        slaves = self.sys / "block" / device.name / "slaves"
        if device.name.startswith("dm-"):
            return [self.dev / one.name for one in sorted(slaves.glob("*"))]
        return [device]

    def forget(self, disk: Path) -> None:
        """Remove a disk from the kernel; a missing one is fine."""
        with contextlib.suppress(FileNotFoundError):
            (self.sys / "block" / disk.name / "device/delete").write_text("1")


async def flush(device: Path) -> None:
    """Flush a disk's buffers and remove a multipath device, ignoring failures of either."""
    words = ["multipath", "-f"] if device.name.startswith("dm-") else ["blockdev", "--flushbufs"]
    with contextlib.suppress(ProgramMissing, ProgramTimedOut):
        await run((*words, str(device)), _FLUSH_WITHIN)


TREE: Final = ScsiTree()
