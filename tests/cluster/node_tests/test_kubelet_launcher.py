"""Does the program that the official node tests start as the kubelet run our three processes, and end as one?"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.node_tests.kubelet_launcher import ROLES
from tests.patience import PATIENCE
from tests.waiting import wait_until
from tests.worker.daemon.systemd_machine import CHECKOUT

FAILS = 7
PLAYED = f"""
import pathlib, signal, sys
role = sys.argv[1]
signal.signal(signal.SIGUSR1, lambda *_: sys.exit({FAILS}))
pathlib.Path(role + ".said").write_text(" ".join(sys.argv[2:]))
pathlib.Path(role + ".said").rename(role + ".flags")
signal.pause()
"""
"""A process of ours that writes down its flags, ends on SIGTERM, and fails on SIGUSR1."""


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Start it where `worker.cli` is played, and nothing else of `worker`."""
    (tmp_path / "worker").mkdir()
    (tmp_path / "worker" / "__init__.py").write_text(f"__path__.append({str(CHECKOUT / 'worker')!r})")
    (tmp_path / "worker" / "cli.py").write_text(PLAYED)
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{CHECKOUT}"}
    command = [
        sys.executable,
        "-m",
        "tests.cluster.node_tests.kubelet_launcher",
        "own.json",
        "--v",
        "4",
        "--root-dir=/r",
    ]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, start_new_session=True) as started:
        try:
            wait_until(lambda: all((tmp_path / f"{role}.flags").exists() for role in ROLES), "the three to run")
            yield started
        finally:
            if started.poll() is None:
                os.killpg(started.pid, signal.SIGKILL)


def children(process: "subprocess.Popen[bytes]") -> list[int]:
    """Return its processes, in the order of their start."""
    return [int(one) for one in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


@pytest.mark.usefixtures("launcher")
def test_each_process_gets_the_kubelets_flags_and_its_own(tmp_path: Path) -> None:
    """The poller is told to have no port; the worker has none where the kubelet's flags name a kubeconfig."""
    said = {role: (tmp_path / f"{role}.flags").read_text() for role in ROLES}
    given = "--tempolet-config own.json --v 4 --root-dir=/r"
    assert said == {"worker": given, "poller": f"{given} --healthz-port=0", "node": given}


def test_sigterm_ends_all_and_is_no_failure(launcher: "subprocess.Popen[bytes]") -> None:
    """The unit of a kubelet that was told to end is not a failed one."""
    processes = children(launcher)
    launcher.terminate()
    assert launcher.wait(timeout=PATIENCE) == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in processes)


def test_the_end_of_one_ends_all_with_its_code(launcher: "subprocess.Popen[bytes]") -> None:
    """A kubelet with a missing part would not be noticed."""
    processes = children(launcher)
    os.kill(processes[1], signal.SIGUSR1)
    assert launcher.wait(timeout=PATIENCE) == FAILS
    assert not any(Path(f"/proc/{pid}").exists() for pid in processes)
