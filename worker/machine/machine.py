"""Facts about the machine that do not change while it runs: its ids, kernel and size.

Used for the Node and for /metrics/cadvisor. Read from the same files as cAdvisor does (google/cadvisor machine/info.go,
utils/sysfs). A missing file leaves its field empty.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from activities.machine.node_capacity import architecture, cpu_capacity, huge_pages, memory_capacity, swap_capacity

_ETC_RELEASE: Final = ("etc/os-release", "usr/lib/os-release")
_MACHINE_ID: Final = ("etc/machine-id", "var/lib/dbus/machine-id")
_BOOT_ID: Final = ("proc/sys/kernel/random/boot_id",)
_SYSTEM_UUID: Final = (
    "sys/class/dmi/id/product_uuid",
    "proc/device-tree/system-id",
    "proc/device-tree/vm,uuid",
    "etc/machine-id",
)
_PRETTY_NAME: Final = re.compile(r"^PRETTY_NAME=(.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine, with the fields of nodeInfo; cpu in millicores, the rest in bytes."""

    machine_id: str = ""
    system_uuid: str = ""
    boot_id: str = ""
    kernel_version: str = ""
    os_image: str = ""
    architecture: str = "amd64"
    cpu_milli: int = 0
    memory_bytes: int = 0
    swap_bytes: int = 0
    huge_pages: Mapping[int, int] = field(default_factory=dict)
    """Page size -> bytes reserved."""


def own_labels(name: str) -> dict[str, str]:
    """Return the labels of a Node that the kubelet itself sets (kubelet_node_status.go initialNode)."""
    return {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": architecture()}


def read_machine(root: Path = Path("/")) -> Machine:
    """Read this machine's facts; blocks briefly."""
    return Machine(
        machine_id=_first(root, _MACHINE_ID),
        system_uuid=_first(root, _SYSTEM_UUID),
        boot_id=_first(root, _BOOT_ID),
        kernel_version=os.uname().release,
        os_image=_os_image(_first(root, _ETC_RELEASE)),
        architecture=architecture(),
        cpu_milli=cpu_capacity(),
        memory_bytes=memory_capacity(),
        swap_bytes=swap_capacity(),
        huge_pages=huge_pages(),
    )


def _first(root: Path, names: Sequence[str]) -> str:
    """Return the content of the first readable file."""
    for name in names:
        try:
            return (root / name).read_text("utf-8", "replace").strip().strip("\0")
        except OSError:
            continue
    return ""


def _os_image(release: str) -> str:
    if not release:
        return "Unknown"
    named = _PRETTY_NAME.search(release)
    return named[1].strip().strip('"') if named else "Linux"
