"""With the hardening of our units: is an orphaned pod removed, whose processes the poller may not kill and whose mounts it may not undo?"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.worker.daemon.systemd_machine import Machine, our_unit, skip_unless_possible

pytestmark = pytest.mark.systemd

ONCE = "[Service]\nType=oneshot\nRestart=no\nWatchdogSec=0\nPrivateTmp=no\n"
"""A step ends; the test's folder is in /tmp."""


@pytest.fixture
def step(tmp_path: Path) -> Iterator[Callable[[str, str], str]]:
    """Return a function that does a step as one of our units, and returns how it ended."""
    skip_unless_possible()
    folder = tmp_path / "node"
    folder.mkdir()

    def run(role: str, name: str) -> str:
        unit = f"{name.replace('_', '-')}-as-{role}.service"
        command = f"{sys.executable} -m tests.worker.daemon.systemd_cgroups.orphans_inside {name} {folder}"
        machine.write(unit, our_unit(role, command, tmp_path / "log"))
        machine.write(f"{unit}.d/once.conf", ONCE)
        machine.systemctl("daemon-reload")
        machine.systemctl("start", unit)
        return (folder / "said").read_text()

    with Machine(tmp_path) as machine:
        yield run


def test_an_orphaned_pod_goes(step: Callable[[str, str], str]) -> None:
    """The poller finds it, the worker kills and unmounts, and the poller removes the folder."""
    assert step("worker", "make") == "made"
    assert step("poller", "remove_directly") == "PermissionError: Operation not permitted"
    assert step("poller", "remove") == "left to the worker: its cgroup, memory"
    assert step("worker", "undo") == "mounted are []"
    assert step("poller", "remove") == "removed, its folder is gone"
