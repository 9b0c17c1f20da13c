"""Does a pod with `hostUsers: false` run, where a handler has user namespaces (Debian's crun), and say why not where none has (its runc 1.1)?"""

from typing import Any, Final

import pytest

from tests.cluster.cluster_node import pods_path
from tests.machine.joined.node import NAME, Joined, scope_of, slice_of
from tests.node.tempolet_node import pod_manifest

CRUN: Final = {"metadata": {"name": "crun"}, "handler": "crun"}
WRITING: Final = "touch /kept/written && exec sleep 3600"
RANGE: Final = 65536


@pytest.fixture(scope="module")
def mapped(node: Joined) -> Any:
    """Run such a pod with crun, which writes a file into a volume as root."""
    node.plane.api.create("/apis/node.k8s.io/v1/runtimeclasses", CRUN)
    manifest = pod_manifest("mapped", WRITING, nodeName=NAME, hostUsers=False, runtimeClassName="crun")
    manifest["spec"]["volumes"] = [{"name": "kept", "emptyDir": {}}]
    (container,) = manifest["spec"]["containers"]
    container["volumeMounts"] = [{"name": "kept", "mountPath": "/kept"}]
    container["resources"] = {"limits": {"memory": "64Mi", "cpu": "200m"}}
    node.plane.api.create(pods_path(), manifest)
    return node.running("mapped")


@pytest.mark.machine
def test_the_node_tells_which_handler_has_them(node: Joined) -> None:
    """By its status, as a kubelet."""
    told = node.plane.api.get(f"/api/v1/nodes/{NAME}")["status"]["runtimeHandlers"]
    assert {one["name"]: one["features"]["userNamespaces"] for one in told} == {"": False, "runc": False, "crun": True}


@pytest.mark.machine
def test_root_of_the_pod_is_nobody_on_the_node(node: Joined, mapped: Any) -> None:
    """A range of the node's ids is the pod's; what its root writes into a volume is root's, for the volume is mapped as well."""
    crun = f"/sys/fs/cgroup{scope_of(mapped)}/container"  # it puts the container below its scope
    pid = node.machine.run(f"head -1 {crun}/cgroup.procs").stdout.strip()
    inside, outside, count = node.machine.run(f"cat /proc/{pid}/uid_map").stdout.split()
    assert (inside, count) == ("0", str(RANGE))
    assert int(outside) >= RANGE
    assert node.machine.run(f"stat -c %u /proc/{pid}").stdout.strip() == outside
    written = f"/var/lib/kubelet/pods/{mapped['metadata']['uid']}/volumes/kubernetes.io~empty-dir/kept/written"
    node.machine.run(f"until [ -e {written} ]; do sleep 1; done")
    assert node.machine.run(f"stat -c %u {written}").stdout.strip() == "0"


@pytest.mark.machine
def test_pod_and_container_have_their_limits(node: Joined, mapped: Any) -> None:
    """By crun as by runc, in the kubelet's slice."""
    for cgroup in (slice_of(mapped), scope_of(mapped)):
        found = node.figures(cgroup)
        assert (found["memory.max"], found["cpu.max"]) == (str(64 << 20), "20000 100000"), cgroup


@pytest.mark.machine
def test_the_other_handler_says_that_it_has_none(node: Joined) -> None:
    """The pod waits; others run."""
    node.create("unmapped", WRITING, hostUsers=False)
    node.until("unmapped", lambda _: any("user namespaces" in one for one in node.events("unmapped")), "it says why")
    node.until_gone("unmapped")
