"""Under a real systemd: do readiness, watchdog and restarts work, and do containers survive them?"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests.free_ports import free_port
from tests.waiting import wait_until
from tests.worker.daemon.systemd_machine import UNITS, Machine, our_unit, skip_unless_possible
from tests.worker.poller.runtime.fake_runtime import FakeRuntime
from worker.temporal.temporal_client import TemporalSettings

pytestmark = pytest.mark.systemd

LIMIT: Final = 3
"""Seconds of the watchdog: one that a busy machine does not hold up by itself."""
SHORT: Final = f"[Service]\nWatchdogSec={LIMIT}\nRestartSec=100ms\n"


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """Run a systemd for this file."""
    skip_unless_possible()
    with Machine(tmp_path_factory.mktemp("systemd")) as started:
        yield started


@pytest.fixture(params=["worker", "poller", "node"])
def stand_in(request: pytest.FixtureRequest, machine: Machine, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Start the stand-in as our unit of each kind, with a watchdog of LIMIT; gives the unit and its folder."""
    unit = f"stand-in-{request.param}.service"
    command = f"{sys.executable} -m tests.worker.daemon.systemd_stand_in {tmp_path}"
    log = tmp_path / "log"
    machine.write(unit, our_unit(request.param, command, log).replace("PrivateTmp=yes\n", ""))
    machine.write(f"{unit}.d/short.conf", SHORT)
    machine.systemctl("daemon-reload")
    machine.systemctl("start", unit)
    yield unit, tmp_path
    machine.systemctl("kill", "--signal=KILL", unit, check=False)
    machine.systemctl("stop", unit, check=False)


def test_it_is_ready_and_says_what_it_does(machine: Machine, stand_in: tuple[str, Path]) -> None:
    """`systemctl start` returned because of READY, and the status line is ours."""
    facts = machine.show(stand_in[0])
    assert (facts["ActiveState"], facts["SubState"], facts["StatusText"]) == ("active", "running", "stands in")
    assert facts["Type"] == "notify"


def test_a_stuck_loop_is_killed_and_started_again(machine: Machine, stand_in: tuple[str, Path]) -> None:
    """The watchdog's limit passes, SIGABRT writes the stacks, and a new process is ready."""
    unit, folder = stand_in
    before = machine.show(unit)
    (folder / "block").touch()
    wait_until(lambda: machine.show(unit)["NRestarts"] == "1", "the restart")
    wait_until(lambda: machine.show(unit).get("StatusText", "") == "stands in", "the new process to be ready")
    assert machine.show(unit)["MainPID"] != before["MainPID"]
    log = (folder / "log").read_text()
    assert "Fatal Python error: Aborted" in log
    assert "systemd_stand_in.py" in log


def test_a_fed_watchdog_leaves_it_alone(machine: Machine, stand_in: tuple[str, Path]) -> None:
    """Three limits long, nothing happens."""
    unit, _ = stand_in
    first = machine.show(unit)["WatchdogTimestampMonotonic"]
    end = int(first) + 3 * LIMIT * 1_000_000
    wait_until(lambda: int(machine.show(unit)["WatchdogTimestampMonotonic"]) > end, "three limits")
    assert machine.show(unit)["NRestarts"] == "0"


def test_a_fault_that_health_names_ends_the_same_way(machine: Machine, stand_in: tuple[str, Path]) -> None:
    """The loop turns, but no WATCHDOG=1 is sent."""
    unit, folder = stand_in
    (folder / "ill").touch()
    wait_until(lambda: machine.show(unit).get("StatusText", "").startswith("unhealthy"), "the reason in the status")
    wait_until(lambda: machine.show(unit)["NRestarts"] == "1", "the restart")
    (folder / "ill").unlink()


def has_restarted(machine: Machine, unit: str, times: int) -> bool:
    """Return whether systemd has restarted a unit this many times."""
    return machine.show(unit)["NRestarts"] == str(times)


def test_a_killed_process_is_started_again(machine: Machine, stand_in: tuple[str, Path]) -> None:
    """Restart=always, at once and without a limit of tries."""
    unit, _ = stand_in
    for turn in range(1, 7):
        os.kill(machine.pid(unit), signal.SIGKILL)
        wait_until(partial(has_restarted, machine, unit, turn), f"restart {turn}")
        wait_until(lambda: machine.show(unit)["SubState"] == "running", "the new process")


def test_a_stop_is_graceful(machine: Machine, stand_in: tuple[str, Path]) -> None:
    """SIGTERM ends the program's own way, well before SIGKILL."""
    unit, folder = stand_in
    machine.systemctl("stop", unit)
    assert (folder / "stopped").exists()
    assert machine.show(unit)["Result"] == "success"


def test_what_the_worker_started_outlives_it(machine: Machine, tmp_path: Path) -> None:
    """KillMode=process: a mount helper or a containerd in the unit's cgroup lives on."""
    unit = "leaves-a-child.service"
    command = f"{sys.executable} -m tests.worker.daemon.systemd_stand_in {tmp_path}"
    machine.write(unit, our_unit("worker", command, tmp_path / "log"))
    machine.systemctl("daemon-reload")
    machine.systemctl("start", unit)
    machine.systemctl("stop", unit)
    child = (tmp_path / "child").read_text()
    alive = machine.inside("sh", "-c", f"kill -0 {child} && kill {child} && echo alive")
    assert alive.strip() == "alive"


@pytest.mark.parametrize("role", ["worker", "poller", "node"])
def test_systemd_understands_every_line(machine: Machine, role: str) -> None:
    """No unknown key, no value that this systemd ignores."""
    machine.write(f"tempolet-{role}.service", our_unit(role, "/bin/true", Path("/dev/null")))
    said = machine.inside("systemd-analyze", "verify", f"tempolet-{role}.service")
    assert said == ""


@pytest.mark.parametrize(("role", "most"), [("worker", 83), ("poller", 50), ("node", 53)])
def test_a_unit_is_no_more_exposed_than_it_must_be(role: str, most: int) -> None:
    """By systemd's own count, 100 without any limit; the worker mounts, so most of systemd's limits are not for it."""
    skip_unless_possible()
    words = ["systemd-analyze", "security", "--offline=yes", "--no-pager", f"--threshold={most}"]
    told = subprocess.run([*words, UNITS / f"tempolet-{role}.service"], check=False, capture_output=True, text=True)
    assert told.returncode == 0, told.stdout + told.stderr


def test_the_node_says_that_it_waits_for_its_api_server(machine: Machine, tmp_path: Path) -> None:
    """It runs and feeds its watchdog without an API server, and handles a stop."""
    unit, server = "tempolet-node.service", f"https://127.0.0.1:{free_port()}"
    written = {
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "contexts": [{"name": "c", "context": {"cluster": "c"}}],
    }
    (tmp_path / "kubeconfig").write_text(json.dumps(written))
    configuration = {**json.loads(kubelet_configuration(tmp_path)), "enableServer": False}
    (tmp_path / "kubelet.yaml").write_text(json.dumps(configuration))
    flags = f"--kubeconfig {tmp_path}/kubeconfig --config {tmp_path}/kubelet.yaml --root-dir {tmp_path}/root"
    command = f"{sys.executable} -m worker.cli node {flags} --hostname-override waits"
    machine.write(unit, our_unit("node", command, tmp_path / "log"))
    machine.write(f"{unit}.d/test.conf", f"[Service]\n{BESIDE_TMP}")
    machine.systemctl("daemon-reload")
    machine.systemctl("start", "--no-block", unit)
    wait_until(lambda: "waits is not registered" in machine.show(unit).get("StatusText", ""), "the status")
    assert machine.show(unit)["SubState"] == "running"
    machine.systemctl("stop", unit)
    assert machine.show(unit)["Result"] == "success"


OWN_MOUNTS = [
    *("ProtectSystem", "ProtectHome", "ProtectProc", "ProtectControlGroups"),
    *("ProtectKernelModules", "ProtectKernelTunables", "ProtectKernelLogs"),
    *("PrivateTmp", "PrivateDevices", "PrivateMounts", "MountFlags", "RootDirectory"),
    *("ReadOnlyPaths", "ReadWritePaths", "InaccessiblePaths", "BindPaths"),
]


@pytest.mark.parametrize("setting", OWN_MOUNTS)
def test_the_workers_mounts_reach_containerd(setting: str) -> None:
    """Each of these would give the worker a mount namespace of its own, and pods would find their volumes empty."""
    lines = (UNITS / "tempolet-worker.service").read_text().splitlines()
    assert not [line for line in lines if line.startswith(f"{setting}=")]


@pytest.fixture(params=["worker", "poller"])
def real(
    request: pytest.FixtureRequest, machine: Machine, tmp_path: Path, settings: TemporalSettings
) -> Iterator[Callable[[str], str]]:
    """Return a function that starts the real program as our unit, with a Temporal's address; there is no container runtime."""
    role, unit = request.param, f"tempolet-{request.param}.service"

    def start(temporal: str) -> str:
        flags = (
            f"--config {tmp_path}/kubelet.yaml --tempolet-config {tmp_path}/tempolet.yaml --root-dir {tmp_path}/root"
        )
        (tmp_path / "tempolet.env").write_text(f"TEMPOLET_FLAGS={flags} --hostname-override {role}-node\n")
        (tmp_path / "kubelet.yaml").write_text(kubelet_configuration(tmp_path))
        (tmp_path / "tempolet.yaml").write_text(tempolet_configuration(temporal, settings.key_file))
        machine.write(unit, our_unit(role, f"{sys.executable} -m worker.cli {role} $TEMPOLET_FLAGS", tmp_path / "log"))
        machine.write(f"{unit}.d/test.conf", f"[Service]\nEnvironmentFile={tmp_path}/tempolet.env\n{BESIDE_TMP}")
        machine.systemctl("daemon-reload")
        machine.systemctl("start", "--no-block", unit)
        return unit

    yield start
    machine.systemctl("kill", "--signal=KILL", unit, check=False)
    machine.systemctl("stop", unit, check=False)


BESIDE_TMP = "PrivateTmp=no\n"  # the test's folder is in /tmp


def kubelet_configuration(folder: Path) -> str:
    """Configure a node without healthz."""
    (folder / "manifests").mkdir()
    keys = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": f"unix://{folder}/cri.sock",
        "staticPodPath": str(folder / "manifests"),
        "podLogsDir": str(folder / "logs"),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": "/tempolet-systemd",
        "healthzPort": 0,
    }
    return json.dumps(keys)


def tempolet_configuration(temporal: str, key_file: Path) -> str:
    """Configure the way to Temporal."""
    keys = {"address": temporal, "payloadKeyFile": str(key_file)}
    return json.dumps({"apiVersion": "tempolet.dev/v1alpha1", "kind": "TempoletConfiguration", "temporal": keys})


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[None]:
    """Run a container runtime in this process, which holds nothing."""
    loop, fake = asyncio.new_event_loop(), FakeRuntime(tmp_path / "cri.sock")
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(fake.start(), loop).result()
        yield
        asyncio.run_coroutine_threadsafe(fake.stop(), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.mark.usefixtures("runtime")
def test_the_real_unit_lives_and_is_started_again(
    machine: Machine, real: Callable[[str], str], settings: TemporalSettings, tmp_path: Path
) -> None:
    """Ready with a status, again after kill -9, and a clean stop."""
    unit = real(str(settings.address))
    wait_until(lambda: machine.show(unit)["SubState"] == "running", "READY")
    assert machine.show(unit)["StatusText"]
    before = int(machine.show(unit)["NRestarts"])  # an earlier test's unit of this name counts on
    os.kill(machine.pid(unit), signal.SIGKILL)
    wait_until(lambda: int(machine.show(unit)["NRestarts"]) == before + 1, "the restart")
    wait_until(lambda: machine.show(unit)["SubState"] == "running", "READY again")
    machine.systemctl("stop", unit)
    assert machine.show(unit)["Result"] == "success", (tmp_path / "log").read_text()


@pytest.mark.parametrize("real", ["worker"], indirect=True)
def test_a_worker_without_a_runtime_ends(
    machine: Machine, real: Callable[[str], str], settings: TemporalSettings, tmp_path: Path
) -> None:
    """It cannot know what cgroups are called; it says so, and is started again."""
    unit, log = real(str(settings.address)), tmp_path / "log"  # the log is systemd's to make
    wait_until(lambda: log.exists() and "does not say which cgroup driver it uses" in log.read_text(), "the reason")
    wait_until(lambda: machine.show(unit)["Result"] == "exit-code", "the end")


@pytest.mark.usefixtures("runtime")
def test_the_real_unit_says_what_it_waits_for(machine: Machine, real: Callable[[str], str]) -> None:
    """Temporal is down at the start: ready all the same, with the reason in the status; a stop is handled."""
    unit = real(f"127.0.0.1:{free_port()}")
    wait_until(lambda: machine.show(unit)["SubState"] == "running", "READY")
    wait_until(lambda: "; waiting for Temporal at" in machine.show(unit).get("StatusText", ""), "the status")
    machine.systemctl("stop", unit)
    assert machine.show(unit)["Result"] == "success"
