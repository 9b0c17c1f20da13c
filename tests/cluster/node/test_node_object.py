"""Does a machine register with a real API server, report its status, patch changes, and recreate its Node when that is deleted?"""

import contextlib
import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from activities.machine.cgroups import Cgroups
from proto.kubernetes.resources.quantity import parse_quantity
from proto.node_pressure import write_node_pressure
from tests.cluster.certificates import Authority
from tests.cluster.cluster_node import ClusterNode, condition, lone_node
from tests.cluster.control_plane import ControlPlane
from tests.free_ports import free_ports
from tests.node.tempolet_node import PATIENCE
from worker.daemon.node_lock import hold_node_lock
from worker.standalone.containerd import Containerd


@pytest.fixture
def plane_of_its_own(tmp_path: Path) -> Iterator[ControlPlane]:
    """Return a control plane that may be stopped."""
    with ControlPlane(tmp_path / "plane") as made:
        yield made


@contextlib.contextmanager
def worker_and_poller(node: ClusterNode) -> Iterator[None]:
    """Do what a node's other two processes do first, and keep it while the block runs."""
    cgroups = Cgroups(node.containerd.cgroup)
    with hold_node_lock(node.root_dir, "worker"), hold_node_lock(node.root_dir, "poller"):
        cgroups.make_tiers()
        try:
            yield
        finally:
            cgroups.remove_tiers()


def test_a_machine_becomes_a_ready_node_that_reads_as_a_kubelets(
    tmp_path: Path, containerd: Containerd, plane: ControlPlane, node_ip: str
) -> None:
    """Labels, taints, addresses, capacity, versions, conditions and the lease are set, and soon."""
    flags = ["--node-labels", "disk=ssd,node-role.example.com/x=y"]
    taint = {"key": "dedicated", "value": "tests", "effect": "NoSchedule"}
    keys = {"registerWithTaints": [taint], "providerID": "test://1", "maxPods": 42, "systemReserved": {"cpu": "500m"}}
    with lone_node(tmp_path / "node", containerd, plane, node_ip, keys=keys, flags=flags) as node:
        found = node.until_ready()
        labels, status, info = found["metadata"]["labels"], found["status"], found["status"]["nodeInfo"]
        assert labels["kubernetes.io/hostname"] == node.name
        assert (labels["kubernetes.io/os"], labels["beta.kubernetes.io/os"]) == ("linux", "linux")
        assert (labels["disk"], labels["node-role.example.com/x"]) == ("ssd", "y")
        assert taint in found["spec"]["taints"]
        assert found["spec"]["providerID"] == "test://1"
        assert found["metadata"]["annotations"]["volumes.kubernetes.io/controller-managed-attach-detach"] == "true"
        assert status["addresses"] == [
            {"type": "InternalIP", "address": node_ip},
            {"type": "Hostname", "address": node.name},
        ]
        assert status["capacity"]["pods"] == "42"
        assert {"cpu", "memory", "ephemeral-storage"} < status["capacity"].keys()
        cores = int(status["capacity"]["cpu"])
        assert status["allocatable"]["cpu"] == f"{cores * 1000 - 500}m"
        assert info["kubeletVersion"].startswith("v1.36.3+tempolet.")
        assert info["containerRuntimeVersion"].startswith("containerd://")
        assert status["daemonEndpoints"]["kubeletEndpoint"]["Port"] == node.api_port
        assert "ExtendWebSocketsToKubelet" not in status["declaredFeatures"]
        assert [one["type"] for one in status["conditions"]][-1] == "Ready"
        assert {one["type"] for one in status["conditions"]} >= {"MemoryPressure", "DiskPressure", "PIDPressure"}
        node.api.until(node.path, lambda one: one["status"].get("images"), "images listed")
        lease = node.api.until(lease_path(node), lambda one: one["spec"].get("renewTime"))
        assert lease["metadata"]["ownerReferences"][0]["uid"] == found["metadata"]["uid"]
        assert lease["spec"]["holderIdentity"] == node.name


def test_a_node_that_is_deleted_is_there_again_at_once_with_its_lease(
    tmp_path: Path, containerd: Containerd, plane: ControlPlane, node_ip: str
) -> None:
    """Unlike the kubelet, which does so only at its next start; and not by a periodic check, of which there is none meanwhile."""
    keys = {"nodeStatusUpdateFrequency": "1h"}
    with lone_node(tmp_path / "node", containerd, plane, node_ip, keys=keys) as node:
        first = node.until_ready()["metadata"]["uid"]
        node.api.delete(node.path)
        again = node.api.until(
            node.path, lambda one: one["metadata"]["uid"] != first and condition(one, "Ready") == "True"
        )
        assert again["metadata"]["labels"]["kubernetes.io/hostname"] == node.name


def test_a_node_that_was_there_keeps_what_the_cluster_made_of_it(
    tmp_path: Path, containerd: Containerd, plane: ControlPlane, node_ip: str
) -> None:
    """Taints, cordon, foreign labels and extended resources stay; the default labels are the node's."""
    node = lone_node(
        tmp_path / "node", containerd, plane, node_ip, keys={"registerWithTaints": [], "registerNode": True}
    )
    taint = {"key": "of-the-cluster", "effect": "NoSchedule"}
    labels = {"team": "a", "kubernetes.io/hostname": "another", "beta.kubernetes.io/arch": "vax"}
    plane.api.create(
        "/api/v1/nodes",
        {"metadata": {"name": node.name, "labels": labels}, "spec": {"taints": [taint], "unschedulable": True}},
    )
    plane.api.patch(f"{node.path}/status", {"status": {"capacity": {"example.com/gpu": "2", "hugepages-7Mi": "7Mi"}}})
    with node:
        found = node.until_ready()
        assert found["metadata"]["labels"]["team"] == "a"
        assert found["metadata"]["labels"]["kubernetes.io/hostname"] == node.name
        assert found["metadata"]["labels"]["beta.kubernetes.io/arch"] != "vax"
        assert taint in found["spec"]["taints"]
        assert found["spec"]["unschedulable"]
        assert found["status"]["capacity"]["example.com/gpu"] == "2"
        assert found["status"]["allocatable"]["example.com/gpu"] == "2"
        assert "hugepages-7Mi" not in found["status"]["capacity"]


def test_a_status_is_not_written_while_nothing_changes_and_is_when_somebody_writes_over_it(
    tmp_path: Path, containerd: Containerd, plane: ControlPlane, node_ip: str
) -> None:
    """An idle node only renews its lease."""
    keys = {"nodeStatusUpdateFrequency": "200ms", "nodeStatusReportFrequency": "5m"}
    with lone_node(tmp_path / "node", containerd, plane, node_ip, keys=keys) as node:
        node.until_ready()
        settled = node.api.until(node.path, lambda one: one["status"].get("images"), "images listed")
        plane.api.patch(f"{node.path}/status", {"status": {"nodeInfo": {"osImage": "Plan 9"}}})
        mended = node.api.until(node.path, lambda one: one["status"]["nodeInfo"]["osImage"] != "Plan 9")
        assert mended["status"]["nodeInfo"] == settled["status"]["nodeInfo"]
        lease = node.api.get(lease_path(node))["spec"]["renewTime"]
        node.api.until(lease_path(node), lambda one: one["spec"]["renewTime"] != lease)  # 10 s and 50 checks later
        version = "resourceVersion"
        assert node.api.get(node.path)["metadata"][version] == mended["metadata"][version]


def test_a_lease_that_others_write_or_delete_is_the_nodes_again(
    tmp_path: Path, containerd: Containerd, plane: ControlPlane, node_ip: str
) -> None:
    """Without a log message: the next heartbeat restores it."""
    with lone_node(tmp_path / "node", containerd, plane, node_ip, keys={"nodeLeaseDurationSeconds": 4}) as node:
        uid = node.until_ready()["metadata"]["uid"]
        path = lease_path(node)
        node.api.until(path, lambda one: one["spec"].get("renewTime"))
        node.api.patch(path, {"spec": {"renewTime": "2001-01-01T00:00:00.000000Z", "leaseDurationSeconds": 9}})
        again = node.api.until(path, lambda one: one["spec"]["renewTime"] > "2002")
        assert again["spec"]["leaseDurationSeconds"] == 4
        node.api.delete(path)
        again = node.api.until(path, lambda one: one["spec"].get("renewTime"))
        assert [one["uid"] for one in again["metadata"]["ownerReferences"]] == [uid]


def test_what_happens_to_the_node_is_told_in_events(
    tmp_path: Path, containerd: Containerd, plane: ControlPlane, node_ip: str
) -> None:
    """Its start, its conditions, the runtime's start, and a cordon; each once."""
    socket = tmp_path / "runtime.sock"
    keys = {"containerRuntimeEndpoint": f"unix://{socket}"}
    with lone_node(tmp_path / "node", containerd, plane, node_ip, keys=keys) as node:
        node.api.until(node.path, lambda one: condition(one, "Ready") == "False")
        socket.symlink_to(containerd.endpoint.removeprefix("unix://"))
        node.until_ready()
        node.api.patch(node.path, {"spec": {"unschedulable": True}})
        first = ("Starting", "NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID")
        expected = dict.fromkeys((*first, "NodeReady", "NodeNotSchedulable"), 1)
        node.until(lambda: told_events(node).keys() >= expected.keys(), f"events {list(expected)}")
        assert told_events(node) == expected
        events = {one["reason"]: one for one in events_of(node)}
        assert events["Starting"]["message"] == "Starting kubelet."
        assert events["NodeReady"]["message"] == f"Node {node.name} status is now: NodeReady"
        assert events["NodeReady"]["source"] == {"component": "kubelet", "host": node.name}


def test_the_runtime_is_told_which_addresses_the_cluster_gives_its_pods(
    tmp_path: Path, containerd: Containerd, plane: ControlPlane, node_ip: str
) -> None:
    """As soon as a controller has written them to the Node."""
    with lone_node(tmp_path / "node", containerd, plane, node_ip) as node:
        node.until_ready()
        node.api.patch(node.path, {"spec": {"podCIDR": "10.99.7.0/24", "podCIDRs": ["10.99.7.0/24"]}})
        node.until(lambda: 'podCIDR="10.99.7.0/24"' in node.log("node"), "the runtime told")


def test_an_api_server_that_is_away_is_waited_for(
    tmp_path: Path, containerd: Containerd, plane_of_its_own: ControlPlane, node_ip: str
) -> None:
    """The process keeps running, and lease and status are written again afterwards."""
    plane = plane_of_its_own
    keys = {"nodeStatusUpdateFrequency": "1s", "nodeLeaseDurationSeconds": 4}
    with lone_node(tmp_path / "node", containerd, plane, node_ip, keys=keys) as node:
        node.until_ready()
        node.api.until(lease_path(node), bool, "a lease that can be renewed")
        plane.stop_apiserver()
        node.until(lambda: "lease cannot be renewed" in node.log("node"), "the lease not renewed")
        plane.start_apiserver()
        before = node.api.get(lease_path(node))["spec"]["renewTime"]
        plane.api.patch(f"{node.path}/status", {"status": {"nodeInfo": {"osImage": "Plan 9"}}})
        node.api.until(lease_path(node), lambda one: one["spec"]["renewTime"] > before)
        node.api.until(node.path, lambda one: one["status"]["nodeInfo"]["osImage"] != "Plan 9")
        assert node.processes["node"].poll() is None


def test_a_node_that_does_not_register_waits_for_its_object(
    tmp_path: Path, containerd: Containerd, plane: ControlPlane, node_ip: str
) -> None:
    """With registerNode: false another party creates the object, and the node still writes the status."""
    with lone_node(tmp_path / "node", containerd, plane, node_ip, keys={"registerNode": False}) as node:
        node.until(lambda: "not registered" in node.log("node"), "it is missed")
        assert node.api.find(node.path) is None
        node.api.create("/api/v1/nodes", {"metadata": {"name": node.name}})
        node.until_ready()


def test_a_runtime_without_a_network_makes_the_node_not_ready_in_the_kubelets_words(
    tmp_path: Path, containerd: Containerd, plane: ControlPlane, node_ip: str
) -> None:
    """A socket without a listener means that the runtime's state is unknown."""
    keys = {"containerRuntimeEndpoint": f"unix://{tmp_path}/none.sock"}
    with lone_node(tmp_path / "node", containerd, plane, node_ip, keys=keys) as node:
        found = node.api.until(node.path, lambda one: condition(one, "Ready") == "False")
        ready = next(one for one in found["status"]["conditions"] if one["type"] == "Ready")
        assert ready["reason"] == "KubeletNotReady"
        assert ready["message"] == (
            "[container runtime status check may not have completed yet, network state unknown]"
        )
        node.api.until(lease_path(node), lambda one: one["spec"].get("renewTime"), "a lease all the same")


def test_pressure_is_shown_and_kept_back_and_healthz_tells_the_truth(
    tmp_path: Path, containerd: Containerd, plane: ControlPlane, node_ip: str
) -> None:
    """The worker judges: here the test does so in its place."""
    port = free_ports(1)[0]
    keys = {"evictionHard": {"memory.available": "99.99%", "nodefs.available": "1Gi"}, "healthzPort": port}
    with lone_node(tmp_path / "node", containerd, plane, node_ip, keys=keys) as node:
        write_node_pressure(node.root_dir, ["MemoryPressure"])
        node.until_ready()
        found = node.api.until(node.path, lambda one: condition(one, "MemoryPressure") == "True", "the pressure")
        assert {one: condition(found, one) for one in ("MemoryPressure", "DiskPressure", "PIDPressure")} == {
            "MemoryPressure": "True",
            "DiskPressure": "False",
            "PIDPressure": "False",
        }
        status = found["status"]
        has, left = (parse_quantity(status[key]["ephemeral-storage"]).value for key in ("capacity", "allocatable"))
        assert has - left == 2**30
        healthz = f"http://127.0.0.1:{port}/healthz"
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(healthz, timeout=PATIENCE)
        assert b"tempolet worker has not started yet" in refused.value.read()
        with worker_and_poller(node), urllib.request.urlopen(healthz, timeout=PATIENCE) as answer:
            assert answer.read() == b"ok"
        write_node_pressure(node.root_dir, [])
        node.api.until(node.path, lambda one: condition(one, "MemoryPressure") == "False", "its end")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param("{", "no YAML", id="no-kubeconfig-at-all"),
        pytest.param({"clusters": []}, "contexts", id="a-context-that-is-not-there"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_is_one_line_and_an_end(tmp_path: Path, content: Any, said: str) -> None:
    """What is wrong, in which file, and what belongs there."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(content if isinstance(content, str) else json.dumps(content))
    ended = subprocess.run(
        [sys.executable, "-m", "worker.cli", "node", "--kubeconfig", kubeconfig, "--root-dir", tmp_path / "root"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert ended.returncode != 0
    errors = [line for line in ended.stderr.splitlines() if said in line]
    assert len(errors) == 1, ended.stderr
    assert "Traceback" not in ended.stderr


def test_an_authority_that_is_gone_or_did_not_sign_is_named_and_one_that_comes_is_taken_up(
    tmp_path: Path, containerd: Containerd, plane: ControlPlane, node_ip: str
) -> None:
    """The file ca.crt may be corrected while the process runs."""
    authority = tmp_path / "ca.crt"
    node = lone_node(tmp_path / "node", containerd, plane, node_ip)
    node.kubeconfig = plane.node_kubeconfig(node.name)
    written = json.loads(node.kubeconfig.read_text())
    written["clusters"][0]["cluster"]["certificate-authority"] = str(authority)
    node.kubeconfig.write_text(json.dumps(written))
    with node:
        node.until(lambda: f"{authority}: cannot be read" in node.log("node"), "the missing file named")
        Authority.make(tmp_path / "other")
        authority.write_bytes((tmp_path / "other" / "ca.crt").read_bytes())
        node.until(lambda: "is not trusted" in node.log("node"), "the wrong authority named")
        authority.write_bytes((plane.pki / "ca.crt").read_bytes())
        node.until_ready()
        assert "Traceback" not in node.log("node")


def events_of(node: ClusterNode) -> list[Any]:
    """Return the events of a node."""
    found = node.api.get(f"/api/v1/events?fieldSelector=involvedObject.name%3D{node.name}")["items"]
    return list(found)


def told_events(node: ClusterNode) -> dict[str, int]:
    """Count a node's events by their reason."""
    return {one["reason"]: one["count"] for one in events_of(node)}


def lease_path(node: ClusterNode) -> str:
    """Return the path of a node's Lease."""
    return f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{node.name}"
