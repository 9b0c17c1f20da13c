"""The text of `kubelet_internal_checkpoint`, as the kubelet writes and reads it.

The rules are pkg/kubelet/cm/devicemanager/checkpoint and checkpointmanager/checksum: FNV-1a over a dump of the Go struct
with its type names (k8s.io/utils/dump ForHash). A file of a kubelet before 1.20 is not read, as by the kubelet.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from proto.json_object import WRONG_FIELD, NoJsonObject, read_object
from proto.kubernetes.container_hash import fnv32a
from workflows.decide.devices.assignments import Assigned, Assignments

STATE_FILE: Final = "device-plugins/kubelet_internal_checkpoint"
"""Below --root-dir."""
_NIL: Final = "<nil>"
_ENTRY: Final = ("PodUID", "ContainerName", "ResourceName")


class CheckpointError(ValueError):
    """The file cannot be used."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What the file says."""

    assignments: Assignments = field(default_factory=Assignments)
    registered: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By resource: its healthy devices."""


def written_checkpoint(checkpoint: Checkpoint) -> str:
    """Write the file."""
    entries = [
        {
            "PodUID": uid,
            "ContainerName": container,
            "ResourceName": resource,
            "DeviceIDs": {str(node): list(devices) for node, devices in sorted(assigned.devices.items())},
            "AllocResp": base64.b64encode(assigned.answer or b"").decode(),
        }
        for uid, container, resource, assigned in checkpoint.assignments.entries()
        if assigned.answer is not None
    ]
    data: dict[str, Any] = {
        "PodDeviceEntries": entries or None,
        "RegisteredDevices": {name: list(devices) for name, devices in sorted(checkpoint.registered.items())},
    }
    return json.dumps({"Data": data, "Checksum": _checksum(data)}, separators=(",", ":"))


def read_checkpoint(text: str) -> Checkpoint:
    """Read the file; raises CheckpointError."""
    try:
        content = read_object(text)
        data, checksum = content["Data"], int(content.get("Checksum") or 0)
        entries, registered = data.get("PodDeviceEntries") or [], data.get("RegisteredDevices") or {}
        actual = _checksum(data)
        assignments = Assignments()
        for one in entries:
            devices = {int(node): tuple(map(str, ids or ())) for node, ids in (one["DeviceIDs"] or {}).items()}
            assigned = Assigned(devices, base64.b64decode(one["AllocResp"] or "", validate=True))
            uid, container, resource = (str(one[name]) for name in _ENTRY)
            assignments = assignments.with_assigned(uid, container, resource, assigned)
        found = Checkpoint(assignments, {str(name): tuple(map(str, ids or ())) for name, ids in registered.items()})
    except NoJsonObject as error:
        raise CheckpointError(f"no content of a kubelet_internal_checkpoint: {error}") from error
    except (ValueError, TypeError, AttributeError, LookupError, OverflowError) as error:
        raise CheckpointError(f"no content of a kubelet_internal_checkpoint: {WRONG_FIELD}") from error
    if checksum != actual:
        raise CheckpointError(f"checkpoint is corrupted: actual checksum {actual}, expected {checksum}")
    return found


def _checksum(data: Mapping[str, Any]) -> int:
    entries, registered = data.get("PodDeviceEntries"), data.get("RegisteredDevices")
    return fnv32a(
        f"(checkpoint.checkpointData){{PodDeviceEntries:([]checkpoint.PodDevicesEntry)"
        f"{_NIL if entries is None else _list(_entry(one) for one in entries)} "
        f"RegisteredDevices:(map[string][]string){_of_strings(registered)}}}"
    )


def _entry(entry: Mapping[str, Any]) -> str:
    named = " ".join(f"{name}:(string){entry[name]}" for name in _ENTRY)
    given = entry["DeviceIDs"]
    devices = None if given is None else {int(node): ids for node, ids in given.items()}
    answer = entry["AllocResp"]
    encoded = _NIL if answer is None else _list(str(byte) for byte in base64.b64decode(answer, validate=True))
    return f"{{{named} DeviceIDs:(checkpoint.DevicesPerNUMA){_of_strings(devices)} AllocResp:([]uint8){encoded}}}"


def _of_strings(entries: Mapping[Any, Sequence[str] | None] | None) -> str:
    if entries is None:
        return _NIL
    shown = (f"{key}:{_NIL if entries[key] is None else _list(entries[key] or ())}" for key in sorted(entries))
    return f"map[{' '.join(shown)}]"


def _list(items: Any) -> str:
    return f"[{' '.join(items)}]"
