"""Is each thing that a machine lacks told at the start in one sentence: what, where, and what to do?"""

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from activities.files import mounts
from activities.machine.cgroup_hierarchies import Hierarchies
from tests.patience import PATIENCE
from worker.machine import fitness
from worker.machine.fitness import (
    MachineState,
    MachineUnfit,
    cgroup_faults,
    clock_faults,
    disk_faults,
    machine_state,
    pressure_warnings,
    refuse_unfit_machine,
    selinux_warnings,
)

MS_RDONLY: Final = 1
"""mount(2)."""
GOOD: Final = MachineState(
    cgroups=["/sys/fs/cgroup"],
    cgroup_v2=True,
    controllers=frozenset({"cpu", "cpuset", "io", "memory", "pids"}),
    read_only=[],
    folder=Path("/var/lib"),
    free_bytes=1 << 30,
    free_inodes=100_000,
    now=datetime(2026, 12, 1, tzinfo=UTC),
)
V1: Final = {
    "cgroup_v2": False,
    "cgroups": ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/memory"],
    "controllers": frozenset({"cpu", "cpuacct", "cpuset", "memory"}),
}
"""Each hierarchy has a mount of its own."""


def said(state: MachineState) -> list[str]:
    """Return all that is said about a machine."""
    judges = (cgroup_faults, disk_faults, clock_faults, selinux_warnings, pressure_warnings)
    return [one for judge in judges for one in judge(state)]


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({}, id="cgroup-v2"),
        pytest.param(V1, id="cgroup-v1"),
        pytest.param({**V1, "pressure": False}, id="cgroup-v1-never-has-pressure-figures"),
        pytest.param({"free_inodes": None}, id="a-file-system-that-counts-no-inodes"),
    ],
)
def test_nothing_is_wrong(given: dict[str, Any]) -> None:
    """Nothing is said."""
    assert said(replace(GOOD, **given)) == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        pytest.param({"cgroups": []}, ("no cgroups are mounted", "mount -t cgroup2"), id="no-cgroups"),
        pytest.param(
            {"read_only": ["/sys/fs/cgroup"]},
            ("read-only at /sys/fs/cgroup", "mount -o remount,rw /sys/fs/cgroup", "privileged"),
            id="read-only",
        ),
        pytest.param(
            {"controllers": frozenset({"cpu", "cpuset", "pids"})},
            (
                "no cgroup controller memory",
                "/sys/fs/cgroup/cgroup.controllers has cpu, cpuset, pids",
                "cgroup_enable=memory",
            ),
            id="no-memory-controller-as-on-a-raspberry-pi",
        ),
        pytest.param(
            {**V1, "controllers": frozenset({"cpu", "cpuset", "memory"})},
            ("no cgroup controller cpuacct", "/proc/self/mounts"),
            id="v1-without-accounting",
        ),
        pytest.param(
            {"free_bytes": 5 << 20}, ("the disk of /var/lib is full: 5 MiB", "crictl rmi --prune"), id="full-disk"
        ),
        pytest.param({"free_inodes": 7}, ("the disk of /var/lib has 7 inodes left", "make it larger"), id="no-inodes"),
        pytest.param(
            {"now": datetime(1970, 1, 1, tzinfo=UTC)},
            ("shows 1970-01-01 00:00 UTC", "timedatectl set-ntp true"),
            id="clock",
        ),
        pytest.param({"selinux_enforcing": True}, ("SELinux is enforcing", "enable_selinux = true"), id="selinux"),
        pytest.param({"pressure": False}, ("there is no /proc/pressure", "boot with psi=1"), id="no-pressure-figures"),
    ],
)
def test_one_sentence(given: dict[str, Any], words: tuple[str, ...]) -> None:
    """It says what, where, and what to do."""
    (sentence,) = said(replace(GOOD, **given))
    assert [one for one in words if one not in sentence] == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        pytest.param({"free_bytes": 0}, "the disk of", id="a-full-disk"),
        pytest.param({"now": datetime(1970, 1, 1, tzinfo=UTC)}, "this machine's clock shows", id="a-wrong-clock"),
    ],
)
@pytest.mark.parametrize(("new", "ends"), [(True, True), (False, False)], ids=["a-new-node", "one-that-has-worked"])
def test_what_ends_only_the_first_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: dict[str, Any], words: str, new: bool, ends: bool
) -> None:
    """A node that has pods is needed, to make room for example; without cgroups it never starts."""
    wrong = replace(GOOD, **given)
    monkeypatch.setattr(fitness, "machine_state", lambda _: wrong)
    if ends:
        with pytest.raises(MachineUnfit, match=f"nothing was changed: {words}"):
            refuse_unfit_machine(tmp_path, new=new)
    else:
        (warning,) = refuse_unfit_machine(tmp_path, new=new)
        assert warning.startswith(words)
    monkeypatch.setattr(fitness, "machine_state", lambda _: replace(wrong, read_only=["/sys/fs/cgroup"]))
    with pytest.raises(MachineUnfit, match="read-only"):
        refuse_unfit_machine(tmp_path, new=new)


def test_this_machine_is_fit(tmp_path: Path) -> None:
    """The folder that is looked at exists, however deep the wanted one is."""
    state = machine_state(tmp_path / "a/b")
    assert state.folder == tmp_path
    assert list(cgroup_faults(state)) == []
    assert state.free_bytes > 0


@pytest.mark.parametrize(
    ("listed", "missing"),
    [("cpuset cpu io memory pids", []), ("cpu pids", ["cpuset", "memory"])],
    ids=["all", "two-missing"],
)
def test_the_controllers_of_v2_are_read(tmp_path: Path, listed: str, missing: list[str]) -> None:
    """From the hierarchy's own file, which is named."""
    (tmp_path / "cgroup.controllers").write_text(f"{listed}\n")
    faults = list(cgroup_faults(machine_state(tmp_path, Hierarchies(tmp_path, {}))))
    where = f"{tmp_path}/cgroup.controllers has {', '.join(sorted(listed.split()))}"
    assert len(faults) == bool(missing)
    assert all(f"no cgroup controller {', '.join(missing)} ({where})" in one for one in faults)


@pytest.mark.parametrize(
    ("content", "enforcing"), [("1", True), ("0", False), (None, False)], ids=["on", "off", "none"]
)
def test_selinux_is_read(tmp_path: Path, content: str | None, enforcing: bool) -> None:
    """From the kernel's file, which is there only with SELinux."""
    if content is not None:
        (tmp_path / "enforce").write_text(content)
    state = machine_state(tmp_path, enforce=tmp_path / "enforce")
    assert (state.selinux_enforcing, bool(list(selinux_warnings(state)))) == (enforcing, enforcing)


@pytest.mark.parametrize("there", [True, False], ids=["there", "missing"])
def test_whether_the_kernel_tells_pressure_is_read(tmp_path: Path, there: bool) -> None:
    """By the folder that it makes only with PSI."""
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    if there:
        (tmp_path / "pressure").mkdir()
    state = machine_state(tmp_path, Hierarchies(tmp_path, {}), pressure=tmp_path / "pressure")
    assert (state.pressure, bool(list(pressure_warnings(state)))) == (there, not there)


def test_no_pressure_figures_are_no_reason_to_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A node of a kernel without them says so, and starts."""
    monkeypatch.setattr(fitness, "machine_state", lambda _: replace(GOOD, pressure=False))
    (warning,) = refuse_unfit_machine(tmp_path, new=True)
    assert "psi=1" in warning


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it mounts")


@needs_root
@pytest.mark.parametrize("wrong", ["read-only", "full", "no-inodes"])
def test_it_is_seen(tmp_path: Path, wrong: str) -> None:
    """On a file system that is so."""
    place = tmp_path / "cgroup"
    place.mkdir()
    options = {"read-only": [], "full": ["size=1m"], "no-inodes": ["nr_inodes=100"]}[wrong]
    mounts.mount("tmpfs", place, "tmpfs", MS_RDONLY if wrong == "read-only" else 0, options=options)
    try:
        state = machine_state(place, Hierarchies(place, {}))
        assert (list(state.read_only) == [str(place)]) == (wrong == "read-only")
        assert bool(list(disk_faults(state))) == (wrong != "read-only")
    finally:
        mounts.unmount(place)


@needs_root
@pytest.mark.parametrize(
    ("words", "code"), [(("worker", "--root-dir"), 2), (("up", "--state-dir"), 1)], ids=["worker", "up"]
)
def test_it_ends_before_it_makes_anything(tmp_path: Path, words: tuple[str, ...], code: int) -> None:
    """With the sentence, on a disk without room."""
    place = tmp_path / "small"
    place.mkdir()
    mounts.mount("tmpfs", place, "tmpfs", options=["size=1m"])
    environment = {**os.environ, "TEMPOLET_RUN_DIR": str(tmp_path / "run")}
    try:
        command = [sys.executable, "-m", "worker.cli", *words, str(place / "node")]
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert ran.returncode == code
        assert f"nothing was changed: the disk of {place} is full" in ran.stderr
        assert list(place.iterdir()) == []
        assert not (tmp_path / "run").exists()
    finally:
        mounts.unmount(place)


@needs_root
@pytest.mark.skipif(not shutil.which("unshare"), reason="needs unshare: it changes the mounts of a process")
@pytest.mark.parametrize("words", [("worker", "--root-dir"), ("up", "--state-dir")], ids=["worker", "up"])
@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param(
            "mount -o remount,bind,ro", "nothing was changed: cgroups are mounted read-only at /", id="read-only"
        ),
        pytest.param("umount --lazy", "nothing was changed: no cgroups are mounted", id="none"),
    ],
)
def test_cgroups_that_no_pod_can_have(tmp_path: Path, words: tuple[str, ...], change: str, said: str) -> None:
    """Read-only as in a container that is not privileged, or none: it ends before it makes anything."""
    mounted = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    changes = [f"{change} {place}" for _, place, kind, *_ in reversed(mounted) if kind in ("cgroup", "cgroup2")]
    script = " && ".join([*changes, 'exec "$@"'])
    command = [sys.executable, "-m", "worker.cli", *words, str(tmp_path / "node")]
    unshare = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh"]
    environment = {**os.environ, "TEMPOLET_RUN_DIR": str(tmp_path / "run")}
    ran = subprocess.run(
        [*unshare, *command], env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert ran.returncode != 0
    assert said in ran.stderr
    assert list(tmp_path.iterdir()) == []
