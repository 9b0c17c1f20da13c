"""Paths and records of CSI volumes that are block devices, in the kubelet's layout (csi_block.go).

The pod's own part is a link `pods/<uid>/volumeDevices/kubernetes.io~csi/<name>` to the device that the driver
publishes. The link is made first and removed last, so the links on disk say which pods use a volume.
"""

import contextlib
from dataclasses import dataclass, replace
from glob import escape
from pathlib import Path

from activities.files import mounts
from activities.volumes.csi.records.layout import ESCAPED_PLUGIN, REPUBLISH, REPUBLISHED_DEVICES
from activities.volumes.csi.records.places import (
    PLUGIN,
    VolumeRecord,
    forget_record,
    forget_republished,
    make_folder,
    read_record,
    record_attachable,
    record_of,
    remove_folder,
    unattachable,
    write_record,
)
from activities.volumes.csi.records.volume import CsiVolume, Lifecycle


@dataclass(frozen=True, slots=True)
class BlockPlace:
    """A volume that is a device."""

    root_dir: Path
    pod_uid: str
    name: str

    @property
    def target(self) -> Path:
        """The path at which the driver publishes it."""
        return self._devices / "publish" / self.name / self.pod_uid

    @property
    def shown(self) -> Path:
        """What containers get: a link to the target."""
        return self.root_dir / "pods" / self.pod_uid / "volumeDevices" / ESCAPED_PLUGIN / self.name

    @property
    def republished(self) -> Path:
        """The file which says that it is to be published again."""
        return self.root_dir / "pods" / self.pod_uid / REPUBLISHED_DEVICES / self.name / REPUBLISH

    def staging(self, driver: str, handle: str) -> Path:  # noqa: ARG002 - a device's place depends only on its volume's name
        """Return the path at which the driver stages it."""
        return self._devices / "staging" / self.name

    def record(self) -> VolumeRecord | None:
        """Read its record; None if the pod has no link to it."""
        if not self.shown.is_symlink():
            return None
        record = read_record(self._data)
        return record and replace(record, lifecycle=str(Lifecycle.PERSISTENT))

    def remember(
        self,
        volume: CsiVolume,
        node: str,
        *,
        attachable: bool = True,
        unpublished: bool = False,  # noqa: ARG002 - as `Place`
    ) -> None:
        """Record that the pod uses it, and make the folders that its driver expects."""
        make_folder(self.shown.parent)
        if not self.shown.is_symlink():  # first, so that a concurrent unmount keeps the shared part
            self.shown.symlink_to(self.target)
        write_record(self._data, record_of(volume, node) | unattachable(self._data, attachable=attachable))
        make_folder(self.target.parent)

    def remember_attachable(self) -> None:
        """Record that it is attachable, if it is recorded."""
        record_attachable(self._data)

    def forget(self) -> None:
        """Remove the pod's link, and after the last pod the shared part.

        Without a link the pod has no claim to that.
        """
        forget_republished(self.republished)
        for folder in self.republished.parents[:2]:
            with contextlib.suppress(OSError):  # missing, or another device's
                folder.rmdir()
        if not self.shown.is_symlink():
            return
        if mounts.is_mount_point(self.target):
            raise OSError(f"{self.target} is still mounted, though its driver says that it is not")
        self.target.unlink(missing_ok=True)
        if not self.used_by_others("", ""):
            remove_folder(self.target.parent)
            forget_record(self._data)
            remove_folder(self._data.parent)
        self.shown.unlink(missing_ok=True)  # last, so that a crash before it leaves the record
        with contextlib.suppress(FileNotFoundError, OSError):
            self.shown.parent.rmdir()

    def used_by_others(self, driver: str, handle: str) -> bool:  # noqa: ARG002 - as `Place`
        """Report whether another pod uses it or may use it."""
        return any(one != self.shown for one in self._links())

    def labels_of_others(self, driver: str, handle: str) -> dict[str, str]:  # noqa: ARG002 - as `Place`
        """Return none: a device has no files to be labelled."""
        return {}

    def record_staging(self, driver: str, handle: str) -> Path:
        """Make the folder in which it is staged; returns it."""
        staging = self.staging(driver, handle)
        make_folder(staging)
        return staging

    def remove_staging_record(self, driver: str, handle: str) -> None:
        """Remove the folder in which it was staged."""
        remove_folder(self.staging(driver, handle))

    @property
    def _devices(self) -> Path:
        return self.root_dir / "plugins" / PLUGIN / "volumeDevices"

    @property
    def _data(self) -> Path:
        return self._devices / self.name / "data"

    def _links(self) -> list[Path]:
        return list((self.root_dir / "pods").glob(f"*/volumeDevices/{ESCAPED_PLUGIN}/{escape(self.name)}"))
