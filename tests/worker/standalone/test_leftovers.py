"""Does the cleanup remove what is ours, and nothing else?"""

import os
from pathlib import Path

import pytest

from worker.standalone.machine import leftovers, links


@pytest.fixture
def hierarchies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in for a cgroup v1 mount: two controllers, each with our cgroup and a foreign one."""
    for controller in ("cpu", "memory"):
        for name in ("tempolet/kubepods/pod1", "tempolet-other", "docker"):
            (tmp_path / controller / name).mkdir(parents=True)
    (tmp_path / "cpu" / "tempolet" / "kubepods" / "pod1" / "cgroup.procs").write_text("7\n8\n")
    (tmp_path / "memory" / "tempolet" / "cgroup.procs").write_text("8\n9\n")
    (tmp_path / "memory" / "docker" / "cgroup.procs").write_text("1\n")
    monkeypatch.setattr(leftovers, "CGROUP_MOUNT", tmp_path)
    return tmp_path


@pytest.mark.parametrize("cgroup", ["/", "", "//", ".", "/./", "/../tempolet", "/tempolet/../..", ".."])
@pytest.mark.usefixtures("hierarchies")
def test_a_cgroup_that_is_everybodys_is_never_answered(cgroup: str) -> None:
    """Its processes would be killed."""
    assert leftovers.cgroup_directories(cgroup) == []
    assert leftovers.processes_in_cgroup(cgroup) == []


def test_only_what_is_in_the_cgroup_counts(hierarchies: Path) -> None:
    """In every hierarchy, also below it, and not in a sibling with the same prefix."""
    assert leftovers.processes_in_cgroup("/tempolet") == [7, 8, 9]
    found = {str(path.relative_to(hierarchies)) for path in leftovers.cgroup_directories("/tempolet")}
    assert found == {"cpu/tempolet", "memory/tempolet"}


def test_a_cgroup_that_goes_while_it_is_looked_for_is_no_error(
    hierarchies: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod's last process ends, and its cgroup with it, between two reads."""
    look = os.scandir

    def too_late(path: str | Path) -> object:
        """Remove a cgroup just before it is listed."""
        if (gone := Path(path)).name == "pod1" and gone.exists():
            (gone / "cgroup.procs").unlink(missing_ok=True)
            gone.rmdir()
        return look(path)

    monkeypatch.setattr(os, "scandir", too_late)
    assert leftovers.processes_in_cgroup("/tempolet") == [8, 9]
    assert not (hierarchies / "cpu/tempolet/kubepods/pod1").exists()


def test_cgroups_are_removed_from_below_and_what_stays_is_named(hierarchies: Path) -> None:
    """A directory that cannot be removed (here: it has a file) is returned with the reason; the others are removed."""
    stuck = leftovers.remove_cgroup("/tempolet")
    assert stuck
    assert all("not empty" in one for one in stuck)
    assert not (hierarchies / "memory/tempolet/kubepods").exists()
    assert (hierarchies / "cpu/tempolet-other").exists()


def test_mounts_are_found_at_and_below_a_folder_only() -> None:
    """`/proc` is one, `/pro` has none."""
    assert "/proc" in leftovers.mounts_below(Path("/proc"))
    assert leftovers.mounts_below(Path("/pro")) == []


def test_shims_are_known_by_their_socket() -> None:
    """A socket that no shim has gives none; this test's own command line does not count as one."""
    assert leftovers.shims_of(Path("/run/nobody/containerd.sock")) == []


def test_a_link_that_is_not_there_is_no_error() -> None:
    """Removing twice is removing."""
    if os.geteuid() != 0:
        pytest.skip("needs root: deleting network devices")
    assert links.delete_link("tplnosuchlink") is False
