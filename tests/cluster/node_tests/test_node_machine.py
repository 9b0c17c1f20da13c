"""Has the machine of the official node tests what their suites look for, and is nothing of it left out here?"""

import os
from pathlib import Path

import pytest

from tests.cluster.node_tests.huge_pages import CONTROLLER, is_unused
from tests.cluster.node_tests.node_machine import NodeMachine, missing_programs
from tests.worker.daemon.systemd_machine import has_unified_hierarchy


def hierarchies_of_huge_pages() -> list[str]:
    """List where this machine has mounted the controller."""
    lines = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    return [at for _, at, kind, options, *_ in lines if kind == "cgroup" and CONTROLLER in options.split(",")]


@pytest.mark.stress  # it disturbs the containerd of every other test
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.skipif(bool(missing_programs()), reason=f"needs {', '.join(missing_programs())}")
@pytest.mark.skipif(has_unified_hierarchy(), reason="cgroup v2 has all controllers in one hierarchy")
@pytest.mark.skipif(CONTROLLER not in Path("/proc/cgroups").read_text(), reason="the kernel cannot limit huge pages")
def test_huge_pages_are_limited_in_the_machine_alone(tmp_path: Path) -> None:
    """The suites read the limits in the folder of all controllers. A runtime out here would use a hierarchy that it sees."""
    before, unused = hierarchies_of_huge_pages(), is_unused()
    with NodeMachine(tmp_path / "m", huge_pages=True) as machine:
        controllers = set(machine.inside("ls", "/sys/fs/cgroup").split())
        assert controllers >= {"cpu", "memory", "pids", "systemd", CONTROLLER}
        assert "limit_in_bytes" in machine.inside("ls", f"/sys/fs/cgroup/{CONTROLLER}")
        assert hierarchies_of_huge_pages() == before
    assert hierarchies_of_huge_pages() == before
    assert is_unused() == unused
