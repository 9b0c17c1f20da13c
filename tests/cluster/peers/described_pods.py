"""Typical pods, each with its final state, for `test_described_beside_kubelet` to describe on both nodes."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from tests.cluster.cluster_node import condition
from tests.node.tempolet_node import BUSYBOX, pod_manifest

Json = dict[str, Any]

NOWHERE: Final = "127.0.0.1:1/nothing:1"
"""An image in a registry that does not exist."""
OBJECTS: Final[Json] = {
    "configmaps": {"metadata": {"name": "app"}, "data": {"colour": "green"}},
    "secrets": {"metadata": {"name": "db"}, "stringData": {"password": "canary"}},
}


@dataclass(frozen=True, slots=True)
class Case:
    """A pod, and how to know that it has reached its final state."""

    name: str
    reason: str
    """Reason of an event that must have occurred."""
    stays: Callable[[Json], bool]
    container: Json = field(default_factory=dict)
    """The fields of its container that differ from the default."""
    spec: Json = field(default_factory=dict)
    """The other fields of the pod that differ."""
    beside: tuple[Json, ...] = ()
    """More containers."""
    apart: tuple[str, ...] = ()
    """Prefixes of lines, and reasons of events, that only ours has, or with another value."""

    def pod(self) -> Json:
        """Build the pod."""
        pod = pod_manifest(self.name, "trap 'exit 0' TERM; sleep 3600 & wait")
        pod["spec"]["containers"][0] |= self.container
        pod["spec"]["containers"] += self.beside
        pod["spec"] |= self.spec
        return pod


def ready(pod: Json) -> bool:
    """Return whether it runs and is ready."""
    return condition(pod, "Ready") == "True"


def running(pod: Json) -> bool:
    """Return whether its container runs."""
    return "running" in state(pod)


def over(pod: Json) -> bool:
    """Return whether it has finished, or was rejected."""
    return pod["status"]["phase"] in {"Succeeded", "Failed"}


def waits(reason: str) -> Callable[[Json], bool]:
    """Return a check whether its container waits with this reason."""
    return lambda pod: (state(pod).get("waiting") or {}).get("reason") == reason


def state(pod: Json) -> Json:
    """Return the state of its container."""
    first: Json = next(iter(pod["status"].get("containerStatuses") or ()), {})
    return first.get("state") or {}


def shell(command: str) -> list[str]:
    """Build a shell command."""
    return ["sh", "-c", command]


def tried(command: str, **more: Any) -> Json:
    """Build an exec probe with a command."""
    return {"exec": {"command": shell(command)}, "periodSeconds": 1, "timeoutSeconds": 20, **more}


NEVER: Final = {"restartPolicy": "Never"}
NOT_TAKEN: Final = (
    "Node:",
    "Conditions:",
    "Type",
    "PodReadyToStart",
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodScheduled",
)
"""For a rejected pod the kubelet reports only that: neither the node's address nor conditions."""
EARLY: Final = ("IP", "PodReadyToStart", "MissingClusterDNS")
"""We create the sandbox while volumes are mounted, the kubelet afterwards."""
RICH: Final = Case(
    "rich",
    "Started",
    ready,
    {
        "ports": [{"name": "web", "containerPort": 8080}],
        "env": [
            {"name": "PLAIN", "value": "text"},
            {"name": "COLOUR", "valueFrom": {"configMapKeyRef": {"name": "app", "key": "colour"}}},
            {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}},
            {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "LIMIT", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory"}}},
        ],
        "envFrom": [{"prefix": "APP_", "configMapRef": {"name": "app"}}],
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "32Mi"}},
        "startupProbe": tried("true"),
        "readinessProbe": tried("true", successThreshold=2),
        "livenessProbe": tried("true", initialDelaySeconds=1),
        "lifecycle": {"postStart": {"exec": {"command": ["true"]}}, "preStop": {"exec": {"command": ["true"]}}},
        "volumeMounts": [
            {"name": "scratch", "mountPath": "/scratch"},
            {"name": "memory", "mountPath": "/memory", "subPath": "below"},
            {"name": "app", "mountPath": "/app", "readOnly": True},
            {"name": "db", "mountPath": "/db"},
            {"name": "told", "mountPath": "/told"},
            {"name": "host", "mountPath": "/host"},
        ],
    },
    {
        "initContainers": [
            {"name": "first", "image": BUSYBOX, "command": shell("echo done > /dev/termination-log")},
            {"name": "beside", "image": BUSYBOX, "command": ["sleep", "3600"], "restartPolicy": "Always"},
        ],
        "volumes": [
            {"name": "scratch", "emptyDir": {"sizeLimit": "1Mi"}},
            {"name": "memory", "emptyDir": {"medium": "Memory"}},
            {"name": "app", "configMap": {"name": "app"}},
            {"name": "db", "secret": {"secretName": "db", "optional": True}},
            {"name": "told", "downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
            {"name": "host", "hostPath": {"path": "/tmp", "type": "Directory"}},
        ],
    },
)
CASES: Final = (
    RICH,
    Case("plain", "Started", ready),
    Case("completed", "Started", over, {"command": shell("echo all is done > /dev/termination-log")}, NEVER),
    Case("failed", "Started", over, {"command": shell("echo it broke > /dev/termination-log; exit 3")}, NEVER),
    Case("crashes", "BackOff", waits("CrashLoopBackOff"), {"command": shell("exit 3")}),
    Case("unstartable", "BackOff", waits("CrashLoopBackOff"), {"command": ["/no/such/program"]}),
    Case(
        "not-initialized",
        "Started",
        over,
        spec={
            **NEVER,
            "initContainers": [
                {"name": "first", "image": BUSYBOX, "command": shell("exit 4")},
            ],
        },
    ),
    Case("unpulled", "BackOff", waits("ImagePullBackOff"), {"image": NOWHERE}),
    Case(
        "never-pulled", "ErrImageNeverPull", waits("ErrImageNeverPull"), {"image": NOWHERE, "imagePullPolicy": "Never"}
    ),
    Case("nameless", "InspectFailed", waits("InvalidImageName"), {"image": "Busy/BOX:1"}),
    Case(
        "no-variable",
        "Failed",
        waits("CreateContainerConfigError"),
        {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "absent", "key": "a"}}}]},
    ),
    Case(
        "no-volume",
        "FailedMount",
        waits("ContainerCreating"),
        {"volumeMounts": [{"name": "absent", "mountPath": "/absent"}]},
        {"volumes": [{"name": "absent", "configMap": {"name": "absent"}}]},
        apart=EARLY,
    ),
    Case("unready", "Unhealthy", running, {"readinessProbe": tried("echo no; exit 1")}),
    Case(  # beside another that keeps running: for the last container the kubelet reports only that it stops it
        "unhealthy",
        "Killing",
        lambda pod: "terminated" in state(pod),
        {"livenessProbe": tried("echo no; exit 1", failureThreshold=1)},
        NEVER,
        beside=({"name": "other", "image": BUSYBOX, "command": shell("trap 'exit 0' TERM; sleep 3600 & wait")},),
    ),
    Case(
        "hook-failed",
        "FailedPostStartHook",
        over,
        {"lifecycle": {"postStart": {"exec": {"command": ["false"]}}}},
        NEVER,
    ),
    Case("too-big", "OutOfcpu", over, {"resources": {"requests": {"cpu": "1000"}}}, apart=NOT_TAKEN),
    Case("elsewhere", "NodeAffinity", over, spec={"nodeSelector": {"nobody": "has"}}, apart=NOT_TAKEN),
)
RESIZED: Final = Case("resized", "ResizeCompleted", ready, {"resources": {"requests": {"cpu": "10m"}}})
RESIZE: Final[Json] = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "20m"}}}]}}
"""The patch of the pod."""
GIVEN_UP_EARLY: Final = (
    "failed to sync configmap cache: timed out waiting for the condition",
    "failed to sync secret cache: timed out waiting for the condition",
)
"""In the kubelet's events: it waits one second for its first read of an object, which takes longer on a busy machine
(pkg/kubelet/util/manager/watch_based_manager.go), and retries.
"""
TOKEN_ASKED_EARLY: Final = 'failed to fetch token: pod "'
"""In events of either: the API server looks up the pod of a token in its own cache, which may not have it yet. The mount is retried."""
CLOSED_EARLY: Final = "ttrpc: closed"
"""In events of either: containerd closes its connection to the shim of a container that has just ended, while it waits for the answer to
its own Kill (containerd issue 12344). The stop is retried.
"""
RESIZE_TOLD_EARLY: Final = '"requests":{"cpu":"10m"}'
"""In the kubelet's ResizeCompleted: it was syncing the pod with the old sizes when it granted the new ones. Its SyncPod has a
note on that race; the event with the new sizes follows.
"""
