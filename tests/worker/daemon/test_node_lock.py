"""Can two workers never serve the same node, and does a dead one never block the next?"""

import fcntl
import hashlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unprivileged import NOBODY, as_nobody
from worker.daemon.node_lock import (
    NAMES,
    NodeLockHeld,
    hold_lock_file,
    hold_node_lock,
    hold_node_name,
    lock_holder,
    lock_path,
    own_processes,
)

HOLDER = """
import sys, time
from pathlib import Path
from worker.daemon.node_lock import hold_node_lock
with hold_node_lock(Path(sys.argv[1]), sys.argv[2]):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """Run another process that holds the worker's lock."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path), "worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def test_a_second_worker_is_refused_and_told_who_holds_the_lock(
    holder: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    """The message names the pid and the file, so that the operator can act."""
    with pytest.raises(NodeLockHeld) as refused, hold_node_lock(tmp_path):
        pass
    assert f"pid {holder.pid} holds {lock_path(tmp_path, 'worker')}" in str(refused.value)
    assert lock_holder(lock_path(tmp_path, "worker")) == holder.pid


def test_a_poller_may_run_beside_a_worker(holder: "subprocess.Popen[str]", tmp_path: Path) -> None:
    """Each role has a lock of its own."""
    with hold_node_lock(tmp_path, "poller") as path:
        assert path == lock_path(tmp_path, "poller")
        assert lock_holder(path) == os.getpid()
    assert holder.poll() is None


def test_the_processes_of_a_node(holder: "subprocess.Popen[str]", tmp_path: Path) -> None:
    """This one first, and once; then the holders of the other locks."""
    with hold_node_lock(tmp_path, "node"):
        assert own_processes(tmp_path) == [os.getpid(), holder.pid]


def test_a_killed_holder_leaves_the_lock_free(holder: "subprocess.Popen[str]", tmp_path: Path) -> None:
    """The kernel gives the lock back: the file it left does not matter."""
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert lock_path(tmp_path, "worker").read_text() == f"{holder.pid}\n"
    with hold_node_lock(tmp_path):
        assert lock_path(tmp_path, "worker").read_text() == f"{os.getpid()}\n"


def test_a_child_of_the_holder_does_not_keep_the_lock(tmp_path: Path) -> None:
    """A program that the worker started and that outlives it must not keep the node locked."""
    with hold_node_lock(tmp_path):
        child = subprocess.Popen(["sleep", "60"], close_fds=False)
    try:
        with hold_node_lock(tmp_path):
            pass
    finally:
        child.kill()
        child.wait()


@pytest.mark.parametrize(
    "left",
    [
        pytest.param(None, id="no-file-is-nobody"),
        pytest.param("4711\n", id="a-stale-pid-is-nobody"),
        pytest.param("", id="an-empty-file-is-nobody"),
    ],
)
def test_nobody_holds_an_unlocked_file(tmp_path: Path, left: str | None) -> None:
    """Only the lock counts, not the file's content."""
    path = tmp_path / "worker.lock"
    if left is not None:
        path.write_text(left)
    assert lock_holder(path) is None
    with hold_lock_file(path, "worker"):
        assert lock_holder(path) == os.getpid()


def test_a_node_has_one_worker_whatever_its_root_directory(tmp_path: Path) -> None:
    """Another role, node or Temporal is another name; the name is free again afterwards."""
    names = tmp_path / "names"
    with hold_node_name("worker", "n1", "t:7233 tempolet", names):
        with (
            pytest.raises(NodeLockHeld, match="another worker"),
            hold_node_name("worker", "n1", "t:7233 tempolet", names),
        ):
            pass
        for other in (("poller", "n1", "t:7233 tempolet"), ("worker", "n2", "t:7233 tempolet"), ("worker", "n1", "u")):
            with hold_node_name(*other, names):
                pass
    with hold_node_name("worker", "n1", "t:7233 tempolet", names):
        pass


def squat(words: str, lock: Path) -> str:
    """Take what an unprivileged user can: the abstract socket of a name, and each lock on its files."""
    taken = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    taken.bind(f"\0tempolet/{hashlib.sha256(words.encode()).hexdigest()}")
    opened = []
    for path in (NAMES, lock):
        for flags in (os.O_RDONLY, os.O_RDWR):
            try:
                opened.append(os.open(path, flags))
            except PermissionError:
                continue
    for descriptor in opened:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return f"squats, {len(opened)} files"


def test_an_unprivileged_user_does_not_keep_a_node_from_starting(node_dir: Path) -> None:
    """It squats on every name that it can reach, before the node starts."""
    root_dir = node_dir / "squatted"
    role, name, place = "worker", f"squatted-{os.getpid()}", "t"
    with hold_node_lock(root_dir), hold_node_name(role, name, place):
        pass  # the files are there
    lock = lock_path(root_dir, "worker")
    with as_nobody(lambda: squat(f"{role} {name} {place}", lock)) as said:
        assert said == "squats, 0 files"
        with hold_node_lock(root_dir), hold_node_name(role, name, place):
            pass


@pytest.mark.parametrize("made", ["by-a-stranger", "writable-by-others", "a-link"])
def test_a_forged_file_of_names_is_refused(tmp_path: Path, made: str) -> None:
    """Whoever can open the file could hold every name."""
    names = tmp_path / "names"
    if made == "a-link":
        names.symlink_to(tmp_path / "other")
    else:
        names.touch(mode=0o600)
        os.chown(names, NOBODY if made == "by-a-stranger" else 0, 0)
        names.chmod(0o600 if made == "by-a-stranger" else 0o606)
    with pytest.raises(OSError, match="names"), hold_node_name("worker", "n1", "t", names):
        pass
