"""Are the volumes in memory of an orphaned pod unmounted, and nothing else?"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from activities.files import mounts
from activities.files.file_trees import StillMounted, remove_tree
from activities.volumes.orphaned_volumes import unmount_memory_volumes

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it mounts")


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[Path]:
    """Return a pod's directory; what is still mounted in it afterwards is unmounted."""
    made = tmp_path / "pods" / "uid-1"
    made.mkdir(parents=True)
    yield made
    for point in mounts.mounts_below(made):
        mounts.unmount(Path(point))


def volume(pod: Path, plugin: str, name: str = "data") -> Path:
    """Make the folder of a volume."""
    place = pod / "volumes" / f"kubernetes.io~{plugin}" / name
    place.mkdir(parents=True)
    return place


def test_volumes_in_memory_and_sub_paths_go(pod: Path) -> None:
    """Then the folders can be removed."""
    mounts.mount("tmpfs", volume(pod, "secret"), "tmpfs")
    mounts.mount("tmpfs", volume(pod, "empty-dir"), "tmpfs")
    (pod / "volumes/kubernetes.io~empty-dir/data/part").mkdir()
    part = pod / "volume-subpaths/data/web/0"
    part.mkdir(parents=True)
    mounts.bind(pod / "volumes/kubernetes.io~empty-dir/data/part", part)
    for _ in range(2):
        unmount_memory_volumes(pod)
        assert mounts.mounts_below(pod) == []
    remove_tree(pod)
    assert not pod.exists()


@pytest.mark.parametrize("kind", ["a-claim", "below-a-volume"])
def test_any_other_mount_stays(pod: Path, tmp_path: Path, kind: str) -> None:
    """A mounted disk, and a mount made by a container inside a volume; so the folders stay as well."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk/file").write_text("somebody's")
    point = volume(pod, "csi", "pv-1") / "mount" if kind == "a-claim" else volume(pod, "empty-dir") / "mount"
    point.mkdir()
    mounts.bind(tmp_path / "disk", point)
    unmount_memory_volumes(pod)
    with pytest.raises(StillMounted):
        remove_tree(pod)
    assert (point / "file").read_text() == "somebody's"


def test_a_pod_without_volumes(pod: Path) -> None:
    """There is nothing to undo."""
    before = sorted(pod.rglob("*"))
    unmount_memory_volumes(pod)
    assert sorted(pod.rglob("*")) == before
    unmount_memory_volumes(pod / "never-was")
    assert not (pod / "never-was").exists()
