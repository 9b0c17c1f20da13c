"""Does the Debian package install, bring a node that a reboot does not end, upgrade under running pods, and leave nothing at its purge?"""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from deploy.debian.package import HOME
from tests.machine.hardware import Hardware
from tests.machine.images import disks
from tests.machine.installed.releases import FIRST, OURS, SECOND
from tests.machine.machine import Machine, Parts, machine_of
from tests.machine.reboots.pods import UP_SECONDS, until, until_pods_run
from tests.machine.run_folders import run_folder
from tests.machine.test_node import LEFT

PACKAGES: Final = "/opt/tempolet"
"""Where the guest mounts the disk that has a checkout in other tests."""
DISK_MIB: Final = 1024
APT: Final = "DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Options::=--force-confold -o Dpkg::Options::=--force-unsafe-io"
FAILED: Final = "systemctl list-units --failed --plain --no-legend"
SERVER: Final = "pgrep -f '[h]ttpd -p 8080'"
"""The processes of the example's pod, without the shell that looks for them."""
UPGRADED: Final = ("tempolet-up-worker", "tempolet-up-poller")
KEPT: Final = ("tempolet-up-containerd", "tempolet-up-temporal")


@pytest.fixture(scope="module")
def machine_with_packages(machine_parts: Parts, packages: Path) -> Iterator[Machine]:
    """Boot a machine without a checkout, with two releases of the package on a disk."""
    with run_folder() as folder:
        disks.make_disk(folder / "packages.img", packages, DISK_MIB)
        parts = dataclasses.replace(machine_parts, checkout=folder / "packages.img")
        with machine_of(parts, Hardware()) as machine:
            machine.boot()
            yield machine


@pytest.mark.machine
def test_the_package_is_installed_upgraded_and_purged(machine_with_packages: Machine) -> None:
    """By apt, without a network: a pod is back after a reboot, runs through the upgrade, and nothing is left in the end."""
    machine = machine_with_packages
    before = machine.run(LEFT, check=False).stdout.splitlines()
    failed = machine.run(FAILED).stdout

    machine.run(f"{APT} install {PACKAGES}/{FIRST}", UP_SECONDS)
    assert machine.run("tempolet version").stdout.startswith("tempolet 0.1.0 ")
    assert (
        machine.run("systemctl is-active tempolet-worker tempolet-poller", check=False).stdout.split()
        == ["inactive"] * 2
    )
    machine.run("systemd-analyze verify /usr/lib/systemd/system/tempolet-*.service")
    machine.run("echo '# kept' >> /etc/tempolet/environment")
    machine.run("tempolet up --hello", UP_SECONDS)
    until_pods_run(machine, restarts=0, count=1)
    assert machine.run("stat -c %U /proc/$(pgrep -x temporal)").stdout == "tempolet-temporal\n"

    machine.reboot()
    until_pods_run(machine, restarts=1, count=1)
    pod = machine.run(SERVER).stdout
    assert pod

    pids = _pids(machine, *UPGRADED, *KEPT)
    upgraded = machine.run(f"{APT} install {PACKAGES}/{SECOND}", UP_SECONDS)
    assert "goes on with the release before" not in upgraded.stdout + upgraded.stderr
    machine.run(f"test -e /{HOME}/second")
    assert machine.run("tail -1 /etc/tempolet/environment").stdout == "# kept\n"
    until(lambda: not pids.items() & _pids(machine, *UPGRADED).items(), "other processes")
    active = f"systemctl is-active {' '.join(UPGRADED)}"
    until(lambda: machine.run(active, check=False).stdout.split() == ["active"] * 2, "them to be ready")
    assert machine.run(SERVER).stdout == pod
    assert _pids(machine, *KEPT).items() <= pids.items()
    until_pods_run(machine, restarts=1, count=1)

    machine.run(f"{APT} remove tempolet", UP_SECONDS)
    assert machine.run(SERVER, check=False).stdout == ""
    machine.run("test -s /var/lib/tempolet/payload.keys")  # the state of a removed package stays
    machine.run(f"{APT} purge tempolet", UP_SECONDS)
    assert machine.run(OURS, check=False).stdout == ""
    assert machine.run(LEFT, check=False).stdout.splitlines() == before
    assert machine.run(FAILED).stdout == failed


def _pids(machine: Machine, *units: str) -> dict[str, str]:
    """Return the main process of each unit."""
    return {unit: machine.run(f"systemctl show -P MainPID {unit}").stdout.strip() for unit in units}
