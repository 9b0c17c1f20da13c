"""Are the node's own cgroups read as system containers, and those of several processes added up?"""

from pathlib import Path

import pytest

from tests.worker.stats import measured_node as node
from worker.stats.cgroups.system_containers import SystemContainer, added, outermost, read_system
from worker.stats.cgroups.usage import CgroupUsage, Pressure


@pytest.mark.parametrize(
    ("cgroups", "expected"),
    [
        pytest.param([], [], id="none"),
        pytest.param(["/a", "/a"], ["/a"], id="one-of-several-processes"),
        pytest.param(["/a/b", "/c", "/a"], ["/c", "/a"], id="one-inside-another"),
        pytest.param(["/ab", "/a"], ["/ab", "/a"], id="names-that-begin-alike"),
        pytest.param(["/a", "/"], ["/"], id="the-machines-root"),
    ],
)
def test_no_cgroup_is_counted_twice(cgroups: list[str], expected: list[str]) -> None:
    """A cgroup counts those inside, too."""
    assert outermost(cgroups) == expected


def test_several_cgroups_are_added() -> None:
    """A limit only if each has one; how long they stalled cannot be added."""
    one = CgroupUsage(5.0, cpu=1, memory=10, inactive_file=1, memory_limit=100, pressure={"cpu": Pressure(7)})
    two = CgroupUsage(5.5, cpu=2, memory=20, inactive_file=2, memory_limit=200, swap=3, swap_limit=9)
    assert added([one]) is one
    total = added([one, two])
    assert (total.at, total.cpu, total.working_set, total.swap) == (5.0, 3, 27, 3)
    assert (total.memory_limit, total.swap_limit, total.pressure) == (300, None, {})
    assert one.memory == 10


@pytest.mark.parametrize("reader_of", [node.reader_of_v1, node.reader_of_v2])
def test_what_has_no_cgroup_is_left_out(reader_of: object, tmp_path: Path) -> None:
    """Each starts when its cgroup was made, unless somebody knows better."""
    assert callable(reader_of)
    reader = reader_of(tmp_path)
    listed = [
        SystemContainer("kubelet", [f"{node.ROOT}/burstable", "/gone"], 7.0),
        SystemContainer("runtime", ["/gone"]),
        SystemContainer("pods", [node.ROOT]),
        SystemContainer("misc", ["/"]),
    ]
    found = list(read_system(reader, listed, whole=True))
    assert [one.name for one in found] == ["kubelet", "pods", "misc"]
    assert [one.since for one in found[:2]] == [7.0, reader.created_at(node.ROOT)]
    assert [one.is_machine for one in found] == [False, False, True]
    assert found[1].usage.memory == 3805184
