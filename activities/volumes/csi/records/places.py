"""Paths of CSI volumes on the node and the records of them, in the kubelet's layout.

The record in a pod's folder is written before its driver is called and removed when nothing is left to undo, so the
records say which pods use a volume, whatever crashed in between. Everything blocks on files and raises OSError. This
module is for volumes with files, `block_places` for devices. Sources: csi_mounter.go, csi_attacher.go
makeDeviceMountPath.
"""

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final, Protocol

from activities.files import mounts
from activities.files.atomic_files import write_json
from activities.volumes.csi.records.layout import ATTACHABLE, DATA, ESCAPED_PLUGIN, NOT_ATTACHABLE, REPUBLISH
from activities.volumes.csi.records.volume import CsiVolume, Lifecycle, attachment_name

PLUGIN: Final = "kubernetes.io/csi"
_UNPUBLISHED: Final = "tempolet.dev/unpublished"
_LABEL: Final = "seLinuxMountContext"
_ASKED_LABEL: Final = "tempolet.dev/seLinuxLabel"
_MODE: Final = 0o750


@dataclass(frozen=True, slots=True)
class VolumeRecord:
    """The record of a volume: enough to undo it when its spec is no longer known."""

    driver: str
    handle: str
    lifecycle: str = ""
    unpublished: bool = False
    """Its driver has refused for good to publish it, so there is nothing to unpublish."""
    label: str = ""
    """The SELinux label that it was mounted with."""
    asked_label: str = ""
    """The one that its pod asked for."""
    attachable: bool = True
    """The Node lists it as in use."""


class Place(Protocol):
    """Where one volume of one pod is staged and published."""

    @property
    def target(self) -> Path:
        """The path at which the driver publishes it."""
        ...

    @property
    def shown(self) -> Path:
        """What containers get."""
        ...

    @property
    def republished(self) -> Path:
        """The file which says that it is to be published again (`republishing`)."""
        ...

    def staging(self, driver: str, handle: str) -> Path:
        """Return the path at which the driver stages it."""
        ...

    def record(self) -> VolumeRecord | None:
        """Read its record in the pod; None if there is none."""
        ...

    def remember(self, volume: CsiVolume, node: str, *, attachable: bool = True, unpublished: bool = False) -> None:
        """Record that the pod uses it, and make the folders that its driver expects.

        What was recorded as attachable stays so.
        """
        ...

    def remember_attachable(self) -> None:
        """Record that it is attachable, if it is recorded."""
        ...

    def forget(self) -> None:
        """Remove the record, after nothing of the volume is left in the pod."""
        ...

    def used_by_others(self, driver: str, handle: str) -> bool:
        """Report whether another pod uses it or may use it."""
        ...

    def labels_of_others(self, driver: str, handle: str) -> dict[str, str]:
        """Return the SELinux labels that other pods asked for it, by their UIDs."""
        ...

    def record_staging(self, driver: str, handle: str) -> Path:
        """Record that it is about to be staged, and make the folder for that; returns the folder."""
        ...

    def remove_staging_record(self, driver: str, handle: str) -> None:
        """Remove the folder in which it was staged."""
        ...


@dataclass(frozen=True, slots=True)
class FilesPlace:
    """A volume with files: `pods/<uid>/volumes/kubernetes.io~csi/<name>/mount`."""

    root_dir: Path
    pod_uid: str
    name: str

    @property
    def directory(self) -> Path:
        """The volume's folder in the pod."""
        return self.root_dir / "pods" / self.pod_uid / "volumes" / ESCAPED_PLUGIN / self.name

    @property
    def target(self) -> Path:
        """The path at which the driver publishes it."""
        return self.directory / "mount"

    @property
    def shown(self) -> Path:
        """What containers get."""
        return self.target

    @property
    def republished(self) -> Path:
        """The file which says that it is to be published again."""
        return self.directory / REPUBLISH

    def staging(self, driver: str, handle: str) -> Path:
        """Return the path at which the driver stages it."""
        return self.root_dir / "plugins" / PLUGIN / driver / sha256(handle.encode()).hexdigest() / "globalmount"

    def record(self) -> VolumeRecord | None:
        """Read its record in the pod; None if there is none."""
        return read_record(self.directory)

    def remember(self, volume: CsiVolume, node: str, *, attachable: bool = True, unpublished: bool = False) -> None:
        """Record that the pod uses it; its driver creates the target itself."""
        data = record_of(volume, node) | {"volumeLifecycleMode": str(volume.lifecycle)}
        data |= unattachable(self.directory, attachable=attachable)
        write_record(self.directory, data | ({_UNPUBLISHED: "true"} if unpublished else {}))

    def remember_attachable(self) -> None:
        """Record that it is attachable, if it is recorded."""
        record_attachable(self.directory)

    def forget(self) -> None:
        """Remove the record, after nothing of the volume is left in the pod."""
        remove_folder(self.target)
        forget_republished(self.republished)
        forget_record(self.directory)

    def used_by_others(self, driver: str, handle: str) -> bool:
        """Report whether another pod uses it or may use it."""
        return any(one != self.directory for one, _ in self._users(driver, handle))

    def labels_of_others(self, driver: str, handle: str) -> dict[str, str]:
        """Return the SELinux labels that other pods asked for it, by their UIDs."""
        users = self._users(driver, handle)
        return {one.parents[2].name: found.asked_label for one, found in users if one != self.directory}

    def record_staging(self, driver: str, handle: str) -> Path:
        """Record that it is about to be staged, and make the folder for that; returns the folder."""
        staging = self.staging(driver, handle)
        make_folder(staging)
        write_record(staging.parent, {"volumeHandle": handle, "driverName": driver})
        return staging

    def remove_staging_record(self, driver: str, handle: str) -> None:
        """Remove the folder in which it was staged."""
        staging = self.staging(driver, handle)
        remove_folder(staging)
        forget_record(staging.parent)

    def _users(self, driver: str, handle: str) -> Iterator[tuple[Path, VolumeRecord]]:
        for data in (self.root_dir / "pods").glob(f"*/volumes/{ESCAPED_PLUGIN}/*/{DATA}"):
            found = read_record(data.parent)
            if found and (found.driver, found.handle) == (driver, handle) and found.lifecycle != Lifecycle.EPHEMERAL:
                yield data.parent, found


def record_of(volume: CsiVolume, node: str) -> dict[str, str]:
    """Build the content of a volume's record, as the kubelet does."""
    label = {_LABEL: volume.label} if volume.label else {}
    asked = {_ASKED_LABEL: volume.asked_label} if volume.asked_label != volume.label else {}
    return {
        **label,
        **asked,
        "specVolID": volume.name,
        "volumeHandle": volume.handle,
        "driverName": volume.driver,
        "nodeName": node,
        "attachmentID": attachment_name(volume.handle, volume.driver, node),
    }


def make_folder(directory: Path) -> None:
    """Make a folder for root only, with its parents."""
    directory.mkdir(mode=_MODE, parents=True, exist_ok=True)


def remove_folder(directory: Path) -> None:
    """Remove an empty folder on which nothing is mounted; a missing one is fine."""
    if mounts.is_mount_point(directory):
        raise OSError(f"{directory} is still mounted, though its driver says that it is not")
    with contextlib.suppress(FileNotFoundError):
        directory.rmdir()


def read_record(directory: Path) -> VolumeRecord | None:
    """Read a folder's vol_data.json; None if there is none."""
    try:
        data = json.loads((directory / DATA).read_bytes())
        lifecycle, label = str(data.get("volumeLifecycleMode", "")), str(data.get(_LABEL, ""))
        return VolumeRecord(
            driver=str(data["driverName"]),
            handle=str(data["volumeHandle"]),
            lifecycle=lifecycle,
            unpublished=_UNPUBLISHED in data,
            label=label,
            asked_label=str(data.get(_ASKED_LABEL, label)),
            attachable=data.get(ATTACHABLE) != NOT_ATTACHABLE,
        )
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise OSError(f"{directory / DATA} is damaged: unmount what is beside it, then remove it") from error


def write_record(directory: Path, data: Mapping[str, str]) -> None:
    """Write a folder's vol_data.json atomically."""
    make_folder(directory)
    write_json(directory / DATA, data)


def unattachable(directory: Path, *, attachable: bool) -> dict[str, str]:
    """Return the part of a folder's next record that says it is not attachable; empty if it is, or was when it was recorded.

    A volume of which nobody knows, or that was attached for another pod, has to stay listed.
    """
    try:
        before = None if attachable else read_record(directory)
    except OSError:
        return {}
    return {} if attachable or (before and before.attachable) else {ATTACHABLE: NOT_ATTACHABLE}


def record_attachable(directory: Path) -> None:
    """Record in a folder that its volume is attachable, if it is recorded as another."""
    with contextlib.suppress(FileNotFoundError):
        data = json.loads((directory / DATA).read_bytes())
        if data.pop(ATTACHABLE, None) is not None:
            write_json(directory / DATA, data)


def forget_republished(file: Path) -> None:
    """Remove the file which says that a volume is to be published again, and what a crash has left of it."""
    for one in (file, file.with_name(f".{file.name}")):
        one.unlink(missing_ok=True)


def forget_record(directory: Path) -> None:
    """Remove a folder's vol_data.json, and the folder if it is empty then."""
    for name in (DATA, f".{DATA}"):
        (directory / name).unlink(missing_ok=True)
    with contextlib.suppress(FileNotFoundError):
        directory.rmdir()
