"""Rules about a pod's volumes and its containers' volumeMounts.

Source: pkg/apis/core/validation/validation.go, ValidateVolumes, ValidateVolumeMounts and what they call. As there, the
paths of some errors leave out the mount's index.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from proto.kubernetes.resources.quantity import parse_quantity
from workflows.decide.manifest.fields import names
from workflows.decide.manifest.fields.descending_paths import sub_path, without_backsteps
from workflows.decide.manifest.fields.field_errors import (
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
)
from workflows.decide.manifest.validation.volumes import cloud_sources, content_volumes, storage_sources
from workflows.decide.manifest.validation.volumes.csi_source import validate_csi
from workflows.decide.manifest.validation.volumes.devices import validate_volume_devices

Source = Mapping[str, Any]

_HOST_PATH_TYPES: Final = (
    *("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"),
)
_PROPAGATIONS: Final = ("Bidirectional", "HostToContainer", "None")
_RECURSIONS: Final = ("Disabled", "Enabled", "IfPossible")
_CONTAINERS: Final = ("containers", "initContainers")


def validate_volumes(spec: Source) -> Iterator[str]:
    """Validate a pod's volumes and the mounts of its containers."""
    volumes = spec.get("volumes", ())
    sound: set[str] = set()
    for index, volume in enumerate(volumes):
        faults = [*_volume(volume, f"spec.volumes[{index}]", sound)]
        yield from faults
        if not faults:
            sound.add(volume["name"])
    for kind in _CONTAINERS:
        for index, container in enumerate(spec.get(kind, ())):
            path = f"spec.{kind}[{index}]"
            yield from validate_volume_mounts(container, sound, path)
            yield from validate_volume_devices(container, [one for one in volumes if one.get("name") in sound], path)


def _volume(volume: Source, path: str, taken: set[str]) -> Iterator[str]:
    kinds = [kind for kind in volume if kind != "name"]
    if not kinds:
        yield required(path, "must specify a volume type")
    for number, kind in enumerate(sorted(kinds, key=_place)):
        if number:
            yield forbidden(f"{path}.{kind}", "may not specify more than 1 volume type")
        elif judge := SOURCES.get(kind):
            yield from judge(volume[kind], f"{path}.{kind}")
    if name := volume.get("name"):
        yield from (invalid(f"{path}.name", name, one) for one in names.dns_label(name))
    else:
        yield required(f"{path}.name")
    if name in taken:
        yield duplicate(f"{path}.name", name)


def _place(kind: str) -> int:
    """Return a type's position in the API's order; the first type of a volume counts, others are errors."""
    return list(SOURCES).index(kind) if kind in SOURCES else len(SOURCES)


def _empty_dir(source: Source, path: str) -> Iterator[str]:
    if "sizeLimit" in source and parse_quantity(source["sizeLimit"]).nanos < 0:
        yield forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")


def _host_path(source: Source, path: str) -> Iterator[str]:
    if not (given := source.get("path")):
        yield required(f"{path}.path")
        return
    yield from without_backsteps(given, f"{path}.path")
    if (kind := source.get("type", "")) not in _HOST_PATH_TYPES:
        yield not_supported(f"{path}.type", kind, _HOST_PATH_TYPES)


def _claim(source: Source, path: str) -> Iterator[str]:
    if not source.get("claimName"):
        yield required(f"{path}.claimName")


SOURCES: Final[Mapping[str, Callable[[Source, str], Iterator[str]]]] = {
    "emptyDir": _empty_dir,
    "hostPath": _host_path,
    "gcePersistentDisk": cloud_sources.gce_persistent_disk,
    "awsElasticBlockStore": cloud_sources.aws_elastic_block_store,
    "secret": content_volumes.secret,
    "nfs": storage_sources.nfs,
    "iscsi": storage_sources.iscsi,
    "persistentVolumeClaim": _claim,
    "cinder": cloud_sources.cinder,
    "downwardAPI": content_volumes.downward_api,
    "fc": storage_sources.fc,
    "configMap": content_volumes.config_map,
    "azureFile": cloud_sources.azure_file,
    "vsphereVolume": cloud_sources.vsphere_volume,
    "portworxVolume": cloud_sources.portworx_volume,
    "azureDisk": cloud_sources.azure_disk,
    "projected": content_volumes.projected,
    "csi": validate_csi,
    "image": storage_sources.image,
}
"""One row for each type, in the API's order."""


def validate_volume_mounts(container: Source, volumes: set[str], path: str) -> Iterator[str]:
    """Validate a container's mounts; `volumes` names the pod's valid volumes."""
    taken: set[str] = set()
    mounts, devices = container.get("volumeMounts", ()), container.get("volumeDevices", ())
    for index, mount in enumerate(mounts):
        here = f"{path}.volumeMounts[{index}]"
        name, mount_path = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            yield required(f"{here}.name")
        if name not in volumes:
            yield not_found(f"{here}.name", name)
        if not mount_path:
            yield required(f"{here}.mountPath")
        if mount_path in taken:
            yield invalid(f"{here}.mountPath", mount_path, "must be unique")
        taken.add(mount_path)
        yield from _beside_devices(mount, devices, here)
        yield from sub_path(mount, f"{path}.volumeMounts", here)
        yield from _propagation(mount, container, f"{path}.volumeMounts.mountPropagation")
        yield from _recursion(mount, f"{path}.volumeMounts.recursiveReadOnly")


def _beside_devices(mount: Source, devices: Sequence[Source], path: str) -> Iterator[str]:
    name, mount_path = mount.get("name", ""), mount.get("mountPath", "")
    if any(one.get("name") == name for one in devices):
        yield invalid(f"{path}.name", name, "must not already exist in volumeDevices")
    if any(one.get("devicePath") == mount_path for one in devices):
        yield invalid(f"{path}.mountPath", mount_path, "must not already exist as a path in volumeDevices")


def _propagation(mount: Source, container: Source, path: str) -> Iterator[str]:
    if (mode := mount.get("mountPropagation")) is None:
        return
    if mode not in _PROPAGATIONS:
        yield not_supported(path, mode, _PROPAGATIONS)
    privileged = (container.get("securityContext") or {}).get("privileged")
    if mode == "Bidirectional" and not privileged:
        yield forbidden(path, "Bidirectional mount propagation is available only to privileged containers")


def _recursion(mount: Source, path: str) -> Iterator[str]:
    mode = mount.get("recursiveReadOnly")
    if mode in ("Enabled", "IfPossible"):
        if not mount.get("readOnly"):
            yield forbidden(path, "may only be specified when readOnly is true")
        if mount.get("mountPropagation") not in (None, "None"):
            yield forbidden(path, "may only be specified when mountPropagation is None or not specified")
    elif mode not in (None, "Disabled"):
        yield not_supported(path, mode, _RECURSIONS)
