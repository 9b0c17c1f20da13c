"""Do a real API server and the three processes of a node start and stop, leaving nothing behind?"""

import re
import signal
from functools import partial
from pathlib import Path

import pytest

from tests.cluster.api import Api, Refused
from tests.cluster.cluster_node import NewNode
from tests.cluster.control_plane import ControlPlane


def test_the_api_server_knows_its_administrator_and_no_stranger(plane: ControlPlane) -> None:
    """The certificates of `control_plane` are checked."""
    assert plane.api.get("/version")["gitVersion"] == "v1.36.3"
    with pytest.raises(Refused, match="403"):
        Api(plane.port, plane.pki / "ca.crt").get("/api/v1/nodes")


def test_a_nodes_kubeconfig_gives_a_nodes_rights_and_no_more(plane: ControlPlane) -> None:
    """The authorization modes Node,RBAC are on, as in real clusters."""
    signed = plane.sign("system:node:n7", "system:nodes")
    node = Api(plane.port, plane.pki / "ca.crt", signed)
    assert node.find("/api/v1/nodes/n7") is None, "it may ask for itself"
    with pytest.raises(Refused, match="403"):
        node.get("/api/v1/namespaces/default/secrets")


def test_three_processes_of_a_node_start_with_a_kubeconfig_and_end_when_asked(
    tmp_path: Path, new_node: NewNode
) -> None:
    """Each handles SIGTERM, and exits with 0."""
    with new_node(tmp_path / "node") as node:
        for role in node.roles:
            node.until(partial(_hears, node.processes[role].pid), f"the {role} can be asked to end")
        assert [role for role, process in node.processes.items() if process.poll() is not None] == []
        ended = {role: node.stop(role) for role in node.roles}
    assert ended == dict.fromkeys(node.roles, 0)


def test_a_control_plane_leaves_nothing_behind(tmp_path: Path) -> None:
    """No process and no data of etcd remain."""
    with ControlPlane(tmp_path / "plane") as other:
        processes = [process for process in Path("/proc").glob("[0-9]*") if _is_of(process, str(other.directory))]
        assert len(processes) == 2, "etcd and the API server"
    assert [process for process in processes if process.exists()] == []
    assert not (tmp_path / "plane" / "etcd").exists()


def _is_of(process: Path, folder: str) -> bool:
    try:
        return folder.encode() in (process / "cmdline").read_bytes()
    except OSError:
        return False


def _hears(pid: int) -> bool:
    """Return whether a process has installed a handler of SIGTERM."""
    caught = re.search(r"^SigCgt:\s*(\w+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return caught is not None and bool(int(caught[1], 16) >> (signal.SIGTERM - 1) & 1)
