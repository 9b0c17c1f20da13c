"""Does a full log become the kubelet's files, whatever an earlier rotation left or an attacker put there?"""

import gzip
import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import grpc
import pytest

from activities.clients.cri_error import CriError
from activities.clients.runtime import RuntimeClient
from activities.files.pod_paths import PodPaths
from activities.logs import rotation
from activities.logs.log_files import ContainerLog, ForeignFile
from activities.logs.rotation import LogRotation, rotate, split_unused
from proto.temporal.pod import PodKey

RULES = LogRotation(max_size=10, max_files=3)
NOW = datetime(2026, 11, 21, 12, 4, 10)  # noqa: DTZ001 -- the node's own time
SECRET = "a line of the host's own"


class Runtime(RuntimeClient):
    """Begins a new file of a log's name, or refuses."""

    def __init__(self, log: ContainerLog, refuses: str = "", begins: bool = True) -> None:
        self.log, self.refuses, self.begins = log, refuses, begins
        self.reopened: list[str] = []

    async def reopen_container_log(self, container_id: str) -> None:
        """Do as the runtime does."""
        self.reopened.append(container_id)
        if self.begins:
            self.log.path.write_text("")
        if self.refuses:
            raise CriError("ReopenContainerLog", grpc.StatusCode.UNKNOWN, self.refuses)


@pytest.fixture
def log(tmp_path: Path) -> ContainerLog:
    """Return a full log."""
    paths = PodPaths(tmp_path / "kubelet", tmp_path / "logs", PodKey("default", "web", "u-1"))
    found = ContainerLog(paths, "main", 0)
    found.path.parent.mkdir(parents=True)
    found.path.write_text("full" * 10)
    return found


def lying(log: ContainerLog) -> list[str]:
    """List what lies in the log's folder."""
    return sorted(os.listdir(log.path.parent))  # noqa: PTH208 -- names only


def read(path: Path) -> str:
    """Read a file."""
    return path.read_text()


@pytest.mark.parametrize(
    ("names", "used"),
    [
        pytest.param(["0.log.2", "0.log.1"], ["0.log.1", "0.log.2"], id="oldest-first"),
        pytest.param(["0.log.1.tmp"], [], id="a-temporary-file-is-left-over"),
        pytest.param(["0.log.1", "0.log.1.gz"], ["0.log.1.gz"], id="what-is-compressed-already-is-left-over"),
        pytest.param(["0.log.1", "0.log.1.tmp"], ["0.log.1"], id="a-compression-that-broke-off-is-done-again"),
        pytest.param([], [], id="the-first-rotation"),
    ],
)
def test_what_an_earlier_rotation_left(names: list[str], used: list[str]) -> None:
    """Rows of container_log_manager_test.go TestCleanupUnusedLog."""
    assert split_unused(names) == (used, sorted(set(names) - set(used)))


async def test_a_full_log_is_renamed_and_begun_anew(log: ContainerLog) -> None:
    """With a name of its time, not compressed: a log agent may be reading it."""
    runtime = Runtime(log)
    await rotate(log, "c1", RULES, runtime)
    new, old = lying(log)
    assert (new, runtime.reopened) == ("0.log", ["c1"])
    datetime.strptime(old, "0.log.%Y%m%d-%H%M%S")  # noqa: DTZ007 -- the node's own time
    assert (log.path.parent / old).read_text() == "full" * 10
    assert log.path.read_text() == ""


async def test_the_one_before_is_compressed_and_the_oldest_goes(log: ContainerLog) -> None:
    """Three files at most: the log, the one before, and one compressed; of the same mode as it was."""
    folder = log.path.parent
    for name in ("0.log.20260101-000000.gz", "0.log.20260102-000000", "0.log.20260103-000000.tmp", "1.log.1"):
        (folder / name).write_text(name)
    (folder / "0.log.20260102-000000").chmod(0o640)
    rotation._move(log, RULES, NOW)
    packed = folder / "0.log.20260102-000000.gz"
    assert lying(log) == [packed.name, "0.log.20261121-120410", "1.log.1"]
    assert gzip.decompress(packed.read_bytes()) == b"0.log.20260102-000000"
    assert packed.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("taken", ["0.log.20261121-120410", "0.log.20261121-120410.gz"])
def test_a_second_rotation_within_a_second_waits(log: ContainerLog, taken: str) -> None:
    """Its name would cover the one before, or count as compressed already."""
    (log.path.parent / taken).write_bytes(gzip.compress(b"before"))
    assert rotation._move(log, LogRotation(10, 9), NOW) == ""
    assert "0.log" in lying(log)


async def test_a_runtime_that_refuses_leaves_the_log_as_it_was(log: ContainerLog) -> None:
    """So that the next look tries again."""
    with pytest.raises(CriError, match="no such container"):
        await rotate(log, "c1", RULES, Runtime(log, "no such container", begins=False))
    assert lying(log) == ["0.log"]
    assert log.path.read_text() == "full" * 10


async def test_a_runtime_whose_answer_was_lost_has_begun_the_new_log(log: ContainerLog) -> None:
    """What it writes there is not covered by the old one."""
    with pytest.raises(CriError, match="timed out"):
        await rotate(log, "c1", RULES, Runtime(log, "timed out"))
    assert len(lying(log)) == 2
    assert log.path.read_text() == ""


def link(place: Path, secret: Path) -> None:
    """Put a symbolic link there."""
    place.unlink(missing_ok=True)
    place.symlink_to(secret)


def hard_link(place: Path, secret: Path) -> None:
    """Put a second name there."""
    place.unlink(missing_ok=True)
    place.hardlink_to(secret)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """Return a file of the host that must not be read."""
    found = tmp_path / "shadow"
    found.write_text(SECRET)
    return found


@pytest.mark.parametrize("put", [link, hard_link])
async def test_a_log_replaced_by_a_link_is_left_alone(
    log: ContainerLog, secret: Path, put: Callable[[Path, Path], None]
) -> None:
    """Not renamed, read, compressed or truncated, and the runtime is not asked to open it."""
    put(log.path, secret)
    runtime = Runtime(log)
    with pytest.raises(ForeignFile, match="left alone"):
        await rotate(log, "c1", RULES, runtime)
    assert (lying(log), runtime.reopened, read(secret)) == (["0.log"], [], SECRET)


@pytest.mark.parametrize("put", [link, hard_link])
def test_a_rotated_log_that_is_a_link_only_loses_its_name(
    log: ContainerLog, secret: Path, put: Callable[[Path, Path], None]
) -> None:
    """No copy of a host file comes to lie in the folder, and rotation goes on."""
    put(log.path.parent / "0.log.20260101-000000", secret)
    rotation._move(log, RULES, NOW)
    assert lying(log) == ["0.log.20261121-120410"]
    assert secret.read_text() == SECRET


def test_the_temporary_file_is_never_written_through_a_link(log: ContainerLog, secret: Path) -> None:
    """It is recreated, whatever is in its place."""
    (log.path.parent / "0.log.20260101-000000").write_text("old")
    link(log.path.parent / "0.log.20260101-000000.tmp", secret)
    rotation._move(log, RULES, NOW)
    assert lying(log) == ["0.log.20260101-000000.gz", "0.log.20261121-120410"]
    assert secret.read_text() == SECRET


def test_a_fifo_and_a_folder_hold_nothing_up(log: ContainerLog) -> None:
    """A FIFO without a writer does not block, and a folder is not removed."""
    os.mkfifo(log.path.parent / "0.log.20260101-000000")
    (log.path.parent / "0.log.20260102-000000").mkdir()
    rotation._move(log, LogRotation(10, 9), NOW)
    assert lying(log) == ["0.log.20260102-000000", "0.log.20261121-120410"]


@pytest.mark.parametrize("level", [0, 1])
def test_a_folder_replaced_by_a_link_is_not_entered(log: ContainerLog, tmp_path: Path, level: int) -> None:
    """Neither the container's nor the pod's."""
    folder = log.path.parents[level]
    elsewhere = tmp_path / "elsewhere"
    folder.rename(elsewhere)
    folder.symlink_to(elsewhere)
    with pytest.raises(NotADirectoryError):
        rotation._move(log, RULES, NOW)
    assert log.path.read_text() == "full" * 10
