"""Is a folder's project given, found again and given back, also twice, late and after half of a step?"""

import fcntl
import os
import threading
from pathlib import Path

import pytest

from activities.volumes.quotas import kernel, locked_files
from activities.volumes.quotas.project_files import FIRST
from activities.volumes.quotas.quotas import assign_quota, clear_quota, quota_use
from tests.activities.volumes.quotas.counted_disk import CountedDisk

KIND = "volumes/kubernetes.io~empty-dir"


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CountedDisk:
    """Return a disk with quotas."""
    found = CountedDisk(tmp_path / "pods", tmp_path / "etc")
    found.put(monkeypatch)
    return found


def folder_of(disk: CountedDisk, name: str, uid: str = "u") -> Path:
    """Make a volume's folder."""
    folder = disk.root / uid / KIND / name
    folder.mkdir(parents=True)
    return folder


def lines_of(*folders: Path, first: int = FIRST) -> tuple[str, str]:
    """Return what the files say of these."""
    numbered = list(enumerate(folders, first))
    return "".join(f"{one}:{folder}\n" for one, folder in numbered), "".join(
        f"volume{one}:{one}\n" for one, _ in numbered
    )


def test_a_life(disk: CountedDisk) -> None:
    """Each step twice; content that is there already belongs to the project, too."""
    folder = folder_of(disk, "data")
    (folder / "deep").mkdir()
    (folder / "deep/file").write_bytes(b"x" * 8192)
    (folder / "link").symlink_to("/etc/passwd")
    for _ in range(2):
        assign_quota(folder, limited=True)
        assert disk.lines() == lines_of(folder)
        assert {Path(folder, one).stat().st_ino for one in ("", "deep", "deep/file")} == disk.projects.keys()
        assert set(disk.projects.values()) == {FIRST}
        assert disk.limits == {FIRST: True}
    use = quota_use(folder)
    assert use is not None
    assert use.inodes == 3
    for _ in range(2):
        clear_quota(folder)
        assert disk.lines() == ("", "")
        assert disk.limits == {FIRST: False}
        assert quota_use(folder) is None


def test_volumes_have_a_project_each(disk: CountedDisk) -> None:
    """An id is given again when no file has it any more."""
    one, two = folder_of(disk, "one"), folder_of(disk, "two")
    assign_quota(one, limited=False)
    assign_quota(two, limited=True)
    assert disk.lines() == lines_of(one, two)
    assert disk.limits == {FIRST: False, FIRST + 1: True}
    clear_quota(one)
    three = folder_of(disk, "three")
    assign_quota(three, limited=False)
    assert disk.lines()[0] == f"{FIRST + 1}:{two}\n{FIRST + 2}:{three}\n", "the files of `one` have the first id"
    disk.projects.pop(one.stat().st_ino)
    one.rmdir()
    four = folder_of(disk, "four")
    assign_quota(four, limited=False)
    assert f"{FIRST}:{four}\n" in disk.lines()[0]


def test_without_quotas_nothing_is_written(disk: CountedDisk) -> None:
    """And files are counted."""
    disk.has_quotas = False
    folder = folder_of(disk, "data")
    assign_quota(folder, limited=True)
    clear_quota(folder)
    assert quota_use(folder) is None
    assert not list(disk.etc.iterdir())


@pytest.mark.parametrize("step", ["set_limit", "set_project"])
def test_an_assignment_that_fails_leaves_no_line(disk: CountedDisk, step: str) -> None:
    """The next try succeeds."""
    folder, disk.fails = folder_of(disk, "data"), step
    with pytest.raises(OSError, match="Input/output"):
        assign_quota(folder, limited=True)
    assert disk.lines() == ("", "")
    disk.fails = ""
    assign_quota(folder, limited=True)
    assert disk.lines() == lines_of(folder)
    assert quota_use(folder)


class KilledError(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("step", ["set_limit", "set_project", "projects", "projid"])
def test_killed_while_it_is_assigned(disk: CountedDisk, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next try finds what is done, and loses no id."""
    folder = folder_of(disk, "data")
    with monkeypatch.context() as patched:
        kill_at(patched, step)
        with pytest.raises(KilledError):
            assign_quota(folder, limited=True)
    assert quota_use(folder) is None, "it is not counted by half of a quota"
    assign_quota(folder, limited=True)
    assert disk.lines() == lines_of(folder)
    assert quota_use(folder)


@pytest.mark.parametrize("step", ["set_limit", "projects", "projid"])
def test_killed_while_it_is_cleared(disk: CountedDisk, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next try gives the rest back."""
    folder = folder_of(disk, "data")
    assign_quota(folder, limited=True)
    with monkeypatch.context() as patched:
        kill_at(patched, step)
        with pytest.raises(KilledError):
            clear_quota(folder)
    clear_quota(folder)
    assert disk.lines() == ("", "")


def kill_at(patched: pytest.MonkeyPatch, step: str) -> None:
    """End the process before a call, or before a file is replaced."""
    replace = locked_files._replace

    def killed(*given: object, **_: object) -> None:
        raise KilledError(given)

    def replaced(file: Path, content: str) -> None:
        if file.name == step:
            raise KilledError(file)
        replace(file, content)

    if step.startswith("set"):
        patched.setattr(kernel, step, killed)
    else:
        patched.setattr(locked_files, "_replace", replaced)


def test_what_is_gone_is_given_back(disk: CountedDisk) -> None:
    """The folder of an orphaned pod is removed as a whole; folders of others stay listed, also missing ones."""
    gone, mine = folder_of(disk, "data", "gone"), folder_of(disk, "data")
    assign_quota(gone, limited=True)
    others = "7:/mnt/missing\n8:/var/lib/other/pods/u/volumes/kubernetes.io~empty-dir/data\n"
    others += f"9:{disk.root}/u/volumes/kubernetes.io~csi/data\n"
    with (disk.etc / "projects").open("a") as file:
        file.write(others)
    disk.projects.clear()
    gone.rmdir()
    assign_quota(mine, limited=True)
    assert disk.lines() == (f"{others}{FIRST}:{mine}\n", f"volume{FIRST}:{FIRST}\n")
    clear_quota(gone)
    assert disk.lines()[0].endswith(f"{FIRST}:{mine}\n")


def test_clearing_what_is_removed_already(disk: CountedDisk) -> None:
    """Late: the folder is gone, its line is not."""
    folder = folder_of(disk, "data")
    assign_quota(folder, limited=True)
    folder.rmdir()
    clear_quota(folder)
    assert disk.lines() == ("", "")


def test_a_limit_that_cannot_be_cleared_holds_nothing_up(disk: CountedDisk) -> None:
    """The id is given back nevertheless (clearQuotaOnDir)."""
    folder = folder_of(disk, "data")
    assign_quota(folder, limited=True)
    disk.fails = "set_limit"
    clear_quota(folder)
    assert disk.lines() == ("", "")


def test_files_are_counted_where_the_quota_says_nothing(disk: CountedDisk) -> None:
    """Another project on the folder, a shared one, a failing call, and a missing folder."""
    folder = folder_of(disk, "data")
    disk.projects[folder.stat().st_ino] = 5
    assert quota_use(folder) is None, "a project of the whole file system is not the volume's"
    assign_quota(folder, limited=True)
    assert quota_use(folder)
    disk.fails = "use_of"
    assert quota_use(folder) is None
    disk.fails = ""
    with (disk.etc / "projects").open("a") as file:
        file.write(f"{FIRST}:/other\n")
    assert quota_use(folder) is None
    assert quota_use(folder.parent / "missing") is None


def test_the_files_keep_their_mode(disk: CountedDisk) -> None:
    """Whatever the umask; new ones are readable for all."""
    (disk.etc / "projid").write_text("mine:7\n")
    (disk.etc / "projid").chmod(0o640)
    before = os.umask(0o022)
    try:
        assign_quota(folder_of(disk, "data"), limited=True)
    finally:
        os.umask(before)
    assert [(disk.etc / one).stat().st_mode & 0o777 for one in ("projects", "projid")] == [0o644, 0o640]
    assert disk.lines()[1].startswith("mine:7\n")
    assert sorted(one.name for one in disk.etc.iterdir()) == ["projects", "projid"]


@pytest.mark.parametrize("name", ["projects", "projid"])
def test_a_file_that_is_none_is_refused(disk: CountedDisk, name: str, tmp_path: Path) -> None:
    """A link would lead root to another file (projFilesAreOK)."""
    (tmp_path / "target").write_text("")
    (disk.etc / name).symlink_to(tmp_path / "target")
    with pytest.raises(OSError, match="symbolic links"):
        assign_quota(folder_of(disk, "data"), limited=True)
    (disk.etc / name).unlink()
    os.mkfifo(disk.etc / name)
    with pytest.raises(OSError, match="is not a plain file, cannot continue"):
        assign_quota(disk.root / "u" / KIND / "data", limited=True)


def test_another_program_holds_the_lock(disk: CountedDisk) -> None:
    """It is waited for; what it has written is read, also when it has replaced the file."""
    file = disk.etc / "projects"
    file.write_text("")
    folder = folder_of(disk, "data")
    with file.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        waiting = threading.Thread(target=assign_quota, args=(folder,), kwargs={"limited": True})
        waiting.start()
        wait_for_waiter(held.fileno())
        new = disk.etc / "new"
        new.write_text(f"{FIRST}:/other\n")
        new.replace(file)
    waiting.join(10)
    assert disk.lines()[0] == f"{FIRST}:/other\n{FIRST + 1}:{folder}\n"


def wait_for_waiter(held: int) -> None:
    """Wait until somebody waits for the lock of this file, as /proc/locks tells by an arrow."""
    inode = os.fstat(held).st_ino
    while not any(
        "->" in line and line.split()[6].endswith(f":{inode}") for line in Path("/proc/locks").read_text().splitlines()
    ):
        pass
