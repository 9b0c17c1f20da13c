"""Are processes moved into cgroups in every hierarchy, and only those found in the root that are neither the first nor the kernel's?"""

import os
import subprocess
from pathlib import Path

import pytest

from activities.machine.cgroup_hierarchies import Hierarchies
from activities.machine.process_cgroups import ProcessCgroups, counting_cgroup

PLACES = Hierarchies.of_this_node()


def folder(path: Path, procs: str = "", **files: str) -> Path:
    """Make a cgroup's folder with its files."""
    path.mkdir(parents=True, exist_ok=True)
    for name, text in {"cgroup.procs": procs, **{one.replace("_", "."): text for one, text in files.items()}}.items():
        (path / name).write_text(text)
    return path


def v1_at(root: Path) -> Hierarchies:
    """Return v1 hierarchies of a hybrid node as plain folders."""
    names = ("cpu", "cpuset", "systemd", "unified")
    for name in names:
        folder(root / name / "kube")
    (root / "unified/cgroup.controllers").write_text("")
    for one in ("cpuset", "cpuset/kube"):
        folder(root / one, cpuset_cpus="0-1\n" if one == "cpuset" else "\n", cpuset_mems="0\n")
    return Hierarchies(v2=None, v1={name: root / name for name in names})


def test_v1(tmp_path: Path) -> None:
    """In each but the one that only systemd uses; the cpuset gets processors before."""
    cgroups = ProcessCgroups(v1_at(tmp_path))
    assert cgroups.move(7, "/kube")
    for name in ("cpu", "cpuset", "systemd"):
        assert (tmp_path / name / "kube/cgroup.procs").read_text() == "7"
    assert (tmp_path / "unified/kube/cgroup.procs").read_text() == ""
    assert (tmp_path / "cpuset/kube/cpuset.cpus").read_text() == "0-1\n"
    assert not cgroups.move(7, "/kube")


def test_v2(tmp_path: Path) -> None:
    """With the controllers handed down."""
    (tmp_path / "cgroup.controllers").write_text("cpu memory")
    for one in ("", "kube"):
        folder(tmp_path / one)
        (tmp_path / one / "cgroup.subtree_control").write_text("")
    assert ProcessCgroups(Hierarchies(v2=tmp_path, v1={})).move(7, "kube")
    assert (tmp_path / "kube/cgroup.procs").read_text() == "7"
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+cpu +memory"


@pytest.mark.parametrize("v2", [False, True], ids=["v1", "v2"])
def test_processes_in_no_cgroup(tmp_path: Path, *, v2: bool) -> None:
    """A kernel's thread has no program."""
    for pid, program in {1: "/sbin/init", 5: "", 7: "/bin/sh"}.items():
        folder(tmp_path / f"proc/{pid}")
        if program:
            (tmp_path / f"proc/{pid}/exe").symlink_to(program)
    root = folder(tmp_path / "cpu", procs="1\n5\n7\n9\n")
    found = Hierarchies(v2=root, v1={}) if v2 else Hierarchies(v2=None, v1={"cpu": root})
    assert ProcessCgroups(found, tmp_path / "proc").in_none() == [7]


def test_the_kernel_moves_it() -> None:
    """Into a cgroup that did not exist."""
    own = f"/tempolet-moved-{os.getpid()}/own"
    cgroups = ProcessCgroups(PLACES)
    process = subprocess.Popen(["sleep", "600"])
    try:
        assert cgroups.move(process.pid, own)
        lines = (line.split(":", 2) for line in Path(f"/proc/{process.pid}/cgroup").read_text().splitlines())
        places = {controllers: path for _, controllers, path in lines}
        for controller in ("",) if PLACES.v2 else ("memory", "cpuset"):
            assert places[controller] == own
        assert not cgroups.move(process.pid, own)
    finally:
        process.kill()
        process.wait()
        for left in (*PLACES.folders(own), *PLACES.folders(own.removesuffix("/own"))):
            if left.is_dir():
                left.rmdir()


@pytest.mark.parametrize(
    ("text", "unified", "expected"),
    [
        pytest.param("0::/system.slice/a.service\n", True, "/system.slice/a.service", id="v2"),
        pytest.param("0::/../other\n", True, "", id="outside-of-the-cgroup-namespace"),
        pytest.param("3:name=systemd:/a\n", True, "", id="no-unified-one"),
        pytest.param("2:cpu,cpuacct:/a\n1:memory:/a\n0::/b\n", False, "/a", id="v1"),
        pytest.param("3:name=systemd:/s:x\n2:cpu:/a\n1:memory:/a\n", False, "/s:x", id="v1-of-systemd"),
        pytest.param("3:name=systemd:/\n2:cpu:/\n1:memory:/b\n", False, "", id="v1-counted-in-two"),
        pytest.param("1:memory:/a\n", False, "", id="v1-without-cpu"),
    ],
)
def test_where_a_process_is_counted(text: str, unified: bool, expected: str) -> None:
    """By the lines of /proc/PID/cgroup."""
    assert counting_cgroup(text, unified=unified) == expected


def test_where_this_process_is() -> None:
    """From the kernel's own file."""
    text = Path("/proc/self/cgroup").read_text()
    assert ProcessCgroups(PLACES).of(os.getpid()) == counting_cgroup(text, unified=PLACES.v2 is not None)
