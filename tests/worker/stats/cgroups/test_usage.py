"""Are the kernel's files, of v1 and of v2, read into cAdvisor's values?"""

from pathlib import Path

import pytest

from tests.worker.stats.cgroup_files import V1, V2, write_v1, write_v2
from worker.stats.cgroups.usage import CgroupUsage, Transfers, parse_pressure
from worker.stats.cgroups.v1 import CgroupsV1
from worker.stats.cgroups.v2 import CgroupsV2, shares_of_weight

CGROUP = "/kubepods/pod1/c1"
SAME = {
    "periods": 81,
    "throttled_periods": 3,
    "quota": 20000,
    "period": 100000,
    "memory": 3805184,
    "memory_most": 6041600,
    "kernel_memory": 405504,
    "cache": 2273280,
    "rss": 114688,
    "mapped": 4096,
    "swap": 8192,
    "active_file": 0,
    "inactive_file": 2273280,
    "page_faults": 9920,
    "major_faults": 2,
    "memory_limit": 67108864,
    "oom_kills": 1,
    "tasks": 3,
    "tasks_most": 0,
    "working_set": 1531904,
    "transfers": {"254:0": Transfers(4096, 2097152, 1, 16)},
    "reservation": 0,
}
"""The same for both; the working set is what the kubelet reported for that container."""


def told(usage: CgroupUsage | None, names: dict[str, object]) -> dict[str, object]:
    """Return the requested values."""
    assert usage is not None
    return {name: getattr(usage, name) for name in names}


def test_v1_is_read(tmp_path: Path) -> None:
    """All controllers, nanoseconds from ticks, and the limit including swap as in cAdvisor."""
    only = {
        "cpu": 209786439,
        "cpu_user": 120_000_000,
        "cpu_system": 70_000_000,
        "throttled": 24527601,
        "shares": 204,
        "memory_failures": 2,
        "swap_limit": 67108864,
        "pressure": {},
    }
    usage = CgroupsV1(write_v1(tmp_path, CGROUP)).usage(CGROUP)
    assert told(usage, SAME | only) == SAME | only


def test_v2_is_read(tmp_path: Path) -> None:
    """One folder, nanoseconds from microseconds, shares from the weight, and pressure."""
    only = {
        "cpu": 209786000,
        "cpu_user": 120_000_000,
        "cpu_system": 70_000_000,
        "throttled": 24527000,
        "shares": 185,
        "swap_limit": 0,
    }
    usage = CgroupsV2(write_v2(tmp_path, CGROUP)).usage(CGROUP)
    assert told(usage, SAME | only) == SAME | only
    assert usage is not None
    assert usage.pressure["cpu"].some_total == 2500000
    assert usage.pressure["cpu"].some_averages == (1.5, 0.4, 0.1)
    assert usage.pressure["io"].full_total == 60


@pytest.mark.parametrize("brief", [pytest.param(False, id="all"), pytest.param(True, id="brief")])
def test_a_cgroup_that_is_gone_is_nothing(tmp_path: Path, brief: bool) -> None:
    """It may be removed between the walk and the read."""
    for reader in (CgroupsV1(write_v1(tmp_path / "1", CGROUP)), CgroupsV2(write_v2(tmp_path / "2", CGROUP))):
        gone = f"{CGROUP}0"
        assert (reader.cpu_and_memory(gone) if brief else reader.usage(gone)) is None
        assert reader.children(gone) == []
        assert reader.processes(gone) == []
        assert reader.created_at(gone) == 0


def test_a_controller_that_is_missing_counts_as_nothing(tmp_path: Path) -> None:
    """A node without blkio or pids still has its memory."""
    roots = write_v1(tmp_path, CGROUP, {name: V1[name] for name in ("memory", "cpuacct")})
    usage = CgroupsV1({name: roots[name] for name in ("memory", "cpuacct")}).usage(CGROUP)
    assert told(usage, {"memory": 0, "tasks": 0, "quota": 0, "transfers": 0}) == {
        "memory": 3805184,
        "tasks": 0,
        "quota": 0,
        "transfers": {},
    }


def test_no_limit_is_none(tmp_path: Path) -> None:
    """v1 reports a number of whole pages, v2 a word; the quota is -1 or max."""
    none = {
        **V1,
        "memory": {**V1["memory"], "memory.limit_in_bytes": "9223372036854771712\n"},
        "cpu": {**V1["cpu"], "cpu.cfs_quota_us": "-1\n"},
    }
    unlimited = {**V2, "memory.max": "max\n", "cpu.max": "max 100000\n"}
    for reader in (
        CgroupsV1(write_v1(tmp_path / "1", CGROUP, none)),
        CgroupsV2(write_v2(tmp_path / "2", CGROUP, unlimited)),
    ):
        usage = reader.usage(CGROUP)
        assert usage is not None
        assert usage.memory_limit is None
        assert usage.quota == 0


def test_the_root_of_v2_has_the_machines_memory(tmp_path: Path) -> None:
    """It has no memory.current: anonymous and file memory together, swap from /proc (fs2 statMemory)."""
    proc = tmp_path / "proc"
    proc.mkdir()
    (proc / "meminfo").write_text("MemTotal: 100 kB\nSwapTotal: 20 kB\nSwapFree: 15 kB\n")
    root = write_v2(tmp_path / "cg", "/", {name: V2[name] for name in ("cpu.stat", "memory.stat")})
    usage = CgroupsV2(root, proc).usage("/")
    assert usage is not None
    assert (usage.memory, usage.swap, usage.working_set) == (2387968, 5120, 114688)


def test_less_than_its_idle_files_is_no_negative_working_set() -> None:
    """The files are read one after the other."""
    assert CgroupUsage(0, memory=10, inactive_file=20).working_set == 0


@pytest.mark.parametrize(
    ("weight", "shares"),
    [
        pytest.param(1, 2, id="least"),
        pytest.param(100, 2597, id="default"),
        pytest.param(10000, 262144, id="most"),
        pytest.param(0, 0, id="unknown"),
    ],
)
def test_weights_become_shares(weight: int, shares: int) -> None:
    """By cAdvisor's formula."""
    assert shares_of_weight(weight) == shares


def test_pressure_that_is_not_counted_is_none() -> None:
    """With psi=0 the kernel refuses to read it."""
    assert parse_pressure(b"") is None
