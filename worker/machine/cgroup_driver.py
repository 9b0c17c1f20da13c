"""The cgroup driver of a node, recorded by its worker for poller and node process.

The worker decides when it starts, before it makes the first cgroup. The others only look for cgroups, so they read what
was decided each time, and need not ask the runtime, which may be away.
"""

from pathlib import Path
from typing import Final

from activities.files.atomic_files import write_atomically
from activities.machine.cgroup_hierarchies import Hierarchies
from activities.machine.cgroup_names import CgroupDriver, CgroupNames
from proto.kubernetes.resources.qos import QosClass

FILE: Final = "cgroup-driver"
_LONGEST: Final = 64


def record_driver(state_dir: Path, driver: CgroupDriver) -> None:
    """Record it; raises OSError."""
    if recorded_driver(state_dir) is not driver:
        write_atomically(state_dir / FILE, f"{driver}\n".encode())


def recorded_driver(state_dir: Path) -> CgroupDriver:
    """Return what the worker recorded last; before its first start cgroupfs, as there are no cgroups then."""
    try:
        with (state_dir / FILE).open("rb") as file:
            return CgroupDriver(file.read(_LONGEST).decode().strip())
    except (OSError, ValueError):
        return CgroupDriver.CGROUPFS


def recorded_names(state_dir: Path, cgroup_root: str) -> CgroupNames:
    """Return the names of the node's cgroups below cgroupRoot; raises ValueError."""
    return CgroupNames.below(cgroup_root, recorded_driver(state_dir))


def tiers_made(state_dir: Path, cgroup_root: str) -> bool:
    """Report whether the worker has made the cgroups that pods are put into."""
    try:
        names, hierarchies = recorded_names(state_dir, cgroup_root), Hierarchies.of_this_node()
    except ValueError:  # no name for them: the worker says why, and ends
        return False
    return all(hierarchies.limits(names.tier(qos)) for qos in QosClass)
