"""Does a pod with `hostUsers: false` run, where a handler has user namespaces (Debian's crun), and say why not where none has (its runc 1.1)?"""

from typing import Any, Final

import pytest

from tests.machine.joined.node import NAME, Joined, scope_of

CRUN: Final = {"metadata": {"name": "crun"}, "handler": "crun"}
WRITING: Final = "touch /work/written; exec sleep 3600"
RANGE: Final = 65536
VOLUME: Final[Any] = {
    "volumes": [{"name": "work", "emptyDir": {}}],
    "mounts": [{"name": "work", "mountPath": "/work"}],
}


@pytest.fixture(scope="module")
def mapped(node: Joined) -> Any:
    """Run such a pod with crun, which writes a file into a volume as root."""
    node.plane.api.create("/apis/node.k8s.io/v1/runtimeclasses", CRUN)
    manifest = {"hostUsers": False, "runtimeClassName": "crun", "volumes": VOLUME["volumes"]}
    node.create("mapped", WRITING, {"volumeMounts": VOLUME["mounts"]}, **manifest)
    return node.running("mapped")


@pytest.mark.machine
def test_the_node_tells_which_handler_has_them(node: Joined) -> None:
    """By its status, as a kubelet."""
    told = node.plane.api.get(f"/api/v1/nodes/{NAME}")["status"]["runtimeHandlers"]
    assert {one["name"]: one["features"]["userNamespaces"] for one in told} == {"": False, "runc": False, "crun": True}


@pytest.mark.machine
def test_root_of_the_pod_is_nobody_on_the_node(node: Joined, mapped: Any) -> None:
    """A range of the node's ids is the pod's; what its root writes into a volume is root's, for the volume is mapped as well."""
    pid = node.machine.run(f"head -1 /sys/fs/cgroup{scope_of(mapped)}/cgroup.procs").stdout.strip()
    inside, outside, count = node.machine.run(f"cat /proc/{pid}/uid_map").stdout.split()
    assert (inside, count) == ("0", str(RANGE))
    assert int(outside) >= RANGE
    assert node.machine.run(f"stat -c %u /proc/{pid}").stdout.strip() == outside
    written = f"/var/lib/kubelet/pods/{mapped['metadata']['uid']}/volumes/kubernetes.io~empty-dir/work/written"
    assert node.machine.run(f"stat -c %u {written}").stdout.strip() == "0"


@pytest.mark.machine
def test_the_other_handler_says_that_it_has_none(node: Joined) -> None:
    """The pod waits; others run."""
    node.create("unmapped", WRITING, hostUsers=False)
    node.until("unmapped", lambda _: any("user namespaces" in one for one in node.events("unmapped")), "it says why")
    node.until_gone("unmapped")
