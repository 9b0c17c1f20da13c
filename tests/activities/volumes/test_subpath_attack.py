"""Can a container that swaps folders for links while subPaths are mounted get a path of the host mounted or created?"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from activities.files import mounts
from activities.volumes.subpaths import SubPath, SubPathFailed, mount_sub_path, unmount_sub_paths
from tests.activities.volumes.flipping_container import flipping

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it mounts")

TRIES = 500


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[Path]:
    """Return a pod with a volume, and a folder of the host that looks the same."""
    for owner in ("host", "pod/volume/dir"):
        (tmp_path / owner / "child").mkdir(parents=True)
        (tmp_path / owner / "file").write_text(owner)
    (tmp_path / "host").chmod(0o700)
    (tmp_path / "pod" / "volume").chmod(0o777)
    yield tmp_path / "pod"
    for point in mounts.mounts_below(tmp_path):
        mounts.unmount(Path(point), detach=True)


def seen(host: Path) -> dict[str, tuple[int, int, int]]:
    """Return the host's files: path -> device, inode, mode."""
    told = ((str(one), one.stat()) for one in (host, *host.rglob("*")))
    return {name: (one.st_dev, one.st_ino, one.st_mode) for name, one in told}


@pytest.mark.parametrize("absolute", [True, False], ids=["absolute-link", "relative-link"])
@pytest.mark.parametrize("path", ["dir", "dir/child", "dir/file", "dir/new", "dir/new/deep"])
def test_the_host_is_never_mounted_and_nothing_is_made_there(pod: Path, path: str, absolute: bool) -> None:
    """Every successful mount shows the volume; every other try is refused."""
    host, folder, link = pod.parent / "host", pod / "volume" / "dir", pod / "volume" / "link"
    link.symlink_to(host if absolute else "../../host")
    before = seen(host)
    files = {(device, inode) for device, inode, _ in before.values()}
    mounted = 0
    with flipping(folder, link):
        for _ in range(TRIES):
            try:
                place = mount_sub_path(SubPath(pod, "web", 0, "data", pod / "volume", path))
            except SubPathFailed:
                continue
            told = place.stat()
            assert (told.st_dev, told.st_ino) not in files, f"the host's {path} was mounted"
            mounted += 1
            unmount_sub_paths(pod)
    assert mounted, "no try met the folder in its place"
    assert seen(host) == before
    assert mounts.mounts_below(pod.parent) == []
