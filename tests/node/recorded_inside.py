"""The lives of containers that find things inside, for `record_histories`: variables, and what they wait for."""

from tests.node.kept_objects import put_object
from tests.node.tempolet_node import BUSYBOX, TempoletNode, pod_manifest


def late_object(node: TempoletNode) -> None:
    """A container waits for a ConfigMap and then for its key; the other one runs meanwhile."""
    env = [{"name": "LATE", "valueFrom": {"configMapKeyRef": {"name": "late", "key": "late"}}}]
    waits = {"name": "waits", "image": BUSYBOX, "command": ["sleep", "3600"], "env": env}
    runs = {"name": "runs", "image": BUSYBOX, "command": ["sleep", "3600"]}
    node.apply(pod_manifest("pod", containers=[waits, runs]))
    node.until_pod("pod", lambda one: "not found" in str(one.status), "waiting for the object")
    put_object(node, "configmaps", "late", data={"early": "1"})
    node.until_pod("pod", lambda one: "find key" in str(one.status), "waiting for the key")
    put_object(node, "configmaps", "late", data={"late": "1"})
    node.until_running("pod")
