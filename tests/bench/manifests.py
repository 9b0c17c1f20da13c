"""The pods of all peers: one manifest each, the same text for the kubelet and for tempolet.

A container sleeps as process 1 without a handler, so it ignores SIGTERM and every removal lasts its whole grace period.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from tests.bench.probed_pods import GRPC_PORT, HTTP_PORT, TCP_PORT

IMAGE: Final = "docker.io/library/busybox:1.37"
GRACE_SECONDS: Final = 1
NAMESPACE: Final = "default"
QUICK: Final = {"periodSeconds": 1, "failureThreshold": 1}
OBEDIENT: Final = ("sh", "-c", "trap 'exit 0' TERM; while :; do sleep 1000 & wait; done")
"""Exits as soon as it gets SIGTERM."""
SLEEP: Final = ("sleep", "1000000")
TRUE: Final = ("true",)


@dataclass(frozen=True, slots=True)
class Container:
    """A container, with the other fields of its manifest."""

    name: str
    command: Sequence[str] = SLEEP
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ends(self) -> bool:
        """Return whether the next container waits for its exit."""
        return self.command == TRUE

    def written(self) -> dict[str, Any]:
        """Build its part of the manifest."""
        return {"name": self.name, "image": IMAGE, "command": list(self.command), **self.fields}


MAIN: Final = Container("main")


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod by name, by default a plain one. One container is always called main."""

    name: str
    containers: Sequence[Container] = (MAIN,)
    init_containers: Sequence[Container] = ()
    volumes: Sequence[Mapping[str, Any]] = ()

    def manifest(self) -> str:
        """Build the manifest."""
        spec: dict[str, Any] = {
            "terminationGracePeriodSeconds": GRACE_SECONDS,
            "containers": [one.written() for one in self.containers],
        }
        if self.init_containers:
            spec["initContainers"] = [one.written() for one in self.init_containers]
        if self.volumes:
            spec["volumes"] = list(self.volumes)
        metadata = {"name": self.name, "namespace": NAMESPACE}
        return yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


def with_init(name: str) -> Pod:
    """Build a pod with three init containers that exit at once."""
    return Pod(name, init_containers=[Container(one, TRUE) for one in ("first", "second", "third")])


TOLD: Final = {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}
OBJECT: Final = "told"
"""The name of the ConfigMap and of the Secret, for agents that have such objects."""


def with_volumes(name: str, *, objects: bool) -> Pod:
    """Build a pod whose container mounts ten volumes; without `objects` only those allowed in a kubelet's static pod."""
    volumes: list[dict[str, Any]] = [{"name": f"disk-{number}", "emptyDir": {}} for number in range(3)]
    volumes += [{"name": "memory", "emptyDir": {"medium": "Memory"}}]
    volumes += [{"name": f"host-{number}", "hostPath": {"path": "/tmp", "type": "Directory"}} for number in range(2)]
    volumes += [{"name": "told", "downwardAPI": TOLD}]
    if objects:
        sources = [{"downwardAPI": TOLD}, {"configMap": {"name": OBJECT}}]
        volumes += [{"name": "projected", "projected": {"sources": sources}}]
        volumes += [
            {"name": "secret", "secret": {"secretName": OBJECT}},
            {"name": "map", "configMap": {"name": OBJECT}},
        ]
    else:
        volumes += [{"name": f"told-{number}", "downwardAPI": TOLD} for number in range(3)]
    mounts = [{"name": one["name"], "mountPath": f"/mnt/{one['name']}"} for one in volumes]
    return Pod(name, [Container("main", fields={"volumeMounts": mounts})], volumes=volumes)


def with_sidecars(name: str) -> Pod:
    """Build a pod with three sidecars, each with an exec startup probe that succeeds at once, and two containers."""
    started = {"restartPolicy": "Always", "startupProbe": {"exec": {"command": ["true"]}, "periodSeconds": 1}}
    sidecars = [Container(one, fields=started) for one in ("first", "second", "third")]
    return Pod(name, (MAIN, Container("beside")), sidecars)


def with_http_probe(name: str, kind: str, host: str, port: int) -> Pod:
    """Build a pod with an httpGet probe of an external server every second; one result is a verdict."""
    probe = {"httpGet": {"host": host, "port": port, "path": "/"}, **QUICK}
    return Pod(name, [Container("main", OBEDIENT, {kind: probe})])


def with_three_probes(name: str) -> Pod:
    """Build a pod with one network probe of each kind, each running every second for its whole life.

    There are two containers, since one can have only two lasting probes. Many failures are allowed until a server listens in the pod.
    """
    forgiving = {"periodSeconds": 1, "failureThreshold": 1000}
    http = {"httpGet": {"port": HTTP_PORT, "path": "/"}, **forgiving}
    tcp = {"tcpSocket": {"port": TCP_PORT}, **forgiving}
    main = Container("main", fields={"readinessProbe": http, "livenessProbe": tcp})
    return Pod(name, [main, Container("beside", fields={"readinessProbe": {"grpc": {"port": GRPC_PORT}, **forgiving}})])


def with_exec_probe(name: str) -> Pod:
    """Build a pod whose container runs an exec probe every second."""
    probe = {"exec": {"command": ["true"]}, "periodSeconds": 1, "failureThreshold": 1000}
    return Pod(name, [Container("main", fields={"livenessProbe": probe})])
