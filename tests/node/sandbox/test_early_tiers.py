"""Does the worker make the pods' cgroups before it waits for Temporal and the API server, so that healthz need not wait for these?"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, Final

import pytest

from activities.machine.cgroup_hierarchies import Hierarchies
from activities.machine.cgroups import Cgroups
from tests.node.tempolet_node import TempoletNode
from worker.machine.cgroup_driver import tiers_made
from worker.standalone.containerd import Containerd

NOWHERE: Final[Any] = SimpleNamespace(address="127.0.0.1:1")
AWAITED: Final = "which `tempolet node` writes once this node has a certificate"


class LoneWorker(TempoletNode):
    """A worker without poller and node process."""

    roles: ClassVar[tuple[str, ...]] = ("worker",)


@pytest.fixture
def cgroup_root(containerd: Containerd) -> Iterator[str]:
    """Return a cgroupRoot in which there is nothing yet."""
    root = f"{containerd.cgroup}/early"
    yield root
    Cgroups(root).remove_tiers()
    for folder in Hierarchies.of_this_node().folders(root):
        with contextlib.suppress(FileNotFoundError):
            folder.rmdir()


def test_the_pods_cgroups_need_neither_temporal_nor_a_kubeconfig(
    tmp_path: Path, containerd: Containerd, cgroup_root: str
) -> None:
    """On a node whose certificate nobody has issued, and whose Temporal does not answer."""
    flags = ["--kubeconfig", f"{tmp_path}/none", "--bootstrap-kubeconfig", f"{tmp_path}/never"]
    node = LoneWorker(tmp_path / "node", containerd, NOWHERE, flags=flags, keys={"cgroupRoot": cgroup_root})
    assert not tiers_made(node.root_dir / "tempolet", cgroup_root)
    with node:
        node.until(lambda: AWAITED in node.log("worker"), "the worker waiting for its kubeconfig")
        assert tiers_made(node.root_dir / "tempolet", cgroup_root)
