"""A control plane on this machine with what `kubeadm init` publishes, for booted machines that join it."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import yaml

from tests.cluster import bootstrap_tokens
from tests.cluster.binaries import find_binaries
from tests.cluster.control_plane import ControlPlane
from tests.machine.hardware import HOST
from tests.worker.settings.test_config_installers import WRITTEN

OPERATORS: Final[Mapping[str, Any]] = {
    "failSwapOn": False,
    "featureGates": {"MemoryQoS": True},
    "memoryReservationPolicy": "TieredReservation",
    "memorySwap": {"swapBehavior": "LimitedSwap"},
    "podPidsLimit": 200,
}
"""What an operator adds to kubeadm's configuration, so that every file of a cgroup has a value that can be told from none."""


@contextlib.contextmanager
def running_plane(folder: Path, changes: Mapping[str, Any] = OPERATORS) -> Iterator[ControlPlane]:
    """Run it, with a token, for machines that reach it at HOST; an operator's changes are in kubeadm's configuration."""
    find_binaries()
    plane = ControlPlane(folder, controllers=True, controller_flags=bootstrap_tokens.SIGNER, hosts=[HOST])
    with plane:
        publish(plane, changes)
        yield plane


def publish(plane: ControlPlane, changes: Mapping[str, Any] = MappingProxyType({})) -> None:
    """Publish what `kubeadm init` does, with an operator's changes to its configuration."""
    bootstrap_tokens.publish(plane, f"https://{HOST}:{plane.port}")
    kubeadms = yaml.safe_load(WRITTEN)
    del kubeadms["resolvConf"]  # of a machine with systemd-resolved, which sets it for itself
    bootstrap_tokens.publish_configuration(plane, {**kubeadms, **changes})
