"""Does a pod run with its RuntimeClass's handler, and does its cgroup include the overhead?"""

import grpc

from activities.machine.cgroups import Cgroups
from proto.cri.v1 import api_pb2 as cri
from proto.cri.v1 import api_pb2_grpc
from proto.kubernetes.resources.qos import QosClass
from tests.node.cgroup_view import limits
from tests.node.containerd_view import sandboxes_of
from tests.node.kept_objects import put_object
from tests.node.operating import tempolet
from tests.node.tempolet_node import BUSYBOX, TempoletNode, pod_manifest
from worker.standalone.containerd import Containerd

MI = 2**20
CONTAINER = {
    "name": "main",
    "image": BUSYBOX,
    "command": ["sleep", "3600"],
    "resources": {"limits": {"cpu": "100m", "memory": "32Mi"}},
}


def handler_of(containerd: Containerd, sandbox_id: str) -> str:
    """Ask containerd for a sandbox's handler."""
    with grpc.insecure_channel(containerd.endpoint) as channel:
        runtime = api_pb2_grpc.RuntimeServiceStub(channel)
        return str(
            runtime.PodSandboxStatus(cri.PodSandboxStatusRequest(pod_sandbox_id=sandbox_id)).status.runtime_handler
        )


def test_a_class_that_takes_something(node: TempoletNode) -> None:
    """Its handler runs the pod, whose cgroup has room for both; a pod with another overhead is not started."""
    fixed = {"cpu": "50m", "memory": "8Mi"}
    put_object(node, "runtimeclasses", "heavy", handler="runc", overhead={"podFixed": fixed})
    node.apply(pod_manifest("heavy", containers=[CONTAINER], runtimeClassName="heavy"))
    pod = node.until_running("heavy")
    ((sandbox_id, _),) = sandboxes_of(node.containerd, pod.uid)
    assert handler_of(node.containerd, sandbox_id) == "runc"
    cgroups = Cgroups(node.containerd.cgroup)
    found = limits(cgroups.pod_cgroup(pod.uid, QosClass.GUARANTEED))
    assert (found.quota, found.memory) == (15000, 40 * MI)
    node.apply(pod_manifest("other", containers=[CONTAINER], runtimeClassName="heavy", overhead={"cpu": "1"}))
    refused = node.until_pod("other", lambda one: one.reason == "FailedCreatePodSandBox")
    assert refused.message.endswith("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
    for name in ("heavy", "other"):
        node.take_away(name)


def test_a_class_that_comes_later(node: TempoletNode) -> None:
    """Until then the pod waits with the kubelet's reason; an unknown handler is refused by the runtime."""
    node.apply(pod_manifest("early", containers=[CONTAINER], runtimeClassName="late"))
    waiting = node.until_pod("early", lambda one: one.reason == "FailedCreatePodSandBox")
    words = f'Failed to create pod sandbox of default/{waiting.name}: runtimeclass.node.k8s.io "late" not found'
    assert waiting.message.startswith(words)
    _, said = tempolet(node, "explain", f"default/{waiting.name}")
    assert 'runtimeclass.node.k8s.io "late" not found' in said
    assert not sandboxes_of(node.containerd, waiting.uid)
    put_object(node, "runtimeclasses", "late", handler="runc")
    node.until_running("early")
    node.take_away("early")
    put_object(node, "runtimeclasses", "foreign", handler="kata")
    node.apply(pod_manifest("foreign", containers=[CONTAINER], runtimeClassName="foreign"))
    refused = node.until_pod("foreign", lambda one: one.reason == "FailedCreatePodSandBox")
    assert 'no runtime for "kata" is configured' in refused.message
    node.take_away("foreign")
