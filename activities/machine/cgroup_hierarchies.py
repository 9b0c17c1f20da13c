"""Finds where cgroups are mounted and which controllers hold a pod's limits.

Used by `cgroups`, by `node_capacity` for the kernel's features, and by the node process, which waits for the worker's first cgroups.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

LIMITED: Final = ("cpu", "memory", "pids", "hugetlb")
"""Controllers whose limits are written; on v1 the runtime creates the cgroups of the others."""
ENABLED: Final = ("cpuset", "cpu", "io", "memory", "hugetlb", "pids")
"""Controllers that v2 enables for the pods (cm/cgroup_manager_linux.go)."""
COUNTED: Final = ("cpuacct", "blkio")
"""Controllers of v1 that only count, in hierarchies of their own."""
_MOUNTS: Final = Path("/proc/self/mounts")


@dataclass(frozen=True, slots=True)
class Hierarchies:
    """The mounted hierarchies: one folder for each controller on v1, a single one on v2."""

    v2: Path | None
    v1: Mapping[str, Path]

    @classmethod
    def of_this_node(cls, mounts: Path = _MOUNTS) -> "Hierarchies":
        """Read them from the mount table.

        A hybrid node counts as v1, with the controllerless v2 tree as one more hierarchy, because the runtime creates
        cgroups there. A mount below the v2 tree is a part of it: for a unit with ProtectControlGroups, systemd (from 254
        on) mounts the unit's memory.pressure there, to be writable.
        """
        v1: dict[str, Path] = {}
        v2 = None
        for line in mounts.read_text().splitlines():
            _, place, kind, options = line.split()[:4]
            if kind == "cgroup2":
                if v2 is None or v2 not in Path(place).parents:
                    v2 = Path(place)
            elif kind == "cgroup":
                names = [one for one in options.split(",") if one in (*LIMITED, *ENABLED, *COUNTED)] or [place]
                v1.update(dict.fromkeys(names, Path(place)))
        if v1 and v2:
            v1[str(v2)] = v2
        return cls(v2=None if v1 else v2, v1=v1)

    def folders(self, cgroup: str) -> Iterator[Path]:
        """Yield a cgroup's folder in every hierarchy."""
        roots = [self.v2] if self.v2 else list(dict.fromkeys(self.v1.values()))
        for root in roots:
            yield root / cgroup.lstrip("/")

    def limits(self, cgroup: str) -> bool:
        """Report whether a cgroup is in every hierarchy in which limits are written."""
        roots = [self.v2] if self.v2 else [self.v1[one] for one in LIMITED if one in self.v1]
        return all((root / cgroup.lstrip("/")).is_dir() for root in roots)
