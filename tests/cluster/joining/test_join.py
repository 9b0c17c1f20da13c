"""Does `tempolet join` make a machine a Ready node of a real cluster, twice without a change, and does `tempolet leave` undo it all?"""

import json
from pathlib import Path
from typing import Final

import pytest

from activities.machine.cgroup_hierarchies import Hierarchies
from activities.machine.cgroup_names import CgroupNames
from proto.kubernetes.resources.qos import QosClass
from tests.cluster import bootstrap_tokens
from tests.cluster.bootstrap_tokens import TOKEN
from tests.cluster.cluster_node import condition, pods_path
from tests.cluster.joining.conftest import POD_UID, Machine
from tests.node.tempolet_node import PATIENCE, pod_manifest
from worker.joining.configuration import ConfigurationChoice
from worker.joining.discovery import find_cluster
from worker.joining.record import Record
from worker.joining.refusal import ClusterNotProven, JoinRefused, NotReadyYet
from worker.joining.request import BootstrapToken
from worker.joining.systemd import UNITS
from worker.settings.kubelet.configuration import ConfigurationRefused
from worker.standalone.cri_client import CriClient

SECRET: Final = TOKEN.split(".")[1]
SIGNING_ONLY: Final = "signin.0123456789abcdef"
ANOTHER_HASH: Final = "0" * 64


def mode(path: Path) -> int:
    """Return a path's permissions."""
    return path.stat().st_mode & 0o777


def test_a_machine_joins_joins_again_and_leaves(machine: Machine) -> None:
    """With the cluster's own configuration; the services run with what join wrote; nothing is left but the keys."""
    places = machine.places
    (places.root_dir / "mine").mkdir(parents=True)
    before = machine.files()

    said = "\n".join(machine.join(dry_run=True))
    assert f"would write {places.bootstrap_kubeconfig} (mode 0600" in said
    assert SECRET not in said
    assert (machine.files(), machine.calls()) == (before, [])

    said = "\n".join(machine.join())
    assert f"node {machine.node} of {machine.plane.server} is Ready" in said, machine.logs()
    assert SECRET not in said
    node = machine.plane.api.get(f"/api/v1/nodes/{machine.node}")
    assert condition(node, "Ready") == "True"
    assert machine.calls() == ["daemon-reload ", f"enable {' '.join(UNITS)}"]
    assert not places.bootstrap_kubeconfig.exists()
    assert SECRET not in places.record.read_text()
    assert [mode(one) for one in (places.own, places.environment, places.kubelet_configuration, places.record)] == [
        0o700,
        0o600,
        0o600,
        0o600,
    ]
    assert mode(places.authority) == 0o644
    assert json.loads(places.kubelet_configuration.read_bytes())["rotateCertificates"] is True

    joined = machine.files()
    said = "\n".join(machine.join())
    assert f"{places.kubeconfig} is valid for node {machine.node}" in said
    assert "nothing had to be changed" in said
    assert (machine.files(), machine.calls()) == (joined, [])
    assert "nothing had to be changed" in machine.join(token=None)[-1]  # the token may be gone by now

    bound = pod_manifest("stays", volumes=[{"name": "v", "emptyDir": {"medium": "Memory"}}])
    bound["spec"]["containers"][0]["volumeMounts"] = [{"name": "v", "mountPath": "/v"}]
    bound["spec"]["nodeName"] = machine.node
    pod = machine.plane.api.create(pods_path(), bound)
    machine.plane.api.until(pods_path(name="stays"), lambda one: condition(one, "Ready") == "True", "it runs", PATIENCE)

    cgroup = CgroupNames.below(machine.cgroup).pod(pod["metadata"]["uid"], QosClass.BEST_EFFORT)
    made = list(Hierarchies.of_this_node().folders(cgroup))
    assert any(one.is_dir() for one in made)
    said = "\n".join(machine.leave())
    assert "ended 1 pods" in said
    assert not any(one.is_dir() for one in made)
    assert f"kept {places.payload_keys}" in said
    assert f"kubectl delete node {machine.node}" in said
    assert machine.calls() == [
        "disable tempolet-node.service",
        "disable tempolet-poller.service",
        "disable tempolet-worker.service",
        "daemon-reload ",
    ]
    with CriClient(Path(machine.request.endpoint.removeprefix("unix://"))) as runtime:
        assert pod["metadata"]["uid"] not in {one.labels.get(POD_UID) for one in runtime.sandboxes()}
    logs = {f"var/log/{one}" for one in ("pods", "containers")}
    left = {name for name in machine.files() if not name.startswith(tuple(logs))} - logs
    assert left <= before.keys() | {"var/log"}
    assert sorted(one.name for one in places.root_dir.iterdir()) == ["mine", "tempolet"]
    assert [one.name for one in places.payload_keys.parent.iterdir()] == ["payload.keys"]
    assert machine.leave() == [f"nothing to do: no {places.record}, so `tempolet join` made nothing here"]


def test_a_join_that_was_interrupted_goes_on(machine: Machine) -> None:
    """If systemctl fails when the files are written, what is missing is done by the next run, and --purge leaves nothing."""
    (machine.state / "broken").touch()
    with pytest.raises(JoinRefused, match="daemon-reload"):
        machine.join()
    assert machine.places.bootstrap_kubeconfig.exists()
    (machine.state / "broken").unlink()
    said = "\n".join(machine.join())
    assert "is Ready" in said, machine.logs()
    assert "wrote /" not in said
    machine.leave(purge=True)
    assert not machine.places.root_dir.exists()
    assert not machine.places.own.exists()


def test_what_does_not_prove_itself_changes_nothing(machine: Machine) -> None:
    """A wrong secret, an unknown token and another CA's hash."""
    before = machine.files()
    with pytest.raises(ClusterNotProven, match="is not by the token"):
        machine.join(token=BootstrapToken.parse("abcdef.fedcba9876543210"))
    with pytest.raises(ClusterNotProven, match="not that of --ca-hash"):
        machine.join(hashes=frozenset({ANOTHER_HASH}))
    assert (machine.files(), machine.calls()) == (before, [])


def test_what_is_anothers_is_refused_by_name(machine: Machine) -> None:
    """A CA, a kubeconfig and a file that join did not write; nothing is changed."""
    places = machine.places
    places.authority.parent.mkdir(parents=True)
    places.own.mkdir()
    places.environment.write_text("TEMPOLET_FLAGS=mine\n")
    other = machine.plane.pki / "apiserver.crt"
    places.authority.write_bytes(other.read_bytes())
    before = machine.files()
    with pytest.raises(JoinRefused, match=r"ca.crt exists with another content.*tempolet.env exists with another"):
        machine.join()
    places.kubeconfig.write_bytes(machine.plane.node_kubeconfig("another").read_bytes())
    with pytest.raises(JoinRefused, match="is of the user system:node:another"):
        machine.join()
    places.kubeconfig.unlink()
    assert (machine.files(), machine.calls()) == (before, [])


def test_a_kubelets_kubeconfig_is_used_as_it_is(machine: Machine) -> None:
    """No token is needed; leave keeps it."""
    places = machine.places
    places.kubernetes.mkdir(parents=True)
    kubeconfig = machine.plane.node_kubeconfig(machine.node).read_bytes()
    places.kubeconfig.write_bytes(kubeconfig)
    said = "\n".join(machine.join(token=None))
    assert "is used as it is" in said
    assert "is Ready" in said, machine.logs()
    machine.leave(purge=True)
    assert places.kubeconfig.read_bytes() == kubeconfig


def test_a_node_that_does_not_come_says_what_each_service_waits_for(machine: Machine) -> None:
    """With a Node that nobody reports."""
    with pytest.raises(NotReadyYet, match=r"(?s)not Ready after 0 s: .*tempolet-worker.service: ") as told:
        machine.join(within=0)
    assert "Run the same command again" in str(told.value)
    machine.leave(purge=True)


def test_a_name_that_a_ready_node_has_is_refused(machine: Machine) -> None:
    """Another machine has it: both would take the Node from each other. One that is not Ready may come back."""
    api = machine.plane.api
    api.create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": machine.node}})
    machine.join(dry_run=True)
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    api.patch(f"/api/v1/nodes/{machine.node}/status", ready)
    with pytest.raises(JoinRefused, match=f"a Node {machine.node} of the cluster is Ready already"):
        machine.join()
    assert machine.calls() == []


def test_a_token_that_signs_but_does_not_authenticate_is_refused(machine: Machine) -> None:
    """`kubeadm token create --usages signing`: found before anything is changed."""
    bootstrap_tokens.add_token(machine.plane, SIGNING_ONLY, authentication=False)
    before = machine.files()
    with pytest.raises(JoinRefused, match="does not accept the token"):
        machine.join(token=BootstrapToken.parse(SIGNING_ONLY))
    assert machine.files() == before


def test_the_configuration_is_the_given_one_the_clusters_or_a_minimal_one(machine: Machine, tmp_path: Path) -> None:
    """In this order; each is read as the services will read it, and refused by its own name."""
    assert "configuration: the ConfigMap kube-system/kubelet-config" in machine.join(dry_run=True)
    given = tmp_path / "kubelet.yaml"
    given.write_text("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 7\nport: 0\n")
    assert f"configuration: --config {given}" in machine.join(dry_run=True, config=given)
    given.write_text(given.read_text() + "maxPods: x\n")
    with pytest.raises(ConfigurationRefused, match=f"nothing was changed: --config {given}: maxPods"):
        machine.join(config=given)
    machine.plane.api.delete("/api/v1/namespaces/kube-system/configmaps/kubelet-config")
    bootstrap_tokens.publish_configuration(machine.plane, {"maxPods": "x"})
    with pytest.raises(
        ConfigurationRefused, match="nothing was changed: the ConfigMap kube-system/kubelet-config: maxPods"
    ):
        machine.join()
    machine.plane.api.delete("/api/v1/namespaces/kube-system/configmaps/kubelet-config")
    access = find_cluster(machine.request, machine.places, machine.node, machine.said.append).access
    choice = ConfigurationChoice(machine.request, machine.places, machine.said.append)
    assert (
        choice.choose(access, Record(machine.places.record)).origin == "a minimal configuration"
    )  # its port may be taken here
    assert machine.calls() == []
