"""Are mounts made, seen and undone as asked, however often, and is nothing mounted or undone behind a link?"""

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from activities.files import mounts
from activities.files.mounts import Mount, MountFlag

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it mounts")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """Return a folder to mount in, with an odd name; remaining mounts in it are unmounted."""
    odd = tmp_path / "odd \t\\ näme\n"
    (odd / "source").mkdir(parents=True)
    (odd / "source" / "file").write_text("seen")
    (odd / "target").mkdir()
    yield odd
    for point in mounts.mounts_below(odd):
        mounts.unmount(Path(point), detach=True)


@pytest.mark.parametrize(
    ("options", "super_options", "enabled", "labelled"),
    [
        pytest.param("rw,seclabel", "rw", True, True, id="of-the-mount"),
        pytest.param("rw", "rw,seclabel", True, True, id="of-the-file-system"),
        pytest.param("rw", "rw,context=system_u:object_r:nfs_t:s0", True, False, id="one-label-for-all-its-files"),
        pytest.param("rw", "rw,seclabels", True, False, id="another-option"),
        pytest.param("rw,seclabel", "rw,seclabel", False, False, id="selinux-is-off"),
    ],
)
def test_whether_selinux_labels_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: str, super_options: str, enabled: bool, labelled: bool
) -> None:
    """As the mount table says (hostutil_linux_test.go TestGetSELinuxSupport)."""
    point = tmp_path / "volume"
    if enabled:
        (tmp_path / "sys/fs/selinux").mkdir(parents=True)
        (tmp_path / "sys/fs/selinux/enforce").touch()
    (tmp_path / "table").write_text(
        f"1 0 8:1 / / rw,seclabel - ext4 /dev/sda rw\n2 1 8:2 / {point} {options} - xfs /dev/sdb {super_options}\n"
    )
    monkeypatch.setattr(mounts, "_TABLE", tmp_path / "table")
    assert mounts.labels_files(point, tmp_path) is labelled
    assert not mounts.labels_files(tmp_path / "nothing", tmp_path)


def test_a_tmpfs_is_mounted_with_its_options_and_undone(place: Path) -> None:
    """The table tells kind, source, flags and options; undoing twice is undoing."""
    target = place / "target"
    mounts.mount("tmpfs", target, "tmpfs", MountFlag.NO_EXEC, options=("size=1024k", "mode=711"))
    found = mounts.mount_at(target)
    assert found
    assert (found.kind, found.source, found.point) == ("tmpfs", "tmpfs", str(target))
    assert "noexec" in found.options
    assert "size=1024k" in found.super_options
    assert mounts.is_mount_point(target)
    assert mounts.unmount(target)
    assert not mounts.unmount(target)
    assert not mounts.is_mount_point(target)
    assert mounts.mount_at(target) is None


def test_a_bind_shows_the_source_and_read_only_holds(place: Path) -> None:
    """Writes are refused at the new place and nowhere else, and flags of the source's mount stay."""
    source, target = place / "source", place / "target"
    mounts.mount("tmpfs", source, "tmpfs", MountFlag.NO_SUID | MountFlag.NO_DEV)
    mounts.bind(source, target, read_only=True)
    with pytest.raises(OSError, match="Read-only"):
        (target / "new").touch()
    (source / "new").touch()
    assert (target / "new").exists()
    found = mounts.mount_at(target)
    assert found
    assert {"ro", "nosuid", "nodev"} <= set(found.options)


def test_a_file_is_a_mount_point_like_a_folder(place: Path) -> None:
    """A subPath may be a file."""
    target = place / "file"
    target.touch()
    assert not mounts.is_mount_point(target)
    mounts.bind(place / "source" / "file", target)
    assert mounts.is_mount_point(target)
    assert target.read_text() == "seen"
    assert mounts.unmount(target)
    assert target.read_text() == ""


def test_a_bind_of_the_same_file_system_is_a_mount_point(place: Path) -> None:
    """Device numbers would not tell it."""
    mounts.bind(place / "source", place / "target")
    assert mounts.is_mount_point(place / "target")


def test_all_layers_go_at_once(place: Path) -> None:
    """Two tries that each mounted leave two mounts on one point."""
    for _ in range(3):
        mounts.mount("tmpfs", place / "target", "tmpfs")
    assert mounts.mounts_below(place) == [str(place / "target")] * 3
    assert mounts.unmount(place / "target")
    assert mounts.mounts_below(place) == []


def test_a_recursive_bind_takes_what_is_mounted_below(place: Path) -> None:
    """And without it only the folder itself is seen; the deepest comes first, to be undone first."""
    (place / "source" / "below").mkdir()
    mounts.mount("tmpfs", place / "source" / "below", "tmpfs")
    (place / "source" / "below" / "inside").touch()
    mounts.bind(place / "source", place / "target")
    assert not (place / "target" / "below" / "inside").exists()
    mounts.unmount(place / "target")
    mounts.bind(place / "source", place / "target", recursive=True)
    assert (place / "target" / "below" / "inside").exists()
    assert mounts.mounts_below(place / "target") == [str(place / "target" / "below"), str(place / "target")]


def test_folders_with_mounts_are_named(place: Path) -> None:
    """At or below them, with odd names, and behind a link; the parent itself, and others beside it, are none of them."""
    parent, odd = place / "parent", "a \t\\ é"
    parent.mkdir()
    mounts.mount("tmpfs", parent, "tmpfs")
    for one in (parent / odd / "deep" / "down", parent / "itself", parent / "empty", place / "parent-else" / "x"):
        one.mkdir(parents=True)
    (place / "link").symlink_to(parent)
    mounts.mount("tmpfs", place / "parent-else" / "x", "tmpfs")
    assert mounts.folders_with_mounts(parent) == set()
    mounts.mount("tmpfs", parent / odd / "deep" / "down", "tmpfs")
    mounts.mount("tmpfs", parent / "itself", "tmpfs")
    assert mounts.folders_with_mounts(parent) == {odd, "itself"}
    assert mounts.folders_with_mounts(place / "link") == {odd, "itself"}


def test_a_busy_mount_stays_and_is_told(place: Path) -> None:
    """Until it is detached on purpose."""
    target = place / "target"
    mounts.mount("tmpfs", target, "tmpfs")
    inside = subprocess.Popen(["sleep", "60"], cwd=target)
    try:
        with pytest.raises(OSError, match=str(target).split("\t", maxsplit=1)[0]) as raised:
            mounts.unmount(target)
        assert raised.value.errno == errno.EBUSY
        assert mounts.is_mount_point(target)
        assert mounts.unmount(target, detach=True)
        assert not mounts.is_mount_point(target)
    finally:
        inside.kill()
        inside.wait()


def test_a_link_in_a_points_place_is_not_followed(place: Path) -> None:
    """What it leads to stays mounted, and is no mount of the link's."""
    mounts.mount("tmpfs", place / "target", "tmpfs")
    link = place / "link"
    link.symlink_to(place / "target")
    assert not mounts.unmount(link)
    assert not mounts.is_mount_point(link)
    assert mounts.is_mount_point(place / "target")


@pytest.mark.parametrize("missing", ["nothing", "source/file/below"])
def test_what_does_not_exist_is_not_mounted(place: Path, missing: str) -> None:
    """Neither asked nor undone is an error."""
    assert not mounts.is_mount_point(place / missing)
    assert not mounts.unmount(place / missing)
    assert mounts.mount_at(place / missing) is None


def test_a_refusal_is_the_kernels_own_with_the_point(place: Path) -> None:
    """FileNotFoundError for no such point, EINVAL for a NUL, which the kernel would have cut the path at."""
    with pytest.raises(FileNotFoundError, match="nowhere"):
        mounts.mount("tmpfs", place / "nowhere", "tmpfs")
    with pytest.raises(OSError, match="NUL"):
        mounts.bind(place / "source", Path(f"{place}/target\0/x"))


def test_the_table_reads_optional_fields_and_octal_numbers() -> None:
    """The line is proc_pid_mountinfo(5)'s own example with a space in its point."""
    line = rb"36 35 98:0 /mnt1 /mnt\0402 rw,noatime shared:1 master:2 - ext3 /dev/root rw,errors=continue"
    assert mounts._read_line(line) == Mount(
        mount_id=36,
        device="98:0",
        root="/mnt1",
        point="/mnt 2",
        options=("rw", "noatime"),
        kind="ext3",
        source="/dev/root",
        super_options=("rw", "errors=continue"),
    )
