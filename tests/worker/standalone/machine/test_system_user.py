"""Is the user of a node's Temporal made, found, and removed with the node, and is a user of the machine left alone?"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import worker
from worker.standalone.machine.system_user import SystemUser

CHECKOUT = Path(worker.__file__).resolve().parents[1]
NEEDED = ("systemd-sysusers", "userdel", "unshare")
MISSING = [name for name in NEEDED if shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin") is None]
OWN_NAMESPACES = ("unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc")
"""Of processes, too: userdel keeps a user whose number any process has, perhaps that of another test's user."""
INSIDE = 'mount --bind "$1" /etc && shift && exec "$@"'


@pytest.fixture(scope="module")
def seen(node_dir: Path) -> Iterator[dict[str, Any]]:
    """Return what a process with an /etc of its own saw."""
    if os.geteuid() != 0 or MISSING:
        pytest.skip(f"needs root and {', '.join(NEEDED)}")
    folder, etc = node_dir / "users", node_dir / "etc"
    folder.mkdir(mode=0o755)
    shutil.copytree("/etc", etc, symlinks=True)
    command = [sys.executable, "-m", "tests.worker.standalone.machine.users_inside", str(folder)]
    unshare = [*OWN_NAMESPACES, "sh", "-c", INSIDE, "sh", str(etc)]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(CHECKOUT)}
    done = subprocess.run([*unshare, *command], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    yield json.loads(done.stdout)
    shutil.rmtree(etc)
    shutil.rmtree(folder)


def test_it_is_made_once_without_a_login(seen: dict[str, Any]) -> None:
    """With a group of its own; the mark is root's."""
    assert (seen["system"], seen["again"], seen["mode"]) == (True, True, "0o600")
    assert seen["shell"].endswith("/nologin")
    assert seen["group"] == seen["name"]


def test_whether_it_can_do_its_work_is_tried(seen: dict[str, Any]) -> None:
    """It enters the folder and runs the program, or both are named."""
    assert seen["usable"] == ""
    assert "cannot enter" in seen["no program"]
    assert "missing" in seen["no program"]
    assert "cannot enter" in seen["no way"]


def test_nothing_is_left_of_it(seen: dict[str, Any]) -> None:
    """Neither user, group nor mark; also if a start was cut off before it was made."""
    assert (seen["nothing to remove"], seen["removed"]) == ("", "")
    assert (seen["passwd"], seen["left"], seen["group left"]) == (True, [], False)
    assert seen["cut off"] == ["", False]


def test_a_user_that_cannot_be_removed_is_told(seen: dict[str, Any]) -> None:
    """And is tried again by the next `down --purge`, for the mark stays."""
    assert seen["stays"] == [f"user {seen['name']}: userdel: userdel: user is currently used by process 7", True]


def test_a_user_of_the_machine_is_used_and_stays(seen: dict[str, Any]) -> None:
    """Root is none."""
    assert seen["of the machine"] == [False, "", "games"]
    assert seen["root"] == "user root is root"


def test_a_machine_that_makes_no_users_says_why(seen: dict[str, Any]) -> None:
    """In one line, and without a mark."""
    assert seen["not made"] == f"user {seen['name']} cannot be made: systemd-sysusers: Read-only file system"
    assert seen["undeclared"]


def test_each_node_has_its_own(tmp_path: Path) -> None:
    """By its run folder; the name is short enough for sysusers.d(5)."""
    first, other = SystemUser.of_temporal(tmp_path), SystemUser.of_temporal(tmp_path, Path("/run/tempolet-2"))
    assert first.name == "tempolet-temporal"
    assert other.name.startswith("tempolet-temporal-")
    assert len(other.name) <= 31
