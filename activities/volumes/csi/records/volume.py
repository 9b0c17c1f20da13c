"""A CSI volume, from a pod's spec or from a PersistentVolume.

Built by `activities/volumes/types/csi.py`. It refers to Secrets and contains none.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final

from activities.volumes.plugin.volume_type import VolumeFailed

DRIVER_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,61}[A-Za-z0-9])?", re.ASCII)
"""A domain name in any case (validation.go ValidateCSIDriverName); it becomes part of a path."""
SINGLE_WRITERS: Final = ("ReadWriteOnce", "ReadWriteOncePod")


class Lifecycle(StrEnum):
    """Whether a volume lives as long as its pod or longer (storage.k8s.io VolumeLifecycleMode)."""

    PERSISTENT = "Persistent"
    EPHEMERAL = "Ephemeral"


@dataclass(frozen=True, slots=True)
class SecretReference:
    """A reference to the Secret for staging or publishing a volume."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CsiVolume:
    """One volume, whichever pods use it."""

    name: str
    """The PersistentVolume's name, or an ephemeral volume's name in its pod; the kubelet names folders by it."""
    driver: str
    handle: str
    """The driver's ID of the volume."""
    lifecycle: Lifecycle
    fs_type: str = ""
    read_only: bool = False
    block: bool = False
    access_modes: tuple[str, ...] = ()
    mount_options: tuple[str, ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)
    stage_secret: SecretReference | None = None
    publish_secret: SecretReference | None = None
    expand_secret: SecretReference | None = None
    label: str = ""
    """The SELinux label that it is mounted with."""
    asked_label: str = ""
    """The one that its pod asks for, also where it is not mounted with one."""

    @property
    def access_mode(self) -> str:
        """The access mode passed to the driver: the first one (csi_mounter.go)."""
        return self.access_modes[0] if self.access_modes else "ReadWriteOnce"

    @property
    def lock(self) -> str:
        """The key of the lock under which it is staged, published and undone."""
        return lock_of(self.driver, self.handle)


def lock_of(driver: str, handle: str) -> str:
    """Return the key of the lock for a volume, also when only its record is known."""
    return f"csi/{driver}/{handle}"


def ephemeral_handle(pod_uid: str, name: str) -> str:
    """Return the handle of an ephemeral volume (csi_mounter.go makeVolumeHandle)."""
    return f"csi-{sha256(f'{pod_uid}{name}'.encode()).hexdigest()}"


def attachment_name(handle: str, driver: str, node: str) -> str:
    """Return the name of the VolumeAttachment that a cluster would have (csi_attacher.go getAttachmentName)."""
    return f"csi-{sha256(f'{handle}{driver}{node}'.encode()).hexdigest()}"


def ephemeral_volume(name: str, source: Mapping[str, Any], namespace: str, pod_uid: str) -> CsiVolume:
    """Read a `csi` volume of a pod's spec, which has been validated."""
    secret = source.get("nodePublishSecretRef")
    return CsiVolume(
        name=name,
        driver=source["driver"],
        handle=ephemeral_handle(pod_uid, name),
        lifecycle=Lifecycle.EPHEMERAL,
        fs_type=source.get("fsType") or "",
        read_only=bool(source.get("readOnly")),
        attributes=source.get("volumeAttributes") or {},
        publish_secret=SecretReference(namespace, secret["name"]) if secret else None,
    )


def persistent_fields(name: str, source: Mapping[str, Any]) -> dict[str, Any]:
    """Read the `csi` part of a PersistentVolume, which may not have been validated; raises VolumeFailed."""
    driver, handle = source.get("driver"), source.get("volumeHandle")
    if not isinstance(driver, str) or not DRIVER_NAME.fullmatch(driver):
        raise VolumeFailed(f"PV {name}: spec.csi.driver must be a domain name of at most 63 characters")
    if not isinstance(handle, str) or not handle:
        raise VolumeFailed(f"PV {name}: spec.csi.volumeHandle is required")
    attributes = source.get("volumeAttributes") or {}
    if not isinstance(attributes, Mapping) or not all(isinstance(one, str) for one in attributes.values()):
        raise VolumeFailed(f"PV {name}: spec.csi.volumeAttributes must be a mapping of strings")
    return {
        "driver": driver,
        "handle": handle,
        "fs_type": str(source.get("fsType") or ""),
        "attributes": attributes,
        "stage_secret": _secret(name, source, "nodeStageSecretRef"),
        "publish_secret": _secret(name, source, "nodePublishSecretRef"),
        "expand_secret": _secret(name, source, "nodeExpandSecretRef"),
    }


def _secret(volume: str, source: Mapping[str, Any], field: str) -> SecretReference | None:
    reference = source.get(field)
    if not reference:
        return None
    namespace, name = reference.get("namespace"), reference.get("name")
    if not isinstance(namespace, str) or not isinstance(name, str):
        raise VolumeFailed(f"PV {volume}: spec.csi.{field} must name a secret and its namespace")
    return SecretReference(namespace, name)
