"""A small node: one pod with two containers, as cgroup files and as the runtime lists them."""

from pathlib import Path

from activities.machine.cgroup_hierarchies import Hierarchies
from activities.machine.cgroup_names import CgroupNames
from tests.worker.stats.cgroup_files import V1, V2, write_v1, write_v2
from worker.stats.cgroups.network import Device
from worker.stats.cgroups.owners import Owner
from worker.stats.cgroups.usage import CgroupReader
from worker.stats.cgroups.v1 import CgroupsV1
from worker.stats.cgroups.v2 import CgroupsV2

ROOT = "/kubepods"
NAMES = CgroupNames.below("")
UID = "8f07a796-8f24-4c3c-a258-1bae6e3f4c00"
POD = f"{ROOT}/burstable/pod{UID}"
SANDBOX, MAIN, TWO, UNKNOWN = "5a" * 32, "c1" * 32, "c2" * 32, "ff" * 32
CGROUPS = (
    "/",
    ROOT,
    f"{ROOT}/burstable",
    f"{ROOT}/besteffort",
    POD,
    *(f"{POD}/{one}" for one in (SANDBOX, MAIN, TWO, UNKNOWN)),
)
DEVICE = Device("eth0", 2306, 25, 0, 1, 682, 9, 0, 0)
_SANDBOX = Owner(SANDBOX, "default", "web", UID, "", "registry.k8s.io/pause:3.10.2", 1000.5, SANDBOX)
OWNERS = {
    SANDBOX: _SANDBOX,
    MAIN: _SANDBOX._replace(id=MAIN, container="main", image='busybox:"1"', created=1001.25),
    TWO: _SANDBOX._replace(id=TWO, container="two", image="busybox:1", created=1002.0),
}


def reader_of_v1(root: Path) -> CgroupReader:
    """Write the node's cgroups as v1."""
    for cgroup in CGROUPS:
        roots = write_v1(root, cgroup, V1)
    return CgroupsV1(roots)


def reader_of_v2(root: Path) -> CgroupReader:
    """Write the node's cgroups as v2."""
    for cgroup in CGROUPS:
        write_v2(root, cgroup, V2)
    return CgroupsV2(root)


def hierarchies_of_v2(root: Path) -> Hierarchies:
    """Write them and return their mount points."""
    reader_of_v2(root)
    return Hierarchies(v2=root, v1={})
