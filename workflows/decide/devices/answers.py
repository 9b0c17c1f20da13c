"""How a container uses its devices: what plugins answered to Allocate, merged.

The rules are deviceRunContainerOptions in pkg/kubelet/cm/devicemanager/pod_devices.go. The kubelet takes resources in any order, here
their names decide; of two settings of the same name the first counts.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class DeviceMount:
    """A path of the host that a device brings."""

    container_path: str
    host_path: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class DeviceNode:
    """A device file that a device brings."""

    container_path: str
    host_path: str
    permissions: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a container gets with its devices."""

    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    mounts: tuple[DeviceMount, ...] = ()
    devices: tuple[DeviceNode, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    cdi_devices: tuple[str, ...] = ()


def merged(answers: Mapping[str, Usage]) -> Usage:
    """Merge the answers for one container, by resource."""
    in_order = [answers[name] for name in sorted(answers)]
    mounts: dict[str, DeviceMount] = {}
    devices: dict[str, DeviceNode] = {}
    env: dict[str, str] = {}
    annotations: dict[str, str] = {}
    for one in in_order:
        env = {**one.env, **env}
        annotations = {**one.annotations, **annotations}
        for mount in one.mounts:
            mounts.setdefault(mount.container_path, mount)
        for device in one.devices:
            devices.setdefault(device.container_path, device)
    cdi_devices = dict.fromkeys(name for one in in_order for name in one.cdi_devices)
    return Usage(env, tuple(mounts.values()), tuple(devices.values()), annotations, tuple(cdi_devices))


def conflicts(answers: Mapping[str, Usage]) -> Iterator[str]:
    """Name what is set differently by two answers, or twice by one; no value is shown."""
    seen: dict[tuple[str, str], str] = {}
    for one in (answers[name] for name in sorted(answers)):
        for kind, name, setting in _settings(one):
            if seen.setdefault((kind, name), setting) != setting:
                yield f"{kind} {name}"


def _settings(usage: Usage) -> Iterator[tuple[str, str, str]]:
    for name, value in usage.env.items():
        yield "environment variable", name, value
    for name, value in usage.annotations.items():
        yield "annotation", name, value
    for mount in usage.mounts:
        yield "mount", mount.container_path, mount.host_path
    for device in usage.devices:
        yield "device", device.container_path, device.host_path
