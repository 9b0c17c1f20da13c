"""A control plane that a booted machine can join, and the machine as its node; afterwards the machine is as it was."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.cluster.binaries import no_control_plane
from tests.cluster.control_plane import ControlPlane
from tests.machine.hardware import HOST
from tests.machine.joined import runtimes
from tests.machine.joined.node import Joined, left_in
from tests.machine.joined.plane import running_plane
from tests.machine.machine import Machine

SWAP: Final = "/var/swap"
PREPARED: Final = f"""
fallocate -l 256M {SWAP} && chmod 600 {SWAP} && mkswap -q {SWAP} && swapon {SWAP}
echo 8 > /proc/sys/vm/nr_hugepages
"""
RESTORED: Final = f"""
swapoff {SWAP}; rm -f {SWAP}; echo 0 > /proc/sys/vm/nr_hugepages
rm -rf /etc/kubernetes /etc/tempolet /var/lib/kubelet /var/log/pods /var/log/containers
"""


@pytest.fixture(scope="package")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Run a control plane on this machine, with a token, for machines that reach it at HOST."""
    if reason := no_control_plane():
        pytest.skip(reason)
    with running_plane(tmp_path_factory.mktemp("plane")) as running:
        yield running


@pytest.fixture(scope="package")
def prepared(
    shared_machine: Machine, plane: ControlPlane, temporal_address: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Joined]:
    """Prepare the machine, which is no node yet: Debian's containerd, swap, huge pages."""
    machine = shared_machine
    port = temporal_address.rpartition(":")[2]
    identity = _administrator(machine, plane, tmp_path_factory.mktemp("admin"))
    machine.run(PREPARED)
    runtimes.start_containerd(machine)
    node = Joined(machine, plane, f"{HOST}:{port}", identity, left_in(machine))
    try:
        yield node
    finally:
        runtimes.stop_containerd(machine)
        machine.run(RESTORED, check=False)


@pytest.fixture(scope="module")
def joined(prepared: Joined) -> Iterator[Joined]:
    """Let the machine join, by cluster-info and token."""
    try:
        prepared.join()
        yield prepared
    finally:
        prepared.machine.run("tempolet leave --yes --purge", check=False)
        prepared.end_pods()


def _administrator(machine: Machine, plane: ControlPlane, folder: Path) -> str:
    """Put a certificate with which curl may ask the node's API into the machine; returns curl's option."""
    both = folder / "admin.pem"
    both.write_bytes((plane.pki / "admin.crt").read_bytes() + (plane.pki / "admin.key").read_bytes())
    machine.put(both, "/run/admin.pem", 0o600)
    return "--cert /run/admin.pem"
