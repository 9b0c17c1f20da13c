"""A volume of a CSI driver, as a pod's spec or a PersistentVolume has it.

Built by `activities/volumes/types/csi.py` from either, and all that staging and publishing it are told of it. No secret is in it,
only where one is kept.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final

from activities.volumes.plugin.volume_type import VolumeFailed

DRIVER_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,61}[A-Za-z0-9])?", re.ASCII)
"""A domain name in any case (validation.go ValidateCSIDriverName); it becomes a path."""
SINGLE_WRITERS: Final = ("ReadWriteOnce", "ReadWriteOncePod")


class Lifecycle(StrEnum):
    """Who a volume lives with (storage.k8s.io VolumeLifecycleMode)."""

    PERSISTENT = "Persistent"
    EPHEMERAL = "Ephemeral"


@dataclass(frozen=True, slots=True)
class SecretReference:
    """Which Secret opens a volume."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CsiVolume:
    """One volume, whichever pods use it."""

    name: str
    """The PersistentVolume's, or of an ephemeral one the pod's own name for it: by it the kubelet names its folders."""
    driver: str
    handle: str
    """How its driver calls it."""
    lifecycle: Lifecycle
    fs_type: str = ""
    read_only: bool = False
    block: bool = False
    access_modes: tuple[str, ...] = ()
    mount_options: tuple[str, ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)
    stage_secret: SecretReference | None = None
    publish_secret: SecretReference | None = None

    @property
    def access_mode(self) -> str:
        """The one mode that the driver is told: the first (csi_mounter.go)."""
        return self.access_modes[0] if self.access_modes else "ReadWriteOnce"

    @property
    def lock(self) -> str:
        """The key under which it is staged, published and undone, one pod after the other."""
        return lock_of(self.driver, self.handle)


def lock_of(driver: str, handle: str) -> str:
    """Say the key under which a volume is dealt with, also where no more is known of it than its record."""
    return f"csi/{driver}/{handle}"


def ephemeral_handle(pod_uid: str, name: str) -> str:
    """Make up the handle of a volume that lives with its pod (csi_mounter.go makeVolumeHandle)."""
    return f"csi-{sha256(f'{pod_uid}{name}'.encode()).hexdigest()}"


def attachment_name(handle: str, driver: str, node: str) -> str:
    """Name the VolumeAttachment that a cluster would have (csi_attacher.go getAttachmentName)."""
    return f"csi-{sha256(f'{handle}{driver}{node}'.encode()).hexdigest()}"


def ephemeral_volume(name: str, source: Mapping[str, Any], namespace: str, pod_uid: str) -> CsiVolume:
    """Read a `csi` volume of a pod's spec, which the manifest's validation has seen."""
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
    """Read the `csi` part of a PersistentVolume, which nobody has validated here; raises VolumeFailed."""
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
    }


def _secret(volume: str, source: Mapping[str, Any], field: str) -> SecretReference | None:
    reference = source.get(field)
    if not reference:
        return None
    namespace, name = reference.get("namespace"), reference.get("name")
    if not isinstance(namespace, str) or not isinstance(name, str):
        raise VolumeFailed(f"PV {volume}: spec.csi.{field} must name a secret and its namespace")
    return SecretReference(namespace, name)
