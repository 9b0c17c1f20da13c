"""Does a pod with hostUsers: false get a user namespace where the runtime supports it, and the kubelet's message elsewhere?

Which of the two is tested depends on the machine: containerd supports user namespaces with runc from 1.2 on.
"""

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest

from activities.clients.runtime import RuntimeClient
from activities.clients.start_limit import StartLimit
from proto.pod_snapshot import PodSnapshot
from tests.node.containerd_view import container_pid, sandboxes_of
from tests.node.operating import tempolet
from tests.node.pod_story import log_path, until_logged
from tests.node.tempolet_node import BUSYBOX, TempoletNode, pod_manifest
from worker.standalone.containerd import Containerd

SHOWS = (
    "cat /proc/self/uid_map; id -u; ls -ln /data /etc/hosts; touch /data/made && echo made; echo bye > /dev/termination-log;"
    " sysctl -n kernel.hostname; mount | grep -c ' /proc/'; trap 'exit 0' TERM; echo told; while :; do sleep 0.1; done"
)


async def _can(containerd: Containerd) -> bool:
    runtime = RuntimeClient(containerd.endpoint, StartLimit(1))
    try:
        handlers = (await runtime.abilities()).runtime_handlers
    finally:
        await runtime.close()
    return any(one.features.user_namespaces for one in handlers if not one.name)


@pytest.fixture(scope="module")
def able(containerd: Containerd) -> bool:
    """Return whether this machine's runtime supports user namespaces."""
    return asyncio.run(_can(containerd))


def apply(node: TempoletNode, name: str) -> None:
    """Run a pod in a user namespace that prints its ids and writes into a volume."""
    container = {
        "name": "main",
        "image": BUSYBOX,
        "command": ["sh", "-c", SHOWS],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        "securityContext": {"procMount": "Unmasked"},
    }
    node.apply(pod_manifest(name, containers=[container], volumes=[{"name": "data", "emptyDir": {}}], hostUsers=False))


def range_of(node: TempoletNode, pod: PodSnapshot) -> int:
    """Read the first host id of a pod's users from the disk."""
    written = json.loads((node.root_dir / "pods" / pod.uid / "userns").read_text())
    assert written["uidMappings"] == written["gidMappings"]
    (mapping,) = written["uidMappings"]
    assert (mapping["containerId"], mapping["length"]) == (0, 65536)
    return int(mapping["hostId"])


def test_two_pods_with_users_of_their_own(node: TempoletNode, able: bool) -> None:
    """Root inside is another user outside; what it writes into a volume belongs to root there; both are removed completely."""
    if not able:
        pytest.skip("this containerd gives no users of their own: its runc is older than 1.2, or its kernel than 6.3")
    for name in ("one", "two"):
        apply(node, name)
    pods = [node.until_running(name) for name in ("one", "two")]
    begins = [range_of(node, pod) for pod in pods]
    assert begins[0] != begins[1]
    for pod, host_id in zip(pods, begins, strict=True):
        words = [line.split() for line in until_logged(node, log_path(node, pod), "told")]
        assert words[:2] == [["0", str(host_id), "65536"], ["0"]]
        assert ["made"] in words
        (hosts,) = (line for line in words if "/etc/hosts" in line)
        assert hosts[2:4] == ["0", "0"], "the node's files are root's inside"
        pid = container_pid(node.containerd, pod.containers["main"].container_id)
        assert Path(f"/proc/{pid}").stat().st_uid == host_id
        made = node.root_dir / "pods" / pod.uid / "volumes" / "kubernetes.io~empty-dir" / "data" / "made"
        assert made.stat().st_uid == 0, "and what is made inside is root's on the node"
    node.stop("worker")
    node.start("worker")
    os.kill(container_pid(node.containerd, pods[0].containers["main"].container_id), signal.SIGKILL)
    again = node.until_pod("one", lambda one: one.restarts == 1 and one.phase == "Running" and one.ready)
    assert range_of(node, again) == begins[0], "it keeps its users under another worker and in another container"
    pid = container_pid(node.containerd, again.containers["main"].container_id)
    assert Path(f"/proc/{pid}").stat().st_uid == begins[0]
    for name in ("one", "two"):
        node.remove(name)
    node.until(lambda: not list((node.root_dir / "pods").iterdir()), "both gone, their ids free")


def test_a_runtime_that_can_not(node: TempoletNode, able: bool) -> None:
    """No sandbox is created, the pod reports the kubelet's reason, and can be deleted."""
    if able:
        pytest.skip("this containerd gives users of their own")
    apply(node, "refused")
    pod = node.until_pod("refused", lambda one: one.reason == "FailedCreatePodSandBox")
    words = "can't set `spec.hostUsers: false`, runtime does not support user namespaces"
    assert pod.message == f"Failed to create pod sandbox of default/{pod.name}: {words}"
    _, said = tempolet(node, "explain", f"default/{pod.name}")
    assert words in said
    assert not sandboxes_of(node.containerd, pod.uid)
    node.take_away("refused")
