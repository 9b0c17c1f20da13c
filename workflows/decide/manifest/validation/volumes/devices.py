"""Rules about volumeDevices.

Source: pkg/apis/core/validation/validation.go, ValidateVolumeDevices.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from workflows.decide.manifest.fields.field_errors import invalid, not_found, required

Source = Mapping[str, Any]

_CLAIMS: Final = frozenset({"persistentVolumeClaim", "ephemeral"})


def validate_volume_devices(container: Source, volumes: Sequence[Source], path: str) -> Iterator[str]:
    """Validate a container's devices; `volumes` are the pod's valid volumes."""
    mounts = container.get("volumeMounts", ())
    known = {one.get("name"): one for one in volumes}
    names: set[str] = set()
    paths: set[str] = set()
    for index, device in enumerate(container.get("volumeDevices", ())):
        here = f"{path}.volumeDevices[{index}]"
        name, device_path = device.get("name", ""), device.get("devicePath", "")
        yield from _name(name, here, known, names)
        if not device_path:
            yield required(f"{here}.devicePath")
        if device_path in paths:
            yield invalid(f"{here}.devicePath", device_path, "must be unique")
        if ".." in device_path.split("/"):
            yield invalid(f"{here}.devicePath", device_path, "can not contain backsteps ('..')")
        else:
            paths.add(device_path)
        if any(one.get("name") == name for one in mounts):
            yield invalid(f"{here}.name", name, "must not already exist in volumeMounts")
        if any(one.get("mountPath") == device_path for one in mounts):
            yield invalid(f"{here}.devicePath", device_path, "must not already exist as a path in volumeMounts")


def _name(name: str, path: str, known: Mapping[Any, Source], taken: set[str]) -> Iterator[str]:
    if not name:
        yield required(f"{path}.name")
    if name in taken:
        yield invalid(f"{path}.name", name, "must be unique")
    if name not in known:
        yield not_found(f"{path}.name", name)
    elif not _CLAIMS & known[name].keys():
        said = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
        yield invalid(f"{path}.name", name, said)
    if name:
        taken.add(name)
