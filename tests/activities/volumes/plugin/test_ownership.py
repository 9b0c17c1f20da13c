"""Do a volume's files get the fsGroup, and no file outside the volume (pkg/volume/volume_linux_test.go)?"""

import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from activities.volumes.plugin.ownership import (
    ON_ROOT_MISMATCH,
    FsGroup,
    apply_fs_group,
    fs_group_of,
    fs_user_of,
    root_matches,
)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it gives files away")
GROUP = 4321
WANTED = FsGroup(GROUP)
LAZY = FsGroup(GROUP, ON_ROOT_MISMATCH)


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """Return a volume with a folder and a file, beside files of the node."""
    made = tmp_path / "volume"
    (made / "folder").mkdir(parents=True, mode=0o700)
    (made / "folder" / "file").write_text("")
    (made / "folder" / "file").chmod(0o600)
    (tmp_path / "host").mkdir(mode=0o700)
    (tmp_path / "host" / "file").write_text("")
    (tmp_path / "host" / "file").chmod(0o600)
    return made


def seen(path: Path) -> tuple[int, str]:
    """Return a file's group and mode."""
    found = path.lstat()
    return found.st_gid, f"{stat.S_IMODE(found.st_mode):o}"


def test_files_are_the_groups(volume: Path) -> None:
    """Folders get the set-group-ID bit, so that new files get the group, too; the root comes last."""
    volume.chmod(0o755)
    assert apply_fs_group(volume, WANTED) == 3
    assert seen(volume) == (GROUP, "2775")
    assert seen(volume / "folder") == (GROUP, "2770")
    assert seen(volume / "folder/file") == (GROUP, "660")


def test_files_of_a_read_only_volume_are_not_made_writable(volume: Path) -> None:
    """The group may read them."""
    (volume / "folder/file").chmod(0o400)
    apply_fs_group(volume, WANTED, read_only=True)
    assert seen(volume / "folder") == (GROUP, "2750")
    assert seen(volume / "folder/file") == (GROUP, "440")


def test_rights_and_set_id_bits_that_are_there_stay(volume: Path) -> None:
    """A change of owner removes set-ID bits; they are restored."""
    (volume / "folder/file").chmod(0o4757)
    apply_fs_group(volume, WANTED)
    assert seen(volume / "folder/file") == (GROUP, "4777")


def test_a_second_walk_changes_nothing(volume: Path) -> None:
    """Not even ctime changes."""
    apply_fs_group(volume, WANTED)
    before = [path.lstat().st_ctime_ns for path in (volume, volume / "folder", volume / "folder/file")]
    assert apply_fs_group(volume, WANTED) == 3
    assert [path.lstat().st_ctime_ns for path in (volume, volume / "folder", volume / "folder/file")] == before


@pytest.mark.parametrize(
    ("group", "mode", "walks"),
    [
        pytest.param(GROUP, 0o2770, False, id="as-wanted"),
        pytest.param(GROUP, 0o2775, False, id="with-more-rights"),
        pytest.param(GROUP, 0o2750, True, id="the-group-may-not-write"),
        pytest.param(GROUP, 0o770, True, id="without-the-set-group-bit"),
        pytest.param(0, 0o2770, True, id="another-group"),
    ],
)
def test_on_root_mismatch(volume: Path, group: int, mode: int, walks: bool) -> None:
    """The volume's root decides (TestSkipPermissionChange); without the policy the volume is always walked."""
    os.chown(volume, 0, group)
    volume.chmod(mode)
    assert root_matches(volume, GROUP) is not walks
    assert (apply_fs_group(volume, LAZY) > 0) is walks
    assert (seen(volume / "folder/file")[0] == GROUP) is walks
    assert apply_fs_group(volume, WANTED) == 3


def test_a_walk_that_ended_halfway_is_done_again(volume: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The root comes last, so this holds with OnRootMismatch too."""
    volume.chmod(0o2777)

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("os.chown", killed)
        with pytest.raises(KeyboardInterrupt):
            apply_fs_group(volume, LAZY)
    apply_fs_group(volume, LAZY)
    assert seen(volume / "folder/file") == (GROUP, "660")


def test_a_volume_full_of_links_gives_no_file_of_the_node_away(volume: Path, tmp_path: Path) -> None:
    """Links to a file, a folder, upward, to nowhere and to itself: the links get the group, their targets do not."""
    host = tmp_path / "host"
    targets: list[Path | str] = [host / "file", host, "../../host/file", "/etc/passwd", "/", "/nowhere", "loop"]
    for place in (volume, volume / "folder"):
        for number, target in enumerate(targets):
            (place / f"link-{number}").symlink_to(target)
        (place / "loop").symlink_to("loop")
    before = {
        path: (path.lstat().st_gid, path.lstat().st_mode, path.lstat().st_ctime_ns) for path in (host, host / "file")
    }
    passwd = Path("/etc/passwd").stat().st_ctime_ns
    apply_fs_group(volume, WANTED)
    assert seen(volume / "link-0")[0] == GROUP
    assert seen(volume / "folder/link-1")[0] == GROUP
    for path, known in before.items():
        assert (path.lstat().st_gid, path.lstat().st_mode, path.lstat().st_ctime_ns) == known
    assert Path("/etc/passwd").stat().st_ctime_ns == passwd


def test_a_link_that_takes_a_files_place_meanwhile_is_not_followed(
    volume: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A swap between our check and our change has no effect."""
    host, victim = tmp_path / "host/file", volume / "folder/file"
    stat_of, opened = os.stat, os.open

    def swapping(path: object, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path == "file" and not victim.is_symlink():
            victim.unlink()
            victim.symlink_to(host)
        return opened(path, flags, mode, dir_fd=dir_fd)  # type: ignore[arg-type]  # whatever path the walk gives

    before = stat_of(host)
    monkeypatch.setattr("os.open", swapping)
    apply_fs_group(volume, WANTED)
    after = stat_of(host)
    assert victim.is_symlink()
    assert (after.st_gid, after.st_mode, after.st_ctime_ns) == (before.st_gid, before.st_mode, before.st_ctime_ns)


@pytest.fixture
def mounted(volume: Path, tmp_path: Path) -> Iterator[Path]:
    """Mount the node's folder into the volume."""
    point = volume / "mounted"
    point.mkdir()
    subprocess.run(["mount", "--bind", str(tmp_path / "host"), str(point)], check=True)
    yield point
    subprocess.run(["umount", str(point)], check=True)


def test_what_is_mounted_in_a_volume_stays_as_it_is(volume: Path, mounted: Path) -> None:
    """It is not part of the volume."""
    apply_fs_group(volume, WANTED)
    assert seen(mounted) == (0, "700")
    assert seen(mounted / "file") == (0, "600")
    assert seen(volume / "folder/file")[0] == GROUP


def test_odd_files(volume: Path) -> None:
    """A FIFO does not block, a name may be any bytes, a device is not opened."""
    os.mkfifo(volume / "fifo", 0o600)
    (volume / os.fsdecode(b"\xff\n")).write_text("")
    os.mknod(volume / "device", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    apply_fs_group(volume, WANTED)
    assert {seen(path)[0] for path in volume.iterdir()} == {GROUP}


def test_what_a_pod_asks_for() -> None:
    """The group 0 counts, too."""
    assert fs_group_of({"spec": {}}) is None
    assert fs_group_of({"spec": {"securityContext": {"fsGroup": 0}}}) == FsGroup(0)
    asked = {"fsGroup": 7, "fsGroupChangePolicy": "OnRootMismatch"}
    assert fs_group_of({"spec": {"securityContext": asked}}) == FsGroup(7, ON_ROOT_MISMATCH)


@pytest.mark.parametrize(
    ("spec", "user"),
    [
        pytest.param({"containers": [{}]}, None, id="nobody-says"),
        pytest.param({"securityContext": {"runAsUser": 7}, "containers": [{}, {}]}, 7, id="the-pod-says"),
        pytest.param({"containers": [{"securityContext": {"runAsUser": 0}}]}, 0, id="root-is-a-user-too"),
        pytest.param(
            {"securityContext": {"runAsUser": 7}, "containers": [{"securityContext": {"runAsUser": 8}}]},
            8,
            id="its-only-container-says-otherwise",
        ),
        pytest.param(
            {
                "securityContext": {"runAsUser": 7},
                "containers": [{}],
                "initContainers": [{"securityContext": {"runAsUser": 8}}],
            },
            None,
            id="an-init-container-is-another",
        ),
        pytest.param({"containers": [{"securityContext": {"runAsUser": 7}}, {}]}, None, id="one-does-not-say"),
        pytest.param(
            {"containers": [{"securityContext": {"runAsUser": 7}}], "ephemeralContainers": [{}]},
            None,
            id="who-looks-in-does-not-say",
        ),
    ],
)
def test_whose_a_credential_is(spec: dict[str, Any], user: int | None) -> None:
    """The user that all containers run as (pkg/volume/util FsUserFrom)."""
    assert fs_user_of({"spec": spec}) == user
