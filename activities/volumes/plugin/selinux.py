"""Whether a PersistentVolume is mounted with the SELinux label of its pod, instead of having its files labelled one by one.

The rules are the kubelet's (pkg/volume/util/selinux.go, cache/desired_state_of_world.go): by default only a volume that one pod alone may have is
mounted so, with the gate SELinuxMount each one. Then pods that share it must have one label. What the gate would refuse is counted without it.
Without SELinux there is no default label, and nothing is asked.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from activities.files.selinux import selinux_enabled
from activities.volumes.plugin.volume_type import NotProcessed, PodVolume, VolumeFailed
from proto.kubernetes.pod_containers import every_container

_RECURSIVE: Final = "Recursive"
_ALONE: Final = ("ReadWriteOncePod",)
_SHORT: Final = {"ReadWriteMany": "RWX", "ReadOnlyMany": "ROX", "ReadWriteOnce": "RWO", "ReadWriteOncePod": "RWOP"}
"""As metrics have them, the highest first (getVolumeAccessMode)."""
_MORE_THAN_A_LABEL: Final = re.compile(r"""["\\\s\x00-\x1f\x7f]""")
"""Characters that could end a mount option and begin another: libmount knows quotes, but no escaped ones."""
_MOST: Final = 64 * 1024
_PARTS: Final = 4


class LabelFinding(StrEnum):
    """What is counted of labels; the word in the metric's name."""

    CONTAINER = "container"
    """The label of a container cannot be made."""
    POD = "pod_context_mismatch"
    """Containers of one pod want different labels for one volume."""
    VOLUME = "volume_context_mismatch"
    """Pods want different labels for one volume."""
    ADMITTED = "volumes_admitted"


CountLabel = Callable[[str, str, str, bool], None]
"""Counts a finding, of a plugin, of an access mode, and whether it is an error."""


class LabelRefused(Exception):
    """The containers of a pod want no single label for a volume."""

    def __init__(self, finding: LabelFinding, message: str) -> None:
        super().__init__(message)
        self.finding = finding


@dataclass(frozen=True, slots=True)
class AskedLabel:
    """The label that a pod asks for the files of a PersistentVolume."""

    label: str
    """Empty: none in particular."""
    mode: str
    """The volume's access mode in metrics."""
    mounts: bool
    """Volumes of its access modes are mounted with a label."""

    @property
    def mounted(self) -> str:
        """The label to mount it with, by a driver that can."""
        return self.label if self.mounts else ""


@dataclass(frozen=True, slots=True)
class LabelUser:
    """Another pod that has the volume."""

    label: str
    """What it asked for."""
    leaving: bool = False
    """It is being terminated, and the volume will be unmounted."""


@dataclass(frozen=True, slots=True)
class LabelledVolume:
    """A volume in messages and metrics."""

    name: str
    """The PersistentVolume's."""
    unique_name: str
    plugin: str


def asked_label(volume: PodVolume, access_modes: Collection[str]) -> AskedLabel | None:
    """Return the label that a pod asks for a volume; None: SELinux is off, or labels that differ are the runtime's affair.

    Raises NotProcessed.
    """
    services = volume.services
    if not (default := services.settings.selinux_file_label):
        return None
    mode = next((short for long, short in _SHORT.items() if long in access_modes), "")
    mounts = mounts_labelled(access_modes, every_mode=services.settings.selinux_mount)
    policy = ((volume.pod_spec.get("spec") or {}).get("securityContext") or {}).get("seLinuxChangePolicy") or ""
    try:
        label = one_label(container_labels(volume.pod_spec, volume.name, default), policy)
    except LabelRefused as refused:
        services.timings.labelled(refused.finding, "", mode, mounts)
        if mounts:
            raise NotProcessed(str(refused)) from None
        return None
    return AskedLabel(label, mode, mounts)


def one_label(labels: Iterable[str], policy: str) -> str:
    """Return the label of the containers that use a volume, or ""; raises LabelRefused. `policy` is the pod's seLinuxChangePolicy."""
    different = sorted(set(labels))
    for one in different:
        if _MORE_THAN_A_LABEL.search(one):
            why = "it has a character that a mount option cannot have"
            raise LabelRefused(
                LabelFinding.CONTAINER, f"failed to construct SELinux label from context {_quoted(one)}: {why}"
            )
    if len(different) > 1:
        raise LabelRefused(LabelFinding.POD, f"multiple SELinux labels found: {','.join(different)}")
    return different[0] if different and policy != _RECURSIVE else ""


def mounts_labelled(access_modes: Collection[str], *, every_mode: bool) -> bool:
    """Report whether PersistentVolumes of these access modes are mounted with a label (VolumeSupportsSELinuxMount)."""
    return every_mode or tuple(access_modes) == _ALONE


def conflict(asked: AskedLabel, users: Iterable[LabelUser]) -> LabelUser | None:
    """Return a pod that has the volume with another label; one that stays before one that leaves.

    A volume that is not mounted with a label need not be unmounted first, so there a pod that leaves is no conflict.
    """
    others = [one for one in users if one.label != asked.label and (asked.mounts or not one.leaving)]
    return min(others, key=lambda one: (one.leaving, one.label), default=None)


def check_label(volume: LabelledVolume, asked: AskedLabel, users: Collection[LabelUser], count: CountLabel) -> None:
    """Refuse a volume that other pods have with another label, and count it; raises VolumeFailed."""
    found = conflict(asked, users)
    if found is not None and found.leaving:
        raise VolumeFailed(
            f"waiting for unmount of volume {_quoted(volume.unique_name)}, because it is already mounted to a different pod "
            f"with a different SELinux label"
        )
    if found is not None:
        count(LabelFinding.VOLUME, volume.plugin, asked.mode, asked.mounts)
        if asked.mounts:
            raise NotProcessed(
                f"conflicting SELinux labels of volume {volume.name}: {_quoted(found.label)} and {_quoted(asked.label)}"
            )
    if asked.label and not users:
        count(LabelFinding.ADMITTED, volume.plugin, asked.mode, False)


def label_option(label: str) -> list[str]:
    """Return the mount option of a label, quoted because it may have commas (AddSELinuxMountOption); none for no label."""
    return [f"context={_quoted(label)}"] if label else []


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def container_labels(pod: Mapping[str, Any], volume: str, default: str) -> Iterator[str]:
    """Yield the file label of each container that mounts a volume and says what it wants (GetPodVolumeNames).

    `default` is the system's for containers' files. A container that names no level gets a random one from its runtime, which nobody
    knows here: its volumes are labelled by the runtime.
    """
    spec = pod.get("spec") or {}
    of_pod = (spec.get("securityContext") or {}).get("seLinuxOptions") or {}
    for container in every_container(spec):
        options = (container.get("securityContext") or {}).get("seLinuxOptions") or of_pod
        if options.get("level") and any(one.get("name") == volume for one in container.get("volumeMounts") or ()):
            yield file_label(options, default)


def file_label(options: Mapping[str, Any], default: str) -> str:
    """Return the label of the files of a process with these options: their type is the system's (label_linux.go InitLabels)."""
    user, role, kind, level = default.split(":", _PARTS - 1)
    return ":".join((str(options.get("user") or user), role, kind, str(options.get("level") or level)))


def default_file_label(root: Path = Path("/")) -> str:
    """Return the system's label for containers' files; "" without SELinux, and if it says none (selinux_linux.go loadLabels)."""
    if not selinux_enabled(root):
        return ""
    kind = _assigned(root / "etc/selinux/config").get("SELINUXTYPE", "")
    of_policy = root / "etc/selinux" / kind / "contexts/lxc_contexts"
    found = _assigned(root / "usr/share/containers/selinux/contexts") or _assigned(of_policy)
    label = found.get("file", "")
    return label if label.count(":") >= _PARTS - 1 else ""


def _assigned(file: Path) -> dict[str, str]:
    """Read the assignments of a file; none if it cannot be read."""
    try:
        with file.open("rb") as opened:
            lines = opened.read(_MOST).decode(errors="replace").splitlines()
    except OSError:
        return {}
    pairs = (line.partition("=") for line in map(str.strip, lines) if not line.startswith((";", "#")))
    return {name.strip(): value.strip().strip('"') for name, equals, value in pairs if equals}
