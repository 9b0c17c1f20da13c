"""Does a container get exactly the requested path of a volume, and are all its mounts removed?

The rows are the kubelet's (subpath_linux_test.go TestSafeMakeDir, TestBindSubPath, TestCleanSubPaths), with real
mounts.
"""

import errno
import os
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from activities.files import mounts
from activities.files import safe_open as beneath
from activities.volumes.subpaths import FOLDER, SubPath, SubPathFailed, mount_sub_path, path_of, unmount_sub_paths

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it mounts")


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[Path]:
    """Return a pod's directory with a volume in it, beside a folder of the node."""
    (tmp_path / "pod" / "volume").mkdir(parents=True)
    (tmp_path / "node").mkdir()
    (tmp_path / "node" / "file").write_text("the node's")
    yield tmp_path / "pod"
    for point in mounts.mounts_below(tmp_path):
        mounts.unmount(Path(point), detach=True)


def wanted(pod: Path, path: str, index: int = 0) -> SubPath:
    """Request a path of the volume."""
    return SubPath(pod, "web", index, "data", pod / "volume", path)


Prepare = Callable[[Path], object]


def folder(name: str) -> Prepare:
    """Make a folder in the volume."""
    return lambda volume: (volume / name).mkdir(parents=True)


def file(name: str) -> Prepare:
    """Make a file in the volume."""
    return lambda volume: (volume / name).write_text("x")


def link(name: str, to: str, *folders: str) -> Prepare:
    """Make folders and a link in the volume; `{volume}` in its text stands for the volume's path."""

    def prepare(volume: Path) -> None:
        for one in folders:
            (volume / one).mkdir(parents=True)
        (volume / name).symlink_to(to.format(volume=volume))

    return prepare


def atomic(volume: Path) -> None:
    """Write a file as in a ConfigMap's volume."""
    (volume / "..2026_11_21").mkdir()
    (volume / "..2026_11_21" / "key").write_text("x")
    (volume / "..data").symlink_to("..2026_11_21")
    (volume / "key").symlink_to("..data/key")


def two_links(volume: Path) -> None:
    """Make two folders that link to each other."""
    for one, other in (("a", "b"), ("b", "a")):
        (volume / one).mkdir()
        (volume / one / "dir").symlink_to(volume / other)


@needs_root
@pytest.mark.parametrize(
    ("prepare", "path", "is_seen"),
    [
        pytest.param(folder("dir"), "dir", "dir", id="a-folder"),
        pytest.param(folder("dir/deep"), "dir//./deep/", "dir/deep", id="odd-slashes-and-dots"),
        pytest.param(folder("dir"), ".", "", id="a-dot-is-the-volume"),
        pytest.param(file("file"), "file", "file", id="a-file"),
        pytest.param(link("link", "dir", "dir"), "link", "dir", id="a-link-inside"),
        pytest.param(link("link", "{volume}/dir", "dir"), "link", "dir", id="an-absolute-link-that-leads-inside"),
        pytest.param(link("link", "{volume}", "dir"), "link/dir", "dir", id="an-absolute-link-to-the-volume"),
        pytest.param(link("dir/link", "../other", "dir", "other"), "dir/link", "other", id="a-link-to-a-sibling"),
        pytest.param(atomic, "key", "..2026_11_21/key", id="a-key-of-a-ConfigMap"),
        pytest.param(lambda _: None, "new/deep", "new/deep", id="what-is-missing-is-made"),
        pytest.param(link("link", "dir", "dir"), "link/new", "dir/new", id="what-is-missing-is-made-behind-a-link"),
        pytest.param(two_links, "a/dir/dir/dir/dir/dir/dir/dir/foo", "b/foo", id="many-links"),
        pytest.param(lambda volume: os.mkfifo(volume / "fifo"), "fifo", "fifo", id="a-fifo-is-not-waited-for"),
    ],
)
def test_the_path_is_bound(pod: Path, prepare: Prepare, path: str, is_seen: str) -> None:
    """At the kubelet's path, as the same file; a second start finds it."""
    prepare(pod / "volume")
    place = mount_sub_path(wanted(pod, path, index=3))
    assert place == pod / "volume-subpaths" / "data" / "web" / "3"
    assert place.samefile(pod / "volume" / is_seen)
    assert mounts.is_mount_point(place)
    assert mount_sub_path(wanted(pod, path, index=3)) == place
    assert mounts.mounts_below(pod) == [str(place)]


@needs_root
def test_a_socket_is_bound(pod: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mount point is a file."""
    monkeypatch.chdir(pod / "volume")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        assert stat.S_ISSOCK(mount_sub_path(wanted(pod, "socket")).stat().st_mode)


@needs_root
@pytest.mark.parametrize(
    ("prepare", "path", "doing"),
    [
        pytest.param(link("link", "../../node"), "link", "prepare subPath", id="a-link-outside"),
        pytest.param(link("link", "/"), "link", "prepare subPath", id="an-absolute-link-outside"),
        pytest.param(link("link", "{volume}-2"), "link", "prepare subPath", id="a-neighbour-with-a-longer-name"),
        pytest.param(link("link", "{volume}/.."), "link", "prepare subPath", id="an-absolute-link-above"),
        pytest.param(link("dir/link", "../../../node", "dir"), "dir/link/file", "prepare", id="a-file-outside"),
        pytest.param(link("link", "../../node"), "link/new", "prepare subPath", id="nothing-is-made-outside"),
        pytest.param(link("link", "missing"), "link/new", "prepare subPath", id="a-dangling-link"),
        pytest.param(link("dir/link", "../missing", "dir"), "dir/link", "prepare", id="a-dangling-link-to-a-sibling"),
        pytest.param(link("link", "link"), "link/new", "prepare subPath", id="a-link-to-itself"),
        pytest.param(file("file"), "file/new", "prepare subPath", id="a-folder-below-a-file"),
        pytest.param(lambda _: None, "x" * 300, "prepare subPath", id="a-name-too-long"),
        pytest.param(lambda _: None, "a/" * 2049, "prepare subPath", id="a-path-too-long"),
        pytest.param(lambda _: None, "nul\0nul", "prepare subPath", id="a-nul"),
        pytest.param(lambda volume: volume.rmdir(), "dir", "prepare subPath", id="no-volume"),
    ],
)
def test_what_is_not_in_the_volume_is_refused(pod: Path, prepare: Prepare, path: str, doing: str) -> None:
    """The message is the kubelet's and reveals nothing of the node; nothing is mounted or created outside."""
    prepare(pod / "volume")
    (pod / "volume-2").mkdir()
    with pytest.raises(SubPathFailed) as raised:
        mount_sub_path(wanted(pod, path))
    assert str(raised.value).startswith(f"failed to {doing}")
    assert str(raised.value).endswith('for volumeMount "data" of container "web"')
    assert mounts.mounts_below(pod) == []
    assert not (pod / FOLDER).exists()
    assert sorted(one.name for one in (pod.parent / "node").iterdir()) == ["file"]


@needs_root
def test_links_lead_no_deeper_than_a_path_can(pod: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each folder on the way is held open.

    Forty links, each 2,000 folders down, would use up the worker's descriptors.
    """
    monkeypatch.setattr(beneath, "_DEEPEST", 4)
    volume = pod / "volume"
    (volume / "d/d/d/d").mkdir(parents=True)
    (volume / "l").symlink_to("d/d")
    (volume / "d/d/l").symlink_to("d/d")
    mount_sub_path(wanted(pod, "l/d"))
    with pytest.raises(SubPathFailed, match="prepare subPath") as raised:
        mount_sub_path(wanted(pod, "l/l/new"))
    assert isinstance(raised.value.__cause__, OSError)
    assert raised.value.__cause__.errno == errno.ENAMETOOLONG
    assert not (volume / "d/d/d/d/new").exists()


@needs_root
@pytest.mark.parametrize("mode", [0o750, 0o777, 0o2777, 0o4777, 0o1777, 0o700])
def test_what_is_made_has_the_volumes_mode(pod: Path, mode: int) -> None:
    """Each part, with the bits that umask and mkdir remove: fsGroup needs setgid."""
    (pod / "volume").chmod(mode)
    mount_sub_path(wanted(pod, "new/deep"))
    for made in ("new", "new/deep"):
        assert stat.S_IMODE((pod / "volume" / made).stat().st_mode) == mode


@needs_root
def test_what_cannot_be_made_is_told_as_that(pod: Path) -> None:
    """For example in a read-only volume."""
    mounts.bind(pod / "volume", pod / "volume", read_only=True)
    with pytest.raises(
        SubPathFailed, match='failed to create subPath directory for volumeMount "data" of container "web"'
    ):
        mount_sub_path(wanted(pod, "new"))


@needs_root
@pytest.mark.parametrize(
    ("put", "is_seen"),
    [
        pytest.param(folder("new"), "new", id="a-folder"),
        pytest.param(link("new", "dir", "dir"), "dir", id="a-link-inside"),
        pytest.param(link("new", "{volume}/../../node"), "", id="a-link-that-leads-out"),
    ],
)
def test_what_somebody_else_makes_meanwhile_is_taken_as_it_is(
    pod: Path, monkeypatch: pytest.MonkeyPatch, put: Prepare, is_seen: str
) -> None:
    """For example when another container of the pod starts with the same path; what leads out is still refused."""
    make = os.mkdir

    def second(name: str, *mode: int, dir_fd: int | None = None) -> None:
        if name == "new" and dir_fd is not None:
            put(pod / "volume")
        make(name, *mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "mkdir", second)
    if not is_seen:
        with pytest.raises(SubPathFailed, match="failed to prepare subPath"):
            mount_sub_path(wanted(pod, "new"))
        return
    place = mount_sub_path(wanted(pod, "new"))
    assert place.samefile(pod / "volume" / is_seen)


@needs_root
def test_another_file_at_the_path_is_mounted_anew(pod: Path) -> None:
    """A restart after an update of a ConfigMap sees the new content."""
    atomic(pod / "volume")
    place = mount_sub_path(wanted(pod, "key"))
    (pod / "volume" / "..2027").mkdir()
    (pod / "volume" / "..2027" / "key").write_text("new")
    (pod / "volume" / "..tmp").symlink_to("..2027")
    (pod / "volume" / "..tmp").rename(pod / "volume" / "..data")
    assert place.read_text() == "x"
    mount_sub_path(wanted(pod, "key"))
    assert place.read_text() == "new"
    assert mounts.mounts_below(pod) == [str(place)]


@needs_root
def test_a_folder_may_come_in_a_files_place(pod: Path) -> None:
    """Or the reverse: the mount point changes with it."""
    for prepare in (file("it"), folder("it"), file("it")):
        if (pod / "volume" / "it").is_dir():
            (pod / "volume" / "it").rmdir()
        (pod / "volume" / "it").unlink(missing_ok=True)
        prepare(pod / "volume")
        assert mount_sub_path(wanted(pod, "it")).samefile(pod / "volume" / "it")


@needs_root
def test_a_mount_that_was_made_twice_is_one_again(pod: Path) -> None:
    """Something has mounted over it."""
    folder("dir")(pod / "volume")
    place = mount_sub_path(wanted(pod, "dir"))
    mounts.bind(pod.parent / "node", place)
    mount_sub_path(wanted(pod, "dir"))
    assert mounts.mounts_below(pod) == [str(place)]
    assert place.samefile(pod / "volume" / "dir")


@needs_root
def test_all_places_are_given_back(pod: Path) -> None:
    """Of every volume and container; nothing visible there is removed. Repeating it does nothing."""
    for prepare in (folder("dir"), file("dir/file"), file("file")):
        prepare(pod / "volume")
    for index, path in enumerate(("dir", "file", "dir/file")):
        mount_sub_path(wanted(pod, path, index))
        mount_sub_path(SubPath(pod, "sidecar", index, "data", pod / "volume", path))
    other = mount_sub_path(SubPath(pod, "web", 9, "other", pod / "volume", "dir"))
    (pod / FOLDER / "data" / "odd").touch()
    assert other.is_dir()
    for _ in range(2):
        unmount_sub_paths(pod)
        assert mounts.mounts_below(pod) == []
        assert not (pod / FOLDER).exists()
    assert (pod / "volume" / "dir" / "file").read_text() == "x"
    assert (pod / "volume" / "file").exists()


@needs_root
def test_a_busy_place_stays_with_all_that_is_in_it(pod: Path) -> None:
    """The error is the kernel's; the next try continues."""
    folder("dir")(pod / "volume")
    place = mount_sub_path(wanted(pod, "dir"))
    held = os.open(place, os.O_RDONLY)
    try:
        with pytest.raises(OSError, match="busy"):
            unmount_sub_paths(pod)
        assert mounts.mounts_below(pod) == [str(place)]
    finally:
        os.close(held)
    unmount_sub_paths(pod)
    assert not (pod / FOLDER).exists()


@needs_root
def test_files_in_a_place_that_is_not_mounted_are_not_removed(pod: Path) -> None:
    """Their owner is unknown."""
    place = pod / FOLDER / "data" / "web" / "0"
    place.mkdir(parents=True)
    (place / "file").write_text("x")
    with pytest.raises(OSError, match="not empty"):
        unmount_sub_paths(pod)
    assert (place / "file").exists()


VARIABLES = {"NAME": "web-0", "EMPTY": "", "UP": "..", "TOP": "/etc"}


@pytest.mark.parametrize(
    ("mount", "path"),
    [
        pytest.param({}, "", id="none"),
        pytest.param({"subPath": "a/b"}, "a/b", id="a-path"),
        pytest.param({"subPath": "$(NAME)"}, "$(NAME)", id="a-path-is-not-expanded"),
        pytest.param({"subPathExpr": "logs/$(NAME)/x"}, "logs/web-0/x", id="an-expression"),
        pytest.param({"subPathExpr": "$$(NAME)"}, "$(NAME)", id="an-escape"),
        pytest.param({"subPathExpr": "$(NAME"}, "$(NAME", id="no-reference"),
        pytest.param({"subPath": "..a/b.."}, "..a/b..", id="dots-in-a-name"),
    ],
)
def test_which_path_a_mount_shows(mount: dict[str, Any], path: str) -> None:
    """Expanded as by the kubelet."""
    assert path_of(mount, VARIABLES) == path


@pytest.mark.parametrize(
    ("mount", "message"),
    [
        pytest.param({"subPathExpr": "$(GONE)/$(EMPTY)"}, "missing value for EMPTY, GONE", id="missing-or-empty"),
        pytest.param(
            {"subPathExpr": "$(TOP)"}, r"error SubPath `\$\(TOP\)` must not be an absolute path", id="absolute"
        ),
        pytest.param(
            {"subPathExpr": "a/$(UP)"}, r"unable to provision SubPath `a/\$\(UP\)`: must not contain '..'", id="upward"
        ),
        pytest.param({"subPath": "a/../b"}, r"unable to provision SubPath `a/../b`: must not", id="upward-as-written"),
    ],
)
def test_which_path_is_refused(mount: dict[str, Any], message: str) -> None:
    """The message is the kubelet's, without the value of a variable."""
    with pytest.raises(SubPathFailed, match=f"^{message}"):
        path_of(mount, VARIABLES)
