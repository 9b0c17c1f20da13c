"""Does `tempolet down` touch only what is its node's, whatever folders it is given?"""

import contextlib
import dataclasses
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.free_ports import free_ports
from tests.node.standalone.standalone_node import POD, kill, manifest, pids, silent, standalone_node
from worker.standalone.down import DownFailed, down
from worker.standalone.machine import leftovers, links, owner_marks, programs
from worker.standalone.machine.links import LINKS
from worker.standalone.pod_network.network import PodNetwork
from worker.standalone.settings import Settings
from worker.standalone.up import UpFailed, up


@pytest.fixture
def node(slot: int, node_dir: Path) -> Iterator[Settings]:
    """Return the settings of a node that is not up yet; it is removed after the test."""
    with standalone_node(slot, node_dir) as settings:
        yield settings


def test_folders_that_do_not_exist_take_nothing_from_a_live_node(
    node: Settings, node_dir: Path, tmp_path: Path
) -> None:
    """A typo in --run-dir: the other node's pods, bridge, host ports and cgroup stay, also after an `up` there."""
    host_port, other_bridge = free_ports(1)[0], f"{node.network.bridge}b"
    pod = POD.replace("image:", f"ports: [{{containerPort: 80, hostPort: {host_port}}}]\n    image:")
    up(node, [manifest(tmp_path, "web", pod)], silent())
    before = pids(node), leftovers.processes_in_cgroup(node.cgroup), rules_of(node)
    assert any(f"dport {host_port}" in line for line in before[2])
    nowhere = dataclasses.replace(node, state_dir=node_dir / "no-state", run_dir=node_dir / "no-run")
    network = PodNetwork(other_bridge, "10.222.0.0/24")
    for mistyped, whose in (
        (nowhere, f"bridge {node.network.bridge} belongs to the node at {node.run_dir}"),
        (dataclasses.replace(nowhere, network=PodNetwork(other_bridge, node.network.subnet)), "subnet .* of bridge"),
        (dataclasses.replace(nowhere, network=network), f"cgroup {node.cgroup} belongs to"),
    ):
        assert down(mistyped, silent()) == []
        with pytest.raises(UpFailed, match=whose):
            up(mistyped, [], silent())
        assert down(mistyped, silent()) == []
        assert (pids(node), leftovers.processes_in_cgroup(node.cgroup), rules_of(node)) == before
    with pytest.raises(DownFailed, match=f"state folder {node.state_dir} belongs to the node at {node.run_dir}"):
        down(dataclasses.replace(node, run_dir=node_dir / "no-run"), silent())
    assert [path.name for path in node.manifests.iterdir()] == ["web.yaml"]
    assert (LINKS / node.network.bridge).exists()
    assert not (LINKS / other_bridge).exists()
    assert down(node, silent()) == []


def rules_of(node: Settings) -> list[str]:
    """List the rules of nftables with the node's bridge or addresses."""
    listed = subprocess.run(
        [programs.find_program(programs.NFT), "list", "ruleset"], capture_output=True, text=True, check=True
    ).stdout
    network = node.network.subnet.rpartition(".")[0]
    return [line for line in listed.splitlines() if node.network.bridge in line or f"{network}." in line]


def test_a_dead_nodes_bridge_and_cgroup_can_be_taken(node: Settings, node_dir: Path) -> None:
    """Its folders were removed by hand: their marks name nobody who is alive."""
    assert links.create_bridge(node.network.bridge)
    owner_marks.mark_bridge(node.network.bridge, str(node_dir / "gone"), node.network.subnet)
    up(node, [], silent())
    assert owner_marks.bridge_mark(node.network.bridge) == (str(node.run_dir), node.network.subnet)
    assert owner_marks.cgroup_owner(node.cgroup) == str(node.run_dir)
    assert down(node, silent()) == []


def test_a_node_of_a_release_without_marks_is_taken_down(node: Settings, tmp_path: Path) -> None:
    """After an upgrade the new `down` ends it: its configuration files show that bridge and cgroup are its own."""
    up(node, [manifest(tmp_path, "web")], silent())
    (LINKS / node.network.bridge / "ifalias").write_text("\n")
    for directory in leftovers.cgroup_directories(node.cgroup):
        with contextlib.suppress(OSError):
            os.removexattr(directory, "trusted.tempolet.owner")
    (node.state_dir / "run-folder").unlink()
    assert owner_marks.bridge_mark(node.network.bridge) is None
    assert owner_marks.cgroup_owner(node.cgroup) is None
    kill(node, "containerd")  # so that what is left is removed by force
    assert down(node, silent())
    assert not (LINKS / node.network.bridge).exists()
    assert leftovers.cgroup_directories(node.cgroup) == []
