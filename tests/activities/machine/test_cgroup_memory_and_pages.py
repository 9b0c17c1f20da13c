"""Do huge pages and kept memory reach the files of cgroup v1 and v2, and the sums the cgroups above the pods?"""

from pathlib import Path

import pytest

from activities.machine.cgroup_hierarchies import Hierarchies
from activities.machine.cgroups import Cgroups, CgroupSettings
from activities.machine.node_capacity import huge_page_sizes, swap_accounted, swap_capacity
from proto.kubernetes.resources.qos import QosClass
from proto.kubernetes.resources.resources import PodResources

PAGES = (("2MB", 4 << 20), ("1GB", 0))
CONTROLLERS = ("cpu", "memory", "pids", "hugetlb")


@pytest.fixture
def v1(tmp_path: Path) -> Hierarchies:
    """Return v1 hierarchies as plain folders."""
    return Hierarchies(v2=None, v1={name: tmp_path / name for name in CONTROLLERS})


def unified(root: Path, controllers: str) -> Hierarchies:
    """Return a v2 hierarchy as plain folders."""
    for folder in ("", "kubepods", "kubepods/burstable", "kubepods/besteffort", *PODS):
        (root / folder).mkdir(exist_ok=True)
        (root / folder / "cgroup.subtree_control").write_text("")
    (root / "cgroup.controllers").write_text(controllers)
    return Hierarchies(v2=root, v1={})


PODS = ("kubepods/podg", "kubepods/burstable/podb", "kubepods/burstable/podc")


@pytest.fixture
def v2(tmp_path: Path) -> Hierarchies:
    """Return a v2 hierarchy with the hugetlb controller."""
    return unified(tmp_path, "cpuset cpu io memory hugetlb pids\n")


def test_huge_pages_on_v1(v1: Hierarchies) -> None:
    """A limit of each size, none where nothing was asked."""
    Cgroups(hierarchies=v1).make_pod("b", QosClass.BURSTABLE, PodResources(2, huge_pages=PAGES))
    pod = v1.v1["hugetlb"] / "kubepods/burstable/podb"
    assert (pod / "hugetlb.2MB.limit_in_bytes").read_text() == str(4 << 20)
    assert (pod / "hugetlb.1GB.limit_in_bytes").read_text() == "0"


def test_huge_pages_on_v2(v2: Hierarchies, tmp_path: Path) -> None:
    """The same, and the controller is handed down."""
    Cgroups(hierarchies=v2).make_pod("b", QosClass.BURSTABLE, PodResources(2, huge_pages=PAGES))
    pod = tmp_path / "kubepods/burstable/podb"
    assert ((pod / "hugetlb.2MB.max").read_text(), (pod / "hugetlb.1GB.max").read_text()) == (str(4 << 20), "0")
    assert "+hugetlb" in (tmp_path / "kubepods/cgroup.subtree_control").read_text().split()


def test_reserved_huge_pages_are_limited_where_the_kernel_can(v2: Hierarchies, tmp_path: Path) -> None:
    """Also of a pod whose huge pages are reserved and not used; an older kernel has no such files, and gets none."""
    pod = tmp_path / "kubepods/burstable/podb"
    (pod / "hugetlb.2MB.rsvd.max").write_text("max")
    cgroups = Cgroups(hierarchies=v2)
    cgroups.make_pod("b", QosClass.BURSTABLE, PodResources(2, huge_pages=PAGES))
    assert (pod / "hugetlb.2MB.rsvd.max").read_text() == str(4 << 20)
    assert not (pod / "hugetlb.1GB.rsvd.max").exists()
    cgroups.resize_pod(
        "b", QosClass.BURSTABLE, PodResources(2, huge_pages=(("2MB", 8 << 20), ("1GB", 0))), only_raise=True
    )
    assert (pod / "hugetlb.2MB.rsvd.max").read_text() == str(8 << 20)


@pytest.mark.parametrize("version", [1, 2])
def test_a_kernel_that_does_not_count_huge_pages(tmp_path: Path, version: int) -> None:
    """Is told nothing of them."""
    places = Hierarchies(None, {"cpu": tmp_path / "cpu"}) if version == 1 else unified(tmp_path, "cpu memory pids\n")
    Cgroups(hierarchies=places).make_pod("b", QosClass.BURSTABLE, PodResources(2, huge_pages=PAGES))
    assert not list(tmp_path.rglob("hugetlb*"))


def test_pods_that_ask_for_no_cpu_lift_their_tier_by_nothing(v1: Hierarchies) -> None:
    """Burstable by their memory alone, they have the least shares themselves; their tier has what the others asked for."""
    cgroups = Cgroups(hierarchies=v1)
    cgroups.make_tiers()
    for uid in "abc":
        cgroups.make_pod(uid, QosClass.BURSTABLE, PodResources(2))
    tier = v1.v1["cpu"] / "kubepods/burstable/cpu.shares"
    assert tier.read_text() == "2"
    cgroups.make_pod("d", QosClass.BURSTABLE, PodResources(102))
    assert tier.read_text() == "102"


def kept(root: Path) -> tuple[str, str]:
    """Read what kubepods and the burstable tier keep."""
    return (root / "kubepods/memory.min").read_text(), (root / "kubepods/burstable/memory.low").read_text()


def test_memory_that_is_kept(v2: Hierarchies, tmp_path: Path) -> None:
    """Of the pod by its class; the tiers above keep the sums, through resizes, a restart and removals."""
    cgroups = Cgroups(hierarchies=v2, settings=CgroupSettings(memory_qos=True))
    cgroups.make_tiers()
    assert kept(tmp_path) == ("0", "0")
    cgroups.make_pod("g", QosClass.GUARANTEED, PodResources(2, unified={"memory.min": "100"}))
    cgroups.make_pod("b", QosClass.BURSTABLE, PodResources(2, unified={"memory.low": "20"}))
    cgroups.make_pod("c", QosClass.BURSTABLE, PodResources(2))
    assert (tmp_path / "kubepods/podg/memory.min").read_text() == "100"
    assert (tmp_path / "kubepods/burstable/podb/memory.low").read_text() == "20"
    assert kept(tmp_path) == ("120", "20")
    cgroups.resize_pod("b", QosClass.BURSTABLE, PodResources(2, unified={"memory.low": "30"}), only_raise=False)
    assert kept(tmp_path) == ("130", "30")
    again = Cgroups(hierarchies=v2, settings=CgroupSettings(memory_qos=True))
    again.make_tiers()
    assert kept(tmp_path) == ("130", "30")
    for file in (tmp_path / "kubepods/podg").iterdir():
        file.unlink()  # the kernel's go with the folder
    again.remove_pod("g")
    assert kept(tmp_path) == ("30", "30")


@pytest.mark.parametrize("version", [1, 2])
def test_without_the_gate_nothing_is_kept(tmp_path: Path, version: int) -> None:
    """Nor on v1, which can't."""
    places = Hierarchies(None, {"cpu": tmp_path / "cpu"}) if version == 1 else unified(tmp_path, "cpu memory pids\n")
    cgroups = Cgroups(hierarchies=places, settings=CgroupSettings(memory_qos=version == 1))
    cgroups.make_tiers()
    cgroups.make_pod("c", QosClass.BURSTABLE, PodResources(2))
    assert not list(tmp_path.rglob("memory.min"))
    assert not list(tmp_path.rglob("memory.low"))


def test_what_the_machine_has(tmp_path: Path) -> None:
    """Sizes of huge pages, bytes of swap."""
    for name in ("hugepages-1048576kB", "hugepages-2048kB"):
        (tmp_path / name).mkdir()
    assert huge_page_sizes(tmp_path) == (2 << 20, 1 << 30)
    assert huge_page_sizes(tmp_path / "none") == ()
    (tmp_path / "meminfo").write_text("MemTotal:  100 kB\nSwapTotal:   2048 kB\nSwapFree: 1 kB\n")
    assert swap_capacity(tmp_path / "meminfo") == 2 << 20


def test_whether_swap_is_counted(v1: Hierarchies, v2: Hierarchies, tmp_path: Path) -> None:
    """By the files that are there only then."""
    v1.v1["memory"].mkdir(exist_ok=True)
    assert not swap_accounted(v1)
    assert not swap_accounted(v2)
    (v1.v1["memory"] / "memory.memsw.limit_in_bytes").write_text("")
    (tmp_path / "kubepods/memory.swap.max").write_text("max")
    assert swap_accounted(v1)
    assert swap_accounted(v2)
