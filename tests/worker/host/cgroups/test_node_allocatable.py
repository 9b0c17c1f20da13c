"""Is Node Allocatable enforced, told with the kubelet's events, tried again each minute, and kept?"""

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from activities.machine.cgroup_files import NodeLimits
from activities.machine.cgroup_names import CgroupNames
from activities.machine.node_capacity import cpu_capacity, memory_capacity, task_capacity
from activities.machine.node_cgroups import NodeCgroups
from proto.kubernetes.resources.quantity import parse_quantity
from proto.kubernetes.resources.resources import cpu_shares
from tests.activities.machine.test_node_cgroups import MIB, V2_FILES, files_of, v2_at
from tests.patience import PATIENCE
from worker.events.event import NORMAL, WARNING
from worker.host.cgroups.node_allocatable import (
    EVERY,
    PodsLimit,
    keeping_pods_limit,
    limit_reserved_cgroups,
    limits_of_pods,
    refuse_missing_cgroups,
)
from worker.settings.cgroups.enforcement import Enforcement, ReservedCgroup
from worker.settings.kubelet.configuration import ConfigurationRefused
from worker.settings.reserved import Reserved

ENFORCED = (NORMAL, "NodeAllocatableEnforced", "Updated Node Allocatable limit across pods")
AMOUNTS = {name: parse_quantity(text) for name, text in {"cpu": "500m", "memory": "64Mi", "pid": "100"}.items()}
KUBE = ReservedCgroup("Kube Reserved", "/kube", AMOUNTS)
SYSTEM = ReservedCgroup("System Reserved", "/sys", AMOUNTS)


class Told:
    """The events."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []

    def __call__(self, kind: str, reason: str, message: str) -> None:
        """Keep it."""
        self.events.append((kind, reason, message))


def cgroups_at(root: Path, cgroup: str = "kubepods") -> NodeCgroups:
    """Return the cgroups of a v2 node as plain folders."""
    return NodeCgroups(CgroupNames.below("/"), v2_at(root, cgroup), None)


@pytest.mark.parametrize(
    ("enforcement", "reserved", "cpu", "memory", "pids"),
    [
        pytest.param(Enforcement(), Reserved(), 0, 0, 0, id="the-whole-machine"),
        pytest.param(Enforcement(), Reserved(500, MIB, 7, 100), 500, MIB, 100, id="less-the-reservations"),
        pytest.param(Enforcement(pods=False), Reserved(500, MIB, 7, 100), 0, 0, 0, id="without-pods-all-of-it"),
    ],
)
def test_what_all_pods_may_use(enforcement: Enforcement, reserved: Reserved, cpu: int, memory: int, pids: int) -> None:
    """Storage is no matter of cgroups."""
    found = limits_of_pods(enforcement, reserved)
    assert found.cpu_shares == cpu_shares(cpu_capacity() - cpu)
    assert (found.memory, found.pids) == (memory_capacity() - memory, task_capacity()[0] - pids)


def test_more_than_the_machine_leaves_nothing() -> None:
    """Never less than nothing; process ids are not compared at the start."""
    found = limits_of_pods(Enforcement(), Reserved(10**9, 10**18, 0, 10**12))
    assert (found.cpu_shares, found.memory, found.pids) == (2, 0, 0)


def test_success_is_told_once_and_a_change_is_put_right(tmp_path: Path) -> None:
    """Another process's doing is no event."""
    limit = PodsLimit(cgroups_at(tmp_path), lambda: NodeLimits(memory=64 * MIB), told := Told())
    limit.keep()
    (tmp_path / "kubepods/memory.max").write_text("max\n")
    limit.keep()
    assert (tmp_path / "kubepods/memory.max").read_text() == str(64 * MIB)
    limit.keep()
    assert told.events == [ENFORCED]


def test_each_failure_is_told_and_the_success_after_it(tmp_path: Path) -> None:
    """With the cgroup and the reason."""
    cgroups, told = cgroups_at(tmp_path), Told()
    limit = PodsLimit(cgroups, lambda: NodeLimits(memory=64 * MIB), told)
    file = tmp_path / "kubepods/memory.max"
    file.rename(tmp_path / "away")
    limit.keep()
    limit.keep()
    (tmp_path / "away").rename(file)
    limit.keep()
    failed = f'Failed to update Node Allocatable Limits ["kubepods"]: {file}: No such file or directory'
    assert told.events == [(WARNING, "FailedNodeAllocatableEnforcement", failed)] * 2 + [ENFORCED]


def test_what_cannot_be_measured_is_a_failure(tmp_path: Path) -> None:
    """The machine's files may be odd; the loop goes on."""

    def odd() -> NodeLimits:
        raise ValueError("no number")

    told = Told()
    PodsLimit(cgroups_at(tmp_path), odd, told).keep()
    assert told.events == [
        (
            WARNING,
            "FailedNodeAllocatableEnforcement",
            'Failed to update Node Allocatable Limits ["kubepods"]: no number',
        )
    ]


async def test_it_is_kept_each_minute_while_the_worker_runs(tmp_path: Path) -> None:
    """The first time at once."""
    kept = asyncio.Event()
    loop, told = asyncio.get_running_loop(), Told()

    def measured() -> NodeLimits:
        loop.call_soon_threadsafe(kept.set)
        return NodeLimits(memory=64 * MIB)

    assert timedelta(minutes=1) == EVERY
    async with keeping_pods_limit(PodsLimit(cgroups_at(tmp_path), measured, told), timedelta(milliseconds=10)):
        for _ in range(3):
            await asyncio.wait_for(kept.wait(), PATIENCE)
            kept.clear()
    assert told.events == [ENFORCED]


@pytest.mark.parametrize(
    ("reserved", "expected", "message"),
    [
        pytest.param(
            KUBE,
            {"cpu.weight": "20", "memory.max": str(64 * MIB), "pids.max": "100"},
            "Updated limits on kube reserved cgroup /kube",
            id="whole",
        ),
        pytest.param(
            replace(KUBE, compressible=True),
            {"cpu.weight": "20"},
            "Updated limits on kube reserved cgroup /kube",
            id="compressible",
        ),
    ],
)
def test_a_reserved_cgroup_is_limited(
    tmp_path: Path, reserved: ReservedCgroup, expected: dict[str, str], message: str
) -> None:
    """To what is reserved; huge pages cannot be, so it has none."""
    told, cgroups = Told(), cgroups_at(tmp_path, "kube")
    for file in ("hugetlb.2MB.max", "hugetlb.1GB.max"):
        (tmp_path / "kube" / file).write_text("max")
    enforcement = Enforcement(reserved=(reserved,))
    refuse_missing_cgroups(cgroups, enforcement)
    limit_reserved_cgroups(cgroups, enforcement, told, protect=False)
    files = {name: text for name, text in V2_FILES.items() if not name.startswith("hugetlb")}
    assert files_of(tmp_path, "kube", files) == files | expected
    assert told.events == [(NORMAL, "NodeAllocatableEnforced", message)]


@pytest.mark.parametrize(("compressible", "protected"), [(False, str(64 * MIB)), (True, "0")], ids=["whole", "cpu"])
def test_memory_qos_protects_a_reserved_cgroup(tmp_path: Path, compressible: bool, protected: str) -> None:
    """With the memory that is reserved for it."""
    cgroups = cgroups_at(tmp_path, "kube")
    for file in ("hugetlb.2MB.max", "hugetlb.1GB.max"):
        (tmp_path / "kube" / file).write_text("max")
    enforcement = Enforcement(reserved=(replace(KUBE, compressible=compressible),))
    limit_reserved_cgroups(cgroups, enforcement, Told(), protect=True)
    assert (tmp_path / "kube/memory.min").read_text() == protected


@pytest.mark.parametrize(
    ("reserved", "message"),
    [
        pytest.param(
            SYSTEM,
            'Failed to enforce System Reserved Cgroup Limits on "/sys": could not read controllers for cgroup ["sys"]: '
            "{root}/sys/cgroup.controllers: No such file or directory",
            id="missing",
        ),
        pytest.param(
            replace(SYSTEM, compressible=True),
            'Failed to enforce System Reserved Compressible Cgroup Limits on "/sys": could not read controllers for ',
            id="missing-for-cpu-alone",
        ),
        pytest.param(
            replace(KUBE, amounts={}),
            'Failed to enforce Kube Reserved Cgroup Limits on "/kube": ["kube"] cgroup is not configured properly',
            id="nothing-is-reserved",
        ),
        pytest.param(
            replace(KUBE, cgroup="/../kube"),
            "Failed to enforce Kube Reserved Cgroup Limits on \"/../kube\": '/../kube' is no cgroup below",
            id="a-name-that-leads-out",
        ),
    ],
)
def test_the_start_fails_without_a_reserved_cgroup(tmp_path: Path, reserved: ReservedCgroup, message: str) -> None:
    """In the kubelet's words, before anything is written."""
    cgroups = cgroups_at(tmp_path, "kube")
    with pytest.raises(ConfigurationRefused) as refused:
        refuse_missing_cgroups(cgroups, Enforcement(reserved=(KUBE, reserved)))
    assert str(refused.value).startswith(message.format(root=tmp_path))
    assert files_of(tmp_path, "kube", V2_FILES) == V2_FILES


def test_the_start_fails_with_a_reserved_cgroup_that_cannot_be_limited(tmp_path: Path) -> None:
    """It was there a moment ago."""
    cgroups, told = cgroups_at(tmp_path, "kube"), Told()
    (tmp_path / "kube/cpu.weight").unlink()
    with pytest.raises(
        ConfigurationRefused, match=r'^Failed to enforce Kube Reserved Cgroup Limits on "/kube": .*cpu\.weight'
    ):
        limit_reserved_cgroups(cgroups, Enforcement(reserved=(KUBE,)), told, protect=False)
    assert told.events == []
