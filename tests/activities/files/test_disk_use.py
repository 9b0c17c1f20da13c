"""Is counted what a folder takes of the disk, however its owner has furnished it?"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from activities.files import mounts
from activities.files.disk_use import CountTimedOut, used_bytes

MIB = 1024 * 1024


def never(_: int) -> bool:
    """Count all of it."""
    return False


def counted(folder: Path) -> int:
    """Count to the end."""
    return used_bytes(folder, never, 60)


def blocks(path: Path) -> int:
    """Say what one thing takes by itself."""
    return path.lstat().st_blocks * 512


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make a volume, and a large file beside it."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/large").write_bytes(b"x" * MIB)
    (tmp_path / "volume").mkdir()
    return tmp_path / "volume"


def a_file(folder: Path) -> int:
    """Write a megabyte."""
    (folder / "file").write_bytes(b"x" * MIB)
    return MIB


def below(folder: Path) -> int:
    """Write it far below."""
    deep = folder / "a/b/c"
    deep.mkdir(parents=True)
    return a_file(deep)


def two_names(folder: Path) -> int:
    """Add a hard link to a file."""
    a_file(folder)
    (folder / "other").hardlink_to(folder / "file")
    return MIB


def a_hole(folder: Path) -> int:
    """Make a file that is all hole."""
    with (folder / "sparse").open("wb") as file:
        file.truncate(1024 * MIB)
    return 0


def links_out(folder: Path) -> int:
    """Point to a file and a folder outside, and round in a circle."""
    (folder / "file").symlink_to(folder.parent / "outside/large")
    (folder / "folder").symlink_to(folder.parent / "outside")
    (folder / "round").symlink_to(folder)
    return 0


def a_pipe(folder: Path) -> int:
    """Create a FIFO, which blocks those who open it."""
    os.mkfifo(folder / "pipe")
    return 0


@pytest.mark.parametrize(
    "furnish",
    [
        pytest.param(a_file, id="a-file"),
        pytest.param(below, id="a-file-far-below"),
        pytest.param(two_names, id="a-file-with-two-names-once"),
        pytest.param(a_hole, id="no-hole"),
        pytest.param(links_out, id="no-links"),
        pytest.param(a_pipe, id="no-pipe"),
    ],
)
def test_what_counts(folder: Path, furnish: Callable[[Path], int]) -> None:
    """As much as was written, and what the folders and links themselves take."""
    written = furnish(folder)
    assert written <= counted(folder) <= written + 64 * 1024


def test_a_folder_that_is_no_more_takes_nothing(tmp_path: Path) -> None:
    """Its pod has gone."""
    assert counted(tmp_path / "none") == 0


def test_a_link_in_the_place_of_the_volume(folder: Path) -> None:
    """What it leads to is not counted."""
    folder.rmdir()
    folder.symlink_to(folder.parent / "outside")
    assert counted(folder) == blocks(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts")
def test_what_is_mounted_in_it_does_not_count(folder: Path) -> None:
    """Neither a file system of its own, nor a folder of the same one."""
    for name in ("memory", "bound"):
        (folder / name).mkdir()
    mounts.mount("tmpfs", folder / "memory", "tmpfs")
    mounts.bind(folder.parent / "outside", folder / "bound")
    try:
        a_file(folder / "memory")
        assert counted(folder) < MIB
    finally:
        mounts.unmount(folder / "bound")
        mounts.unmount(folder / "memory")


def test_it_counts_no_further_than_it_must(folder: Path) -> None:
    """What exceeds the limit is told at once."""
    for number in range(8):
        (folder / str(number)).write_bytes(b"x" * MIB)
    assert MIB < used_bytes(folder, lambda used: used > MIB, 60) <= 2 * MIB + 64 * 1024


def test_it_takes_no_longer_than_it_may(folder: Path) -> None:
    """How far it came is told."""
    a_file(folder)
    seconds = iter([0.0, *(61.0 for _ in range(9))])
    with pytest.raises(CountTimedOut, match=f"not counted in 60 s: {blocks(folder / 'file')} bytes and more"):
        used_bytes(folder, never, 60, lambda: next(seconds))
