"""With a real systemd: are pods' cgroups its slices, do limits outlive its reloads, and is nothing left of them?"""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import worker
from tests.worker.daemon.systemd_cgroups.slices_inside import UID
from tests.worker.daemon.systemd_machine import Machine, skip_unless_possible

pytestmark = pytest.mark.systemd

CHECKOUT = Path(worker.__file__).resolve().parents[1]
TIERS = ["kubepods-besteffort.slice", "kubepods-burstable.slice", "kubepods.slice"]
POD = f"kubepods-burstable-pod{UID.replace('-', '_')}.slice"
MIB = 1024 * 1024
V2 = Path("/sys/fs/cgroup/cgroup.controllers").exists()


BUS_SOCKET = """\
[Unit]
DefaultDependencies=no
[Socket]
ListenStream=/run/dbus/system_bus_socket
"""
BUS_SERVICE = """\
[Unit]
DefaultDependencies=no
Requires=dbus.socket
[Service]
Type=notify
NotifyAccess=main
ExecStart=dbus-daemon --system --address=systemd: --nofork --nopidfile --systemd-activation
"""


def start_bus(machine: Machine) -> None:
    """Start the bus of the system, with its own policy, as a booted machine does."""
    if shutil.which("dbus-daemon") is None:
        pytest.skip("needs dbus-daemon")
    machine.write("dbus.socket", BUS_SOCKET)
    machine.write("dbus.service", BUS_SERVICE)
    machine.systemctl("daemon-reload")
    machine.systemctl("start", "dbus.service")


@pytest.fixture(scope="module", params=["bus", "own-socket"])
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Return what a process beside a real systemd saw of a pod's life, over the bus and over systemd's own socket."""
    skip_unless_possible()
    with Machine(tmp_path_factory.mktemp("systemd")) as machine:
        if request.param == "bus":
            start_bus(machine)
        command = (
            "env",
            f"PYTHONPATH={CHECKOUT}",
            sys.executable,
            "-m",
            "tests.worker.daemon.systemd_cgroups.slices_inside",
        )
        yield json.loads(machine.inside(*command))


def expected(shares: int, quota: int, memory: int) -> dict[str, str]:
    """Return the limits of the kernel's files."""
    if V2:
        weight = {512: 20, 256: 10}[shares]
        limits = {"cpu.weight": str(weight), "cpu.max": f"{quota} 100000", "memory.max": str(memory * MIB)}
    else:
        limits = {"cpu.shares": str(shares), "cpu.cfs_quota_us": str(quota), "cpu.cfs_period_us": "100000"}
        limits["memory.limit_in_bytes"] = str(memory * MIB)
    return {**limits, "pids.max": "100"}


def test_slices(seen: dict[str, Any]) -> None:
    """The tiers and the pod are units of systemd, made twice and there once."""
    assert seen["version"] > 200
    assert seen["slices"] == sorted([*TIERS, POD])


@pytest.mark.parametrize(
    ("when", "limits"),
    [
        pytest.param("made", (512, 13000, 64), id="made"),
        pytest.param("reloaded", (512, 13000, 64), id="after-a-daemon-reload"),
        pytest.param("restarted", (512, 13000, 64), id="after-a-restart-of-systemd"),
        pytest.param("grown", (512, 50000, 64), id="while-growing-and-a-daemon-reload"),
        pytest.param("resized", (256, 50000, 32), id="resized-and-a-daemon-reload"),
    ],
)
def test_limits(seen: dict[str, Any], when: str, limits: tuple[int, int, int]) -> None:
    """The quota is rounded up to a percent; systemd keeps what it was told."""
    assert seen[when] == expected(*limits)


def test_the_tier(seen: dict[str, Any]) -> None:
    """It has the sum of its pods' shares, also after a daemon-reload."""
    weight = {"cpu.weight": "20"} if V2 else {"cpu.shares": "512"}
    assert weight.items() <= seen["tier"].items()
    assert weight.items() <= seen["tier reloaded"].items()


def test_removal(seen: dict[str, Any]) -> None:
    """What still runs in the pod is killed, and its scope and slice are gone, as are the tiers at last."""
    assert [one.rpartition("/")[2] for one in seen["running"]] == [POD]
    assert seen["killed"] != 0
    assert seen["left"] == TIERS
    assert seen["again"] == seen["at last"] == seen["folders"] == []
