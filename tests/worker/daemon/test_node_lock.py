"""Can two workers never serve the same node, and does a dead one never block the next?"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from worker.daemon.node_lock import NodeLockHeld, hold_lock_file, hold_node_lock, lock_holder, lock_path

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
