"""With the systemd driver: is systemd told each limit that a file has, before it is written, on v1 and v2?"""

from pathlib import Path

import pytest

from activities.machine.cgroup_hierarchies import Hierarchies
from activities.machine.cgroup_names import CgroupDriver, CgroupNames
from activities.machine.cgroups import Cgroups, CgroupSettings, pods_running
from activities.machine.slice_properties import Property, new_slice, properties_of
from activities.machine.slices import Slices
from proto.kubernetes.resources.qos import QosClass
from proto.kubernetes.resources.resources import PodResources

INFINITY = 2**64 - 1
NAMES = CgroupNames.below("", CgroupDriver.SYSTEMD)
BURSTABLE = QosClass.BURSTABLE
POD = "kubepods-burstable-poda_b.slice"
FOLDER = f"kubepods.slice/kubepods-burstable.slice/{POD}"
LIMITED = PodResources(cpu_shares=512, cpu_quota=12345, cpu_period=100000, memory_limit=64, huge_pages=(("2MB", 4096),))


@pytest.mark.parametrize(
    ("files", "version", "expected"),
    [
        pytest.param([("cpu.weight", "20")], 252, [("CPUWeight", 20)], id="v2-weight"),
        pytest.param([("cpu.shares", "512")], 252, [("CPUShares", 512)], id="v1-shares"),
        pytest.param([("memory.max", "64")], 252, [("MemoryMax", 64)], id="v2-memory"),
        pytest.param([("memory.limit_in_bytes", "64")], 252, [("MemoryLimit", 64)], id="v1-memory"),
        pytest.param([("memory.min", "1"), ("memory.low", "2")], 252, [("MemoryMin", 1), ("MemoryLow", 2)], id="qos"),
        pytest.param([("memory.high", "max")], 252, [("MemoryHigh", INFINITY)], id="v2-no-throttling"),
        pytest.param([("memory.swap.max", "0")], 252, [("MemorySwapMax", 0)], id="v2-no-swap"),
        pytest.param([("pids.max", "100")], 252, [("TasksMax", 100)], id="pids"),
        pytest.param([("hugetlb.2MB.max", "4096")], 252, [], id="huge-pages-have-no-property"),
        pytest.param(
            [("cpu.max", "50000 100000")],
            252,
            [("CPUQuotaPeriodUSec", 100000), ("CPUQuotaPerSecUSec", 500000)],
            id="v2-quota",
        ),
        pytest.param(
            [("cpu.max", "max 100000")],
            252,
            [("CPUQuotaPeriodUSec", 100000), ("CPUQuotaPerSecUSec", INFINITY)],
            id="v2-no-quota",
        ),
        pytest.param([("cpu.max", "50000 100000")], 241, [("CPUQuotaPerSecUSec", 500000)], id="no-period-before-242"),
        pytest.param(
            [("cpu.cfs_period_us", "10000"), ("cpu.cfs_quota_us", "12345")],
            252,
            [("CPUQuotaPeriodUSec", 10000), ("CPUQuotaPerSecUSec", 1240000)],
            id="v1-quota-is-rounded-up-to-a-percent",
        ),
        pytest.param(
            [("cpu.cfs_quota_us", "-1")],
            252,
            [("CPUQuotaPeriodUSec", 100000), ("CPUQuotaPerSecUSec", INFINITY)],
            id="v1-the-period-that-stays-counts",
        ),
        pytest.param([("cpu.cfs_period_us", "100000")], 252, [], id="v1-a-period-alone-says-nothing"),
    ],
)
def test_properties(files: list[tuple[str, str]], version: int, expected: list[tuple[str, int]]) -> None:
    """The property of each file, as runc sets it."""
    beside = {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "1"}
    assert properties_of(files, beside, version=version) == [(name, ("t", value)) for name, value in expected]


@pytest.mark.parametrize(("v2", "blocks"), [(True, "IOAccounting"), (False, "BlockIOAccounting")], ids=["v2", "v1"])
def test_new_slice(v2: bool, blocks: str) -> None:
    """Everything is counted, the parent is wanted, a shutdown does not stop it early; nothing is delegated."""
    told = dict(new_slice("a-b.slice", "a.slice", v2=v2))
    assert told.pop("Description")[1]
    counted = dict.fromkeys(("MemoryAccounting", "CPUAccounting", blocks, "TasksAccounting"), ("b", True))
    assert told == {"Wants": ("as", ["a.slice"]), "DefaultDependencies": ("b", False), **counted}


class RecordedUnits:
    """A systemd that keeps what it is told, and looks at what the files had then."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.started: list[str] = []
        self.stopped: list[str] = []
        self.limits: dict[str, dict[str, object]] = {}
        self.written_before: list[str] = []

    def version(self) -> int:
        """Return Debian 12's."""
        return 252

    def start(self, name: str, properties: list[Property]) -> None:
        """Keep it."""
        assert dict(properties)["Wants"]
        self.started.append(name)

    def limit(self, name: str, properties: list[Property]) -> None:
        """Keep what is told."""
        self.limits.setdefault(name, {}).update({name: value for name, (_, value) in properties})
        self.written_before += [str(one) for one in self.root.rglob(f"{name}/cpu.*") if one.read_text()]

    def stop(self, name: str) -> None:
        """Keep it."""
        self.stopped.append(name)


@pytest.fixture
def v1(tmp_path: Path) -> Hierarchies:
    """Return v1 hierarchies as plain folders."""
    return Hierarchies(v2=None, v1={name: tmp_path / name for name in ("cpu", "memory", "pids", "hugetlb")})


@pytest.fixture
def v2(tmp_path: Path) -> Hierarchies:
    """Return a v2 hierarchy as plain folders, with the kernel's files in each."""
    tiers = (
        "",
        "kubepods.slice",
        "kubepods.slice/kubepods-burstable.slice",
        "kubepods.slice/kubepods-besteffort.slice",
    )
    for folder in (*tiers, FOLDER):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "cgroup.subtree_control").write_text("")
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory hugetlb pids\n")
    return Hierarchies(v2=tmp_path, v1={})


def test_a_pod_on_v1(v1: Hierarchies, tmp_path: Path) -> None:
    """Slice and properties first, then the files, with the rounded quota."""
    units = RecordedUnits(tmp_path)
    cgroups = Cgroups(NAMES, hierarchies=v1, settings=CgroupSettings(100), slices=Slices(units, v2=False))
    assert cgroups.make_pod("a-b", BURSTABLE, LIMITED) == f"/{FOLDER}"
    assert units.started == [POD]
    assert units.limits[POD] == {
        "CPUShares": 512,
        "MemoryLimit": 64,
        "TasksMax": 100,
        "CPUQuotaPeriodUSec": 100000,
        "CPUQuotaPerSecUSec": 130000,
    }
    assert not units.written_before
    assert (tmp_path / "cpu" / FOLDER / "cpu.cfs_quota_us").read_text() == "13000"
    assert (tmp_path / "hugetlb" / FOLDER / "hugetlb.2MB.limit_in_bytes").read_text() == "4096"
    assert units.limits["kubepods-burstable.slice"] == {"CPUShares": 512}


def test_a_pod_on_v2(v2: Hierarchies, tmp_path: Path) -> None:
    """The same, with v2's names."""
    units = RecordedUnits(tmp_path)
    Cgroups(NAMES, hierarchies=v2, slices=Slices(units, v2=True)).make_pod("a-b", BURSTABLE, LIMITED)
    assert units.limits[POD] == {
        "CPUWeight": 20,
        "MemoryMax": 64,
        "CPUQuotaPeriodUSec": 100000,
        "CPUQuotaPerSecUSec": 130000,
    }
    assert (tmp_path / FOLDER / "cpu.max").read_text() == "13000 100000"
    assert (tmp_path / FOLDER / "hugetlb.2MB.max").read_text() == "4096"


def test_tiers(v1: Hierarchies, tmp_path: Path) -> None:
    """Each is a slice with its weight; empty ones are stopped when the node is taken down."""
    units = RecordedUnits(tmp_path)
    cgroups = Cgroups(NAMES, hierarchies=v1, slices=Slices(units, v2=False))
    cgroups.make_tiers()
    tiers = ["kubepods.slice", "kubepods-burstable.slice", "kubepods-besteffort.slice"]
    assert units.started == tiers
    assert units.limits == {"kubepods-besteffort.slice": {"CPUShares": 2}, "kubepods-burstable.slice": {"CPUShares": 2}}
    for file in tmp_path.rglob("cpu.shares"):
        file.unlink()  # in the kernel files do not hold a cgroup
    cgroups.remove_tiers()
    assert units.stopped == tiers[::-1]
    assert not (tmp_path / "cpu/kubepods.slice").exists()


def test_a_resize(v1: Hierarchies, tmp_path: Path) -> None:
    """While growing only what is too low is told; the quota with the period that stays."""
    units = RecordedUnits(tmp_path)
    cgroups = Cgroups(NAMES, hierarchies=v1, slices=Slices(units, v2=False))
    cgroups.make_pod("a-b", BURSTABLE, LIMITED)
    changed = PodResources(cpu_shares=256, cpu_quota=50000, cpu_period=100000, memory_limit=32)
    units.limits.clear()
    cgroups.resize_pod("a-b", BURSTABLE, changed, only_raise=True)
    assert units.limits[POD] == {"CPUQuotaPeriodUSec": 100000, "CPUQuotaPerSecUSec": 500000}
    units.limits.clear()
    cgroups.resize_pod("a-b", BURSTABLE, changed, only_raise=False)
    assert units.limits[POD]["MemoryLimit"] == 32
    assert units.limits[POD]["CPUShares"] == 256


def test_memory_qos(v2: Hierarchies, tmp_path: Path) -> None:
    """The sums of the tiers are told, too, and those of an earlier worker's pods are found again."""
    units = RecordedUnits(tmp_path)
    tiered = CgroupSettings(memory_qos=True)
    cgroups = Cgroups(NAMES, hierarchies=v2, settings=tiered, slices=Slices(units, v2=True))
    cgroups.make_tiers()
    cgroups.make_pod("a-b", BURSTABLE, PodResources(2, unified={"memory.low": "20"}))
    assert units.limits[POD]["MemoryLow"] == 20
    assert units.limits["kubepods-burstable.slice"]["MemoryLow"] == 20
    assert units.limits["kubepods.slice"]["MemoryMin"] == 20
    again = RecordedUnits(tmp_path)
    Cgroups(NAMES, hierarchies=v2, settings=tiered, slices=Slices(again, v2=True)).make_tiers()
    assert again.limits["kubepods.slice"]["MemoryMin"] == 20


def test_removal(v1: Hierarchies, tmp_path: Path) -> None:
    """The slice is stopped, also if its folder is gone already, and what is left of it removed."""
    units = RecordedUnits(tmp_path)
    cgroups = Cgroups(NAMES, hierarchies=v1, slices=Slices(units, v2=False))
    (tmp_path / "memory" / FOLDER / "cri-containerd-1.scope").mkdir(parents=True)
    assert cgroups.pods_left() == {"a-b"}
    assert cgroups.remove_pod("a-b") == []
    assert cgroups.pods_left() == set()
    assert POD in units.stopped
    assert not (tmp_path / "memory" / FOLDER).exists()
    assert cgroups.remove_pod("a-b") == []


def test_pods_of_either_driver(v1: Hierarchies, tmp_path: Path) -> None:
    """Those in which processes are, by their own driver's names."""
    for pod, pids in (
        (FOLDER, "4000000\n"),
        ("kubepods.slice/kubepods-podc.slice", ""),
        ("kubepods/podd", "4000001\n"),
    ):
        (tmp_path / "memory" / pod).mkdir(parents=True)
        (tmp_path / "memory" / pod / "cgroup.procs").write_text(pids)
    assert pods_running(NAMES, v1) == [f"/{FOLDER}"]
    assert pods_running(CgroupNames.below(""), v1) == ["/kubepods/podd"]
