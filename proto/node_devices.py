"""`<root-dir>/tempolet/devices.json`: how many devices of plugins the node has, by resource; and `healthy_devices.json`: which.

`unanswered_devices.json` has what containers have though the answer of their plugin is lost: the kubelet's checkpoint can't have those.
`unused_plugins.json` has why plugins that have come are not in use, for the pods that wait for them.

Written by the worker when they change (`worker/devices/`). Read by the node process for the Node's capacity and for PodResources, and by
the poller, which gives pods devices.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from proto.node_files import write_node_file

FILE_NAME: Final = "devices.json"
HEALTHY: Final = "healthy_devices.json"
UNANSWERED: Final = "unanswered_devices.json"
UNUSED: Final = "unused_plugins.json"
_MOST: Final = 4 * 1024 * 1024
_MOST_LISTED: Final = 64 * 1024 * 1024
HealthyDevices = Mapping[str, Mapping[str, Sequence[int]]]
"""The NUMA nodes near each device, by resource and device."""
UnansweredDevices = Mapping[str, Mapping[str, Mapping[str, Mapping[int, tuple[str, ...]]]]]
"""Devices by NUMA node, by pod uid, container and resource."""


@dataclass(frozen=True, slots=True)
class DeviceCount:
    """The devices of one resource."""

    capacity: int = 0
    allocatable: int = 0
    """Those that are healthy."""
    gone: bool = False
    """Its plugin is gone for good: nobody can have any."""


def node_devices_path(root_dir: Path) -> Path:
    """Return the file's path."""
    return root_dir / "tempolet" / FILE_NAME


def write_node_devices(root_dir: Path, devices: Mapping[str, DeviceCount]) -> None:
    """Write the file atomically; raises OSError."""
    counts = {name: [one.capacity, one.allocatable, one.gone] for name, one in sorted(devices.items())}
    write_node_file(node_devices_path(root_dir), counts)


def read_node_devices(root_dir: Path) -> dict[str, DeviceCount]:
    """Read it; nothing if no plugin ever came, or the file is damaged."""
    try:
        with node_devices_path(root_dir).open("rb") as file:
            found = json.loads(file.read(_MOST))
        return {
            name: DeviceCount(int(capacity), int(allocatable), bool(gone))
            for name, (capacity, allocatable, gone) in found.items()
        }
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def healthy_devices_path(root_dir: Path) -> Path:
    """Return the path of the second file."""
    return root_dir / "tempolet" / HEALTHY


def write_healthy_devices(root_dir: Path, devices: HealthyDevices) -> None:
    """Write it atomically; raises OSError."""
    write_node_file(healthy_devices_path(root_dir), devices)


def read_healthy_devices(root_dir: Path) -> HealthyDevices:
    """Read it; nothing if there is none, or it is damaged."""
    try:
        with healthy_devices_path(root_dir).open("rb") as file:
            found = json.loads(file.read(_MOST_LISTED))
        return {
            str(resource): {str(name): tuple(map(int, nodes)) for name, nodes in devices.items()}
            for resource, devices in found.items()
        }
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def unanswered_devices_path(root_dir: Path) -> Path:
    """Return the path of the third file."""
    return root_dir / "tempolet" / UNANSWERED


def write_unanswered_devices(root_dir: Path, devices: UnansweredDevices) -> None:
    """Write it atomically; raises OSError. If there is nothing to say there is no file."""
    path = unanswered_devices_path(root_dir)
    if devices:
        write_node_file(path, devices)
    else:
        path.unlink(missing_ok=True)


def read_unanswered_devices(root_dir: Path) -> UnansweredDevices:
    """Read it; nothing if there is none, or it is damaged."""
    try:
        with unanswered_devices_path(root_dir).open("rb") as file:
            found = json.loads(file.read(_MOST_LISTED))
        return {
            str(uid): {
                str(container): {
                    str(resource): {int(node): tuple(map(str, ids)) for node, ids in nodes.items()}
                    for resource, nodes in resources.items()
                }
                for container, resources in containers.items()
            }
            for uid, containers in found.items()
        }
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return {}


def unused_plugins_path(root_dir: Path) -> Path:
    """Return the path of the fourth file."""
    return root_dir / "tempolet" / UNUSED


def write_unused_plugins(root_dir: Path, unused: Mapping[str, str]) -> None:
    """Write it atomically; raises OSError. If there is nothing to say there is no file."""
    path = unused_plugins_path(root_dir)
    if unused:
        write_node_file(path, dict(sorted(unused.items())))
    else:
        path.unlink(missing_ok=True)


def read_unused_plugins(root_dir: Path) -> dict[str, str]:
    """Read it; nothing if there is none, or it is damaged."""
    try:
        with unused_plugins_path(root_dir).open("rb") as file:
            return {str(resource): str(why) for resource, why in json.loads(file.read(_MOST)).items()}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return {}
