"""Can a pod, by links or mounts, make us remove anything that is not its own?"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from activities.files.file_trees import StillMounted, remove_tree
from activities.files.mounts import mounts_below
from activities.files.tree_walk import TreeMoved

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it mounts")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a pod's directory with a file in a folder, beside a folder that is not the pod's."""
    pod = tmp_path / "pods" / "uid"
    (pod / "volumes" / "deep").mkdir(parents=True)
    (pod / "volumes" / "deep" / "file").write_text("the pod's")
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("the node's")
    return pod


@pytest.fixture
def mounted(tree: Path) -> Iterator[Path]:
    """Mount the folder that is not the pod's into the pod's, on the same file system."""
    point = tree / "volumes" / "mnt \t1"
    point.mkdir()
    subprocess.run(["mount", "--bind", str(tree.parents[1] / "precious"), str(point)], check=True)
    try:
        yield point
    finally:
        subprocess.run(["umount", str(point)], check=True)


def test_a_tree_goes_with_all_in_it(tree: Path) -> None:
    """And once more, for what is gone is removed."""
    remove_tree(tree)
    assert not tree.exists()
    remove_tree(tree)
    remove_tree(tree / "never" / "was")


def test_a_link_is_removed_not_followed(tree: Path) -> None:
    """To a folder, to a file, to nowhere, and to itself."""
    precious = tree.parents[1] / "precious"
    (tree / "volumes" / "folder").symlink_to(precious)
    (tree / "volumes" / "file").symlink_to(precious / "file")
    (tree / "volumes" / "nowhere").symlink_to("/no/such/thing")
    (tree / "volumes" / "loop").symlink_to("loop")
    remove_tree(tree)
    assert not tree.exists()
    assert (precious / "file").read_text() == "the node's"


def test_a_link_in_the_trees_place_is_unlinked(tree: Path) -> None:
    """What it leads to stays."""
    place = tree.with_name("other")
    place.symlink_to(tree)
    remove_tree(place)
    assert not place.is_symlink()
    assert (tree / "volumes" / "deep" / "file").exists()


def test_fifos_and_odd_names_go_too(tree: Path) -> None:
    """Nothing is opened that is not a directory; a name need not be text."""
    os.mkfifo(tree / "volumes" / "fifo")
    (tree / os.fsdecode(b"\xff\xfe\n")).write_text("x")
    remove_tree(tree)
    assert not tree.exists()


def test_a_tree_deeper_than_our_stack_goes_too(tree: Path) -> None:
    """A pod can make one: neither a stack nor the number of open files ends the removal."""
    here = os.open(tree / "volumes", os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY | os.O_DIRECTORY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    remove_tree(tree)
    assert not tree.exists()


def test_directories_that_are_moved_meanwhile_lead_nowhere(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the tree's own folder is moved elsewhere, nothing there is removed."""
    elsewhere = tree.parents[1] / "precious"
    deep = tree / "volumes" / "deep"
    unlink = os.unlink

    def moving(name: str, *, dir_fd: int) -> None:
        unlink(name, dir_fd=dir_fd)
        deep.rename(elsewhere / "deep")

    monkeypatch.setattr("os.unlink", moving)
    with pytest.raises(TreeMoved):
        remove_tree(tree)
    assert (elsewhere / "file").exists()
    assert (elsewhere / "deep").exists()


@pytest.mark.parametrize("where", ["deep", "new"])
def test_a_link_that_takes_a_directorys_place_meanwhile_is_not_followed(
    tree: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """As Go's os.RemoveAll once followed it (kubernetes/kubernetes#132267): whoever shares a pod's uid can exchange the two."""
    precious = tree.parents[1] / "precious"
    found = tree / "volumes" / where
    found.mkdir(exist_ok=True)
    look = os.stat

    def exchanging(name: Any, **how: Any) -> os.stat_result:
        seen = look(name, **how)
        if name == where and not found.is_symlink():
            found.rename(tree / "moved")
            found.symlink_to(precious)
        return seen

    monkeypatch.setattr("os.stat", exchanging)
    with pytest.raises(NotADirectoryError):
        remove_tree(tree)
    assert (precious / "file").read_text() == "the node's"
    monkeypatch.undo()
    remove_tree(tree)
    assert not tree.exists()
    assert (precious / "file").read_text() == "the node's"


@needs_root
def test_a_mount_ends_the_removal_before_it_begins(tree: Path, mounted: Path) -> None:
    """Nothing behind it, and nothing beside it, is touched."""
    assert mounts_below(tree) == [str(mounted)]
    with pytest.raises(StillMounted, match="still mounted"):
        remove_tree(tree)
    assert (tree / "volumes" / "deep" / "file").exists()
    assert (tree.parents[1] / "precious" / "file").exists()


@needs_root
def test_a_mount_that_the_table_did_not_show_is_not_entered(
    tree: Path, mounted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It came after the look: the directory's own mount gives it away, on the same file system too."""
    monkeypatch.setattr("activities.files.file_trees.mounts_below", lambda _: [])
    with pytest.raises(StillMounted, match=mounted.name):
        remove_tree(tree)
    assert (tree.parents[1] / "precious" / "file").read_text() == "the node's"


@needs_root
def test_a_mount_of_a_neighbour_with_a_longer_name_is_none_of_ours(tree: Path) -> None:
    """`uid-2` is not below `uid`."""
    neighbour = tree.with_name("uid-2")
    neighbour.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", str(neighbour)], check=True)
    try:
        assert mounts_below(tree) == []
        remove_tree(tree)
    finally:
        subprocess.run(["umount", str(neighbour)], check=True)
    assert not tree.exists()
