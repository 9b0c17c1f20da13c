"""configMap, secret, downwardAPI and projected: volumes whose files the node writes.

Mounting one again refreshes it: its objects are read again, and if any file differs, all change atomically. The
content of an object is written to the volume and nowhere else.
"""

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from activities.files.atomic_writer import InvalidPath, write
from activities.objects.objects import ObjectMissing, ObjectRefused, StoredObject
from activities.volumes.contents.contents import Files, Known, files_of, references
from activities.volumes.contents.credentials import read_certificates, read_tokens, read_trust_bundles
from activities.volumes.contents.nested_mounts import make_nested_mount_points
from activities.volumes.plugin.ownership import fs_group_of, fs_user_of
from activities.volumes.plugin.table import VOLUME_PLUGINS
from activities.volumes.plugin.volume_type import Mounted, PodVolume, VolumeFailed, VolumeType
from activities.volumes.types import empty_dir
from proto.kubernetes.contents.projections import pod_certificate_key
from proto.temporal.mounted import IMMUTABLE, MountedVolume


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """A read-only volume that the node fills; fsGroup is applied before the files become visible."""

    kind: str

    @property
    def plugin(self) -> str:
        """The kubelet's name of the plugin."""
        return VOLUME_PLUGINS[self.kind].plugin

    async def mount(self, volume: PodVolume) -> Mounted:
        """Write its files from the current objects; raises VolumeFailed, which never quotes an object's content."""
        objects = await read_objects(self.kind, volume)
        known = Known(
            objects,
            volume.pod_spec,
            dict(volume.services.settings.allocatable),
            await read_tokens(volume),
            await read_trust_bundles(volume),
            await read_certificates(volume),
            owner=fs_user_of(volume.pod_spec),
            has_group=fs_group_of(volume.pod_spec) is not None,
        )
        files = files_of(self.kind, volume.source, known)
        directory = volume.directory(self.plugin)
        found = await asyncio.to_thread(self._write, directory, files, volume)
        versions = {key: _version(one) for key, one in objects.items()}
        certificates = {pod_certificate_key(volume.name, index): one for index, one in known.certificates.items()}
        credentials = {**known.tokens, **known.trust_bundles, **certificates}
        versions |= {key: "" if isinstance(one, str) else one.version for key, one in credentials.items()}
        mounted = MountedVolume(volume.name, str(directory), read_only=True, selinux_relabel=True)
        return Mounted(mounted, found, versions)

    async def unmount(self, volume: PodVolume) -> None:
        """Remove its files, and unmount the memory that held them."""
        await asyncio.to_thread(empty_dir.remove, self._wrapped(volume), volume.directory(self.plugin))

    def _write(self, directory: Path, files: Files, volume: PodVolume) -> bool:
        """Write the files, in a thread; returns whether they were there already and unchanged."""
        empty_dir.make(self._wrapped(volume), directory)
        make_nested_mount_points(directory, volume.name, volume.pod_spec)
        group = fs_group_of(volume.pod_spec)
        try:
            return not write(directory, files, group.group if group else None)
        except InvalidPath as error:
            raise VolumeFailed(str(error)) from None

    def _wrapped(self, volume: PodVolume) -> PodVolume:
        """Return the emptyDir that holds the files, as in the kubelet.

        The group is applied to the files here, not to the emptyDir.
        """
        spec = {name: part for name, part in volume.pod_spec["spec"].items() if name != "securityContext"}
        source = {"medium": empty_dir.MEMORY} if VOLUME_PLUGINS[self.kind].in_memory else {}
        return replace(volume, source=source, pod_spec={**volume.pod_spec, "spec": spec})


async def read_objects(kind: str, volume: PodVolume) -> dict[str, StoredObject | str]:
    """Read all objects that a volume refers to; for a missing or refused one the value is the error's text.

    Raises VolumeFailed for a refused object that is optional: it exists, so it must not be taken for absent.
    """
    found: dict[str, StoredObject | str] = {}
    source = volume.services.objects
    for reference in references(kind, volume.source):
        try:
            found[reference.key] = await source.get(reference.kind, volume.pod.namespace, reference.name)
        except ObjectMissing as error:
            found[reference.key] = str(error)
        except ObjectRefused as error:
            if reference.optional:
                raise VolumeFailed(str(error)) from None
            found[reference.key] = str(error)
    return found


def _version(found: StoredObject | str) -> str:
    """Return the version of the object that is shown; empty if there was none."""
    if isinstance(found, str):
        return ""
    return f"{IMMUTABLE}{found.version}" if found.immutable else found.version


CONFIG_MAP: Final[VolumeType] = WrittenFiles("configMap")
SECRET: Final[VolumeType] = WrittenFiles("secret")
DOWNWARD_API: Final[VolumeType] = WrittenFiles("downwardAPI")
PROJECTED: Final[VolumeType] = WrittenFiles("projected")
