"""Lives of pods with environment, volumes and resources, for `record_histories`, and of a pod that the node rejects."""

import asyncio
import os
import signal

from tests.node.containerd_view import container_pid
from tests.node.kept_objects import object_file, put_object
from tests.node.operating import history, look_in
from tests.node.tempolet_node import BUSYBOX, TempoletNode, pod_manifest


def late_object(node: TempoletNode) -> None:
    """A container waits for a ConfigMap and then for its key; the other container runs meanwhile."""
    env = [{"name": "LATE", "valueFrom": {"configMapKeyRef": {"name": "late", "key": "late"}}}]
    waits = {"name": "waits", "image": BUSYBOX, "command": ["sleep", "3600"], "env": env}
    runs = {"name": "runs", "image": BUSYBOX, "command": ["sleep", "3600"]}
    node.apply(pod_manifest("pod", containers=[waits, runs]))
    node.until_pod("pod", lambda one: "not found" in str(one.status), "waiting for the object")
    put_object(node, "configmaps", "late", data={"early": "1"})
    node.until_pod("pod", lambda one: "find key" in str(one.status), "waiting for the key")
    put_object(node, "configmaps", "late", data={"late": "1"})
    node.until_running("pod")


def volumes(node: TempoletNode) -> None:
    """A mount fails first because its object is missing; a new sandbox mounts again; the pod is deleted."""
    shown = node.directory / "shown"
    wanted = [
        {"name": "disk", "emptyDir": {}},
        {"name": "fast", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
        {"name": "host", "hostPath": {"path": str(shown), "type": "Directory"}},
    ]
    manifest = pod_manifest("pod", volumes=wanted)
    manifest["spec"]["containers"][0]["volumeMounts"] = [
        {"name": one["name"], "mountPath": f"/{one['name']}"} for one in wanted
    ]
    node.apply(manifest)
    node.until_pod("pod", lambda one: one.reason == "FailedMount", "its mount refused")
    shown.mkdir()
    first = node.until_running("pod")
    os.kill(container_pid(node.containerd, first.sandbox_id), signal.SIGKILL)
    node.until_pod("pod", lambda one: one.ready and one.sandbox_id != first.sandbox_id, "the new sandbox")


def unused_volume(node: TempoletNode) -> None:
    """A Secret that is missing keeps nobody waiting, as no container mounts it; an ephemeral container that does waits for it."""
    wanted = [{"name": "keys", "secret": {"secretName": "late"}}, {"name": "data", "emptyDir": {}}]
    manifest = pod_manifest("pod", volumes=wanted)
    manifest["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    node.apply(manifest)
    snapshot = node.until_running("pod")
    mounts = [{"name": "keys", "mountPath": "/keys"}]
    look = {"name": "looks", "image": BUSYBOX, "command": ["sleep", "3600"], "volumeMounts": mounts}
    asyncio.run(look_in(node, snapshot, look))
    node.until_pod("pod", lambda one: one.reason == "FailedMount", "its mount refused")
    put_object(node, "secrets", "late", stringData={"a": "1"})
    node.until_pod("pod", lambda one: one.ready and "running" in str(one.status["ephemeralContainerStatuses"]))


def pod_resources(node: TempoletNode) -> None:
    """A container of a pod with pod-level resources is resized in place; the pod's cgroup is unchanged."""

    def amounts(asked: str, most: str) -> dict[str, dict[str, str]]:
        return {"requests": {"cpu": asked, "memory": "8Mi"}, "limits": {"cpu": most, "memory": "32Mi"}}

    def listed(generation: int, cpu: str) -> None:
        manifest = pod_manifest("pod", resources=amounts("50m", "400m"))
        manifest["metadata"] |= {"uid": "uid-of-its-own", "generation": generation}
        manifest["spec"]["containers"][0]["resources"] = amounts("20m", cpu)
        node.apply(manifest)

    listed(1, "100m")
    node.until_running("pod")
    listed(2, "200m")
    limits = {"cpu": "200m", "memory": "32Mi"}
    node.until_pod("pod", lambda one: one.ready and one.status["containerStatuses"][0]["resources"]["limits"] == limits)
    node.until_pod("pod", lambda one: all(known["type"] != "PodResizeInProgress" for known in one.status["conditions"]))


def refreshed(node: TempoletNode) -> None:
    """Files follow their ConfigMap and the pod's labels; an invalid object is refused, and then fixed."""
    put_object(node, "configmaps", "app", data={"a": "1"})
    put_object(node, "secrets", "keys", stringData={"a": "1"})
    labels = {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}
    wanted = [
        {"name": "conf", "configMap": {"name": "app"}},
        {"name": "keys", "secret": {"secretName": "keys"}},
        {"name": "about", "downwardAPI": {"items": [labels]}},
    ]

    def listed(label: str) -> None:
        manifest = pod_manifest("pod", volumes=wanted)
        manifest["metadata"] |= {"uid": "uid-of-its-own", "labels": {"app": label}}
        mounts = [{"name": one["name"], "mountPath": f"/{one['name']}"} for one in wanted]
        manifest["spec"]["containers"][0]["volumeMounts"] = mounts
        node.apply(manifest)

    def shows(kind: str, volume: str, text: str) -> None:
        files = node.root_dir / "pods/uid-of-its-own/volumes" / f"kubernetes.io~{kind}" / volume
        node.until(lambda: any(path.read_text() == text for path in files.glob("[a-z]*")), f"{text} in {volume}")

    listed("one")
    first = node.until_running("pod")
    put_object(node, "configmaps", "app", data={"a": "2"})
    shows("configmap", "conf", "2")
    listed("two")
    shows("downward-api", "about", 'app="two"')
    object_file(node, "secrets", "keys").chmod(0o644)
    node.until(lambda: "chmod 0600 it" in history(node, first), "the refusal told")
    put_object(node, "secrets", "keys", stringData={"a": "3"})
    shows("secret", "keys", "3")


def rejected(node: TempoletNode) -> None:
    """A pod wants a sysctl that the node does not allow: it is Failed, and nothing of it is started."""
    node.apply(pod_manifest("pod", securityContext={"sysctls": [{"name": "kernel.sem", "value": "250 32000 100 128"}]}))
    node.until_pod("pod", lambda one: one.phase == "Failed", "rejected")
