"""Are the cgroup of all pods and those of the node's services limited, on v1, v2 and by systemd, and put right again?"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from activities.machine import node_cgroups
from activities.machine.cgroup_files import NodeLimits
from activities.machine.cgroup_hierarchies import Hierarchies
from activities.machine.cgroup_names import CgroupDriver, CgroupNames
from activities.machine.cgroups import Cgroups
from activities.machine.node_cgroups import NodeCgroups
from activities.machine.slices import Slices
from proto.kubernetes.resources.qos import QosClass
from proto.kubernetes.resources.resources import PodResources
from tests.activities.machine.test_slices import RecordedUnits

MIB = 1024 * 1024
LIMITS = NodeLimits(cpu_shares=2048, memory=64 * MIB, pids=1000, huge_pages=(("2MB", 4 * MIB),))
V1_FILES = {
    "cpu": {"cpu.shares": "1024"},
    "memory": {"memory.limit_in_bytes": "9223372036854771712"},
    "pids": {"pids.max": "max"},
    "hugetlb": {"hugetlb.2MB.limit_in_bytes": "9223372036854771712"},
}
V2_FILES = {"cpu.weight": "100", "memory.min": "0", "memory.max": "max", "pids.max": "max", "hugetlb.2MB.max": "max"}
V2_LIMITED = {"cpu.weight": "79", "memory.max": str(64 * MIB), "pids.max": "1000", "hugetlb.2MB.max": str(4 * MIB)}
HOLDER = """
import pathlib, os, sys
pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))
held = os.urandom(32 << 20)
print("held", flush=True)
sys.stdin.read()
"""
"""Goes into a cgroup, and holds 32 MiB there until its input ends."""
CONTROLLERS = "cpuset cpu io memory hugetlb pids"


def v1_at(root: Path, cgroup: str) -> Hierarchies:
    """Return v1 hierarchies as plain folders, with the kernel's files in one cgroup."""
    for controller, files in V1_FILES.items():
        folder = root / controller / cgroup
        folder.mkdir(parents=True)
        for name, text in files.items():
            (folder / name).write_text(text)
    return Hierarchies(v2=None, v1={controller: root / controller for controller in V1_FILES})


def v2_at(root: Path, cgroup: str) -> Hierarchies:
    """Return a v2 hierarchy as plain folders, with the kernel's files in one cgroup."""
    folder = root / cgroup
    folder.mkdir(parents=True)
    for name, text in V2_FILES.items():
        (folder / name).write_text(text)
    for one in (root, folder):
        (one / "cgroup.controllers").write_text(CONTROLLERS)
    return Hierarchies(v2=root, v1={})


def files_of(root: Path, cgroup: str, names: dict[str, str]) -> dict[str, str]:
    """Read some files of a cgroup on v2."""
    return {name: (root / cgroup / name).read_text() for name in names}


def test_all_pods_on_v1(tmp_path: Path) -> None:
    """In each hierarchy; a second time nothing is written."""
    cgroups = NodeCgroups(CgroupNames.below("/own"), v1_at(tmp_path, "own/kubepods"), None)
    assert cgroups.limit(cgroups.pods, LIMITS)
    assert (tmp_path / "cpu/own/kubepods/cpu.shares").read_text() == "2048"
    assert (tmp_path / "memory/own/kubepods/memory.limit_in_bytes").read_text() == str(64 * MIB)
    assert (tmp_path / "pids/own/kubepods/pids.max").read_text() == "1000"
    assert (tmp_path / "hugetlb/own/kubepods/hugetlb.2MB.limit_in_bytes").read_text() == str(4 * MIB)
    assert not cgroups.limit(cgroups.pods, LIMITS)


def test_all_pods_on_v2(tmp_path: Path) -> None:
    """What another process has changed is put right, and only that is written."""
    cgroups = NodeCgroups(CgroupNames.below("/"), v2_at(tmp_path, "kubepods"), None)
    assert cgroups.limit("/kubepods", LIMITS)
    assert files_of(tmp_path, "kubepods", V2_LIMITED) == V2_LIMITED
    (tmp_path / "kubepods/memory.max").write_text("max\n")
    (tmp_path / "kubepods/pids.max").write_text("1000\n")
    assert cgroups.limit("/kubepods", LIMITS)
    assert files_of(tmp_path, "kubepods", V2_LIMITED) == V2_LIMITED | {"pids.max": "1000\n"}


def test_memory_counts_in_whole_pages(tmp_path: Path) -> None:
    """The kernel rounds a limit down; it differs from nothing then."""
    page = os.sysconf("SC_PAGE_SIZE")
    cgroups = NodeCgroups(CgroupNames.below("/"), v2_at(tmp_path, "kubepods"), None)
    (tmp_path / "kubepods/memory.max").write_text(f"{3 * page}\n")
    assert not cgroups.limit("/kubepods", NodeLimits(memory=3 * page + 5))
    assert cgroups.limit("/kubepods", NodeLimits(memory=4 * page + 5))


@pytest.mark.parametrize(
    ("limits", "written"),
    [
        pytest.param(NodeLimits(), {}, id="nothing"),
        pytest.param(NodeLimits(cpu_shares=2), {"cpu.weight": "1"}, id="compressible"),
        pytest.param(NodeLimits(memory=0), {}, id="no-memory-left-is-no-limit-as-in-the-kubelet"),
        pytest.param(NodeLimits(pids=0), {"pids.max": "1"}, id="no-pids-left-is-one"),
        pytest.param(
            NodeLimits(memory=MIB, protected=True),
            {"memory.min": str(MIB), "memory.max": str(MIB)},
            id="protected-by-memory-qos",
        ),
        pytest.param(NodeLimits(huge_pages=(("2MB", 0),)), {"hugetlb.2MB.max": "0"}, id="no-huge-pages"),
    ],
)
def test_what_is_not_limited_stays(tmp_path: Path, limits: NodeLimits, written: dict[str, str]) -> None:
    """A reservation names only some resources."""
    NodeCgroups(CgroupNames.below("/"), v2_at(tmp_path, "kube"), None).limit("/kube", limits)
    assert files_of(tmp_path, "kube", V2_FILES) == V2_FILES | written


def test_systemd_is_told_first_and_once(tmp_path: Path) -> None:
    """A `daemon-reload` writes what systemd knows; a right file alone does not say that it knows."""
    folder = "kubepods.slice"
    units, names = RecordedUnits(tmp_path), CgroupNames.below("", CgroupDriver.SYSTEMD)
    hierarchies = v2_at(tmp_path, folder)
    (tmp_path / folder / "memory.max").write_text(str(64 * MIB))
    cgroups = NodeCgroups(names, hierarchies, Slices(units, v2=True))
    memory = NodeLimits(memory=64 * MIB)
    assert not cgroups.limit(cgroups.pods, memory)
    assert units.limits == {folder: {"MemoryMax": 64 * MIB}}
    units.limits.clear()
    assert not cgroups.limit(cgroups.pods, memory)
    assert units.limits == {}
    (tmp_path / folder / "memory.max").write_text("max")
    assert cgroups.limit(cgroups.pods, memory)
    assert units.limits == {folder: {"MemoryMax": 64 * MIB}}
    assert cgroups.limit(cgroups.pods, LIMITS)
    assert units.limits[folder] == {"CPUWeight": 79, "MemoryMax": 64 * MIB, "TasksMax": 1000}


@pytest.mark.parametrize(
    ("driver", "given", "path", "shown"),
    [
        pytest.param(CgroupDriver.CGROUPFS, "/a/kube", "/a/kube", '["a" "kube"]', id="a-path"),
        pytest.param(CgroupDriver.CGROUPFS, "kube", "/kube", '["kube"]', id="without-a-slash"),
        pytest.param(CgroupDriver.CGROUPFS, "/k.slice", "/k.slice", '["k.slice"]', id="a-slice-is-a-path-here"),
        pytest.param(CgroupDriver.SYSTEMD, "/kube.slice", "/kube.slice", '["kube"]', id="a-slice"),
        pytest.param(CgroupDriver.SYSTEMD, "kube", "/kube.slice", '["kube"]', id="a-slice-without-its-suffix"),
        pytest.param(
            CgroupDriver.SYSTEMD, "/a.slice/a-b_c.slice", "/a.slice/a-b_c.slice", '["a" "b-c"]', id="a-slice-in-a-slice"
        ),
    ],
)
def test_names_of_the_operators_cgroups(
    tmp_path: Path, driver: CgroupDriver, given: str, path: str, shown: str
) -> None:
    """As the kubelet reads and writes them."""
    slices = Slices(RecordedUnits(tmp_path), v2=True)
    cgroups = NodeCgroups(CgroupNames.below("/own", driver), v2_at(tmp_path, "x"), slices)
    assert (cgroups.existing(given), cgroups.shown(path)) == (path, shown)


@pytest.mark.parametrize("given", ["/", "..", "/a/../..", ""])
def test_no_name_leads_out(tmp_path: Path, given: str) -> None:
    """The root has no limits, and what is above it is not ours."""
    with pytest.raises(ValueError, match="no cgroup below the node's root"):
        NodeCgroups(CgroupNames.below("/"), v2_at(tmp_path, "x"), None).existing(given)


def test_a_missing_cgroup_of_v1_is_told_by_its_paths(tmp_path: Path) -> None:
    """In the hierarchies that the kubelet looks at."""
    found = v1_at(tmp_path, "kube")
    (tmp_path / "systemd").mkdir()
    (tmp_path / "devices").mkdir()
    others = {str(tmp_path / one): tmp_path / one for one in ("systemd", "devices")}
    cgroups = NodeCgroups(CgroupNames.below("/"), Hierarchies(v2=None, v1={**found.v1, **others}), None)
    assert cgroups.missing("/kube") == f'cgroup ["kube"] has some missing paths: {tmp_path}/systemd/kube'
    (tmp_path / "systemd/kube").mkdir()
    assert cgroups.missing("/kube") == ""


def test_a_missing_cgroup_of_v2_is_told_by_its_controllers(tmp_path: Path) -> None:
    """Or because there is none."""
    cgroups = NodeCgroups(CgroupNames.below("/"), v2_at(tmp_path, "kube"), None)
    assert cgroups.missing("/kube") == ""
    (tmp_path / "kube/cgroup.controllers").write_text("cpu memory")
    assert cgroups.missing("/kube") == 'cgroup ["kube"] has some missing controllers: cpuset, hugetlb, io, pids'
    gone = f"{tmp_path}/gone/cgroup.controllers: No such file or directory"
    assert cgroups.missing("/gone") == f'could not read controllers for cgroup ["gone"]: {gone}'


def test_a_cgroup_that_is_gone_cannot_be_limited(tmp_path: Path) -> None:
    """It is told, not passed over."""
    cgroups = NodeCgroups(CgroupNames.below("/"), v2_at(tmp_path, "kube"), None)
    with pytest.raises(FileNotFoundError):
        cgroups.limit("/gone", LIMITS)


def test_a_pod_with_huge_pages_finds_those_that_were_reserved_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit of all pods is raised before, never lowered, and not for a pod without any."""
    monkeypatch.setattr(node_cgroups, "huge_page_capacity", lambda: (("2MB", 8 * MIB),))
    hierarchies = v1_at(tmp_path, "kubepods")
    file = tmp_path / "hugetlb/kubepods/hugetlb.2MB.limit_in_bytes"
    file.write_text(str(4 * MIB))
    cgroups = Cgroups("/", hierarchies=hierarchies)
    cgroups.make_pod("u", QosClass.GUARANTEED, PodResources(cpu_shares=2, huge_pages=(("2MB", 0),)))
    assert file.read_text() == str(4 * MIB)
    cgroups.make_pod("v", QosClass.GUARANTEED, PodResources(cpu_shares=2, huge_pages=(("2MB", 2 * MIB),)))
    assert file.read_text() == str(8 * MIB)
    file.write_text(str(16 * MIB))
    cgroups.make_pod("w", QosClass.GUARANTEED, PodResources(cpu_shares=2, huge_pages=(("2MB", 2 * MIB),)))
    assert file.read_text() == str(16 * MIB)


@pytest.fixture
def real() -> Iterator[NodeCgroups]:
    """Make the pods' cgroup of a node of this machine, and remove it."""
    cgroups = Cgroups(f"/tempolet-limits-{os.getpid()}")
    cgroups.make_tiers()
    yield cgroups.node
    cgroups.remove_tiers()
    for folder in Hierarchies.of_this_node().folders(f"/tempolet-limits-{os.getpid()}"):
        if folder.is_dir():
            folder.rmdir()


def of_memory(cgroups: NodeCgroups) -> Path:
    """Return the folder of the memory controller."""
    found = Hierarchies.of_this_node()
    return (found.v2 or found.v1["memory"]) / cgroups.pods.lstrip("/")


def test_the_kernel_takes_the_limits_and_keeps_them(real: NodeCgroups) -> None:
    """With an amount that is no whole number of pages; a second time nothing differs."""
    wanted = NodeLimits(cpu_shares=2048, memory=64 * MIB + 5, pids=4_000_000)
    assert real.limit(real.pods, wanted)
    name = "memory.max" if Hierarchies.of_this_node().v2 else "memory.limit_in_bytes"
    assert int((of_memory(real) / name).read_text()) == 64 * MIB
    assert not real.limit(real.pods, wanted)
    (of_memory(real) / name).write_text(str(128 * MIB))
    assert real.limit(real.pods, wanted)
    assert int((of_memory(real) / name).read_text()) == 64 * MIB


@pytest.mark.skipif(Hierarchies.of_this_node().v2 is not None, reason="v2 takes any limit, and kills for it")
def test_a_limit_below_what_is_used_fails_in_runcs_words(real: NodeCgroups) -> None:
    """On v1, as long as the pods use more."""
    command = [sys.executable, "-c", HOLDER, str(of_memory(real) / "cgroup.procs")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(
            OSError, match=r"^\[Errno 16\] unable to set memory limit to 1048576 \(current usage: \d{8,},"
        ):
            real.limit(real.pods, NodeLimits(memory=MIB))
        holder.communicate()
    assert real.limit(real.pods, NodeLimits(memory=MIB))
