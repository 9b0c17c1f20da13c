"""What the cgroups of pods are called, by the driver that the runtime uses; pure.

Every path of a pod's cgroup comes from here: those that the worker makes, `cgroup_parent` in the sandbox's configuration,
and those that the statistics read. With the cgroupfs driver a cgroup is a folder, `/kubepods/burstable/pod<uid>`. With the
systemd driver it is a slice, whose name holds the names of its parents:
`/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid>.slice`, with underscores for the dashes in each part
(pkg/kubelet/cm/cgroup_manager_linux.go ToSystemd).
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Final

from activities.files.pod_paths import plain_name
from proto.kubernetes.resources.qos import QosClass

KUBEPODS: Final = "kubepods"
_POD: Final = "pod"
_SLICE: Final = ".slice"
_TIERS: Final = {QosClass.GUARANTEED: "", QosClass.BURSTABLE: "burstable", QosClass.BEST_EFFORT: "besteffort"}
_PART: Final = re.compile(r"[A-Za-z0-9:_.\\-]+")
"""What systemd takes in a unit's name; an @ would make it a template's."""
_LONGEST_UNIT: Final = 255
_SCOPE: Final = re.compile(r"(?:cri-containerd|crio|cri-dockerd|docker)-([A-Za-z0-9]+)\.scope")
"""The scope that runc makes for a container; CRI-O's `crio-conmon-<id>.scope` holds none."""


class CgroupDriver(StrEnum):
    """Who makes cgroups, in KubeletConfiguration's words."""

    CGROUPFS = "cgroupfs"
    SYSTEMD = "systemd"


@dataclass(frozen=True, slots=True)
class CgroupNames:
    """The names of one node's cgroups."""

    driver: CgroupDriver
    parts: tuple[str, ...]
    """The kubelet's name of kubepods: the parts of cgroupRoot, and `kubepods`."""

    @classmethod
    def below(cls, cgroup_root: str, driver: CgroupDriver = CgroupDriver.CGROUPFS) -> "CgroupNames":
        """Return the names below KubeletConfiguration's cgroupRoot; raises ValueError for one that cannot be."""
        parts = PurePosixPath("/", cgroup_root).parts[1:]
        if ".." in parts:
            raise ValueError(f"cgroupRoot {cgroup_root!r} leads upward; name a cgroup below the node's root")
        found = cls(driver, (*parts, KUBEPODS))
        try:
            found.path()
        except ValueError as error:
            raise ValueError(f"cgroupRoot {cgroup_root!r}: {error}") from error
        return found

    @property
    def systemd(self) -> bool:
        """Report whether cgroups are slices of systemd."""
        return self.driver is CgroupDriver.SYSTEMD

    def path(self, *below: str) -> str:
        """Return the path of kubepods or of a cgroup below it, from the hierarchy's root; raises ValueError."""
        if not self.systemd:
            return str(PurePosixPath("/", *self.parts, *below))
        parts, folders = [], []
        for part in (*self.parts, *below):
            if not _PART.fullmatch(part):
                raise ValueError(f"{part!r} is no part of a slice's name: letters, digits, and any of :_.\\- only")
            parts.append(part.replace("-", "_"))
            folders.append("-".join(parts) + _SLICE)
        if len(folders[-1]) > _LONGEST_UNIT:
            raise ValueError(f"{folders[-1]!r} has more than {_LONGEST_UNIT} characters, the most of a unit's name")
        return str(PurePosixPath("/", *folders))

    def existing(self, cgroup: str) -> str:
        """Return the path of a cgroup that the operator has made and names, by its path or as a slice; raises ValueError.

        The driver's form of the name, as the kubelet reads it (cm/cgroup_manager_linux.go CgroupName): with the systemd
        driver only the last part counts, `/a.slice/a-b.slice` and `a-b.slice` are the same.
        """
        parts = PurePosixPath("/", cgroup).parts[1:]
        if not parts or ".." in parts:
            raise ValueError(f"{cgroup!r} is no cgroup below the node's root")
        if self.systemd:
            parts = tuple(part.replace("_", "-") for part in parts[-1].removesuffix(_SLICE).split("-"))
        return CgroupNames(self.driver, parts).path()

    def above(self) -> tuple[str, ...]:
        """Return the paths of cgroupRoot and those above it, the lowest first."""
        roots = (CgroupNames(self.driver, self.parts[:length]) for length in range(len(self.parts) - 1, 0, -1))
        return tuple(one.path() for one in roots)

    def tier(self, qos: QosClass) -> str:
        """Return the path of a QoS class's cgroup; that of guaranteed pods is kubepods itself."""
        return self.path(*filter(None, (_TIERS[qos],)))

    def pod(self, uid: str, qos: QosClass) -> str:
        """Return the path of a pod's cgroup, which is its cgroup_parent too; raises ValueError, UnsafeName."""
        if self.systemd and "_" in uid:  # it would be another pod's: dashes become underscores (NewCgroupName)
            raise ValueError(f"pod uid {uid!r}: with the systemd cgroup driver it must not have an underscore")
        return self.path(*filter(None, (_TIERS[qos],)), f"{_POD}{plain_name(uid, 'pod uid')}")

    def pod_uid(self, folder: str, qos: QosClass) -> str:
        """Return the uid of the pod whose cgroup is this folder of a tier; empty: no pod's."""
        if not self.systemd:
            return folder.removeprefix(_POD) if folder.startswith(_POD) else ""
        tier = PurePosixPath(self.tier(qos)).name.removesuffix(_SLICE)
        start = f"{tier}-{_POD}"
        if not folder.startswith(start) or not folder.endswith(_SLICE):
            return ""
        return folder.removeprefix(start).removesuffix(_SLICE).replace("_", "-")

    def container_id(self, folder: str) -> str:
        """Return the id of the container or sandbox whose cgroup is this folder of a pod's; empty: none's."""
        if not self.systemd:
            return folder
        found = _SCOPE.fullmatch(folder)
        return found[1] if found else ""


def unit(path: str) -> str:
    """Return the name of the slice that a path is of."""
    return PurePosixPath(path).name


def parent_unit(path: str) -> str:
    """Return the name of the slice above a slice's path; that of the whole machine is `-.slice`."""
    return PurePosixPath(path).parent.name or "-.slice"
