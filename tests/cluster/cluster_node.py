"""A whole node of a real cluster under test: worker, poller and node as processes, joined to a control plane.

It extends `tests/node/tempolet_node.py` (folders, logs, waits, snapshots) by what a cluster needs: the kubeconfig of
system:node:<name>, an address that is not loopback, the third process, and pods created and read through the API server.
"""

import contextlib
import subprocess
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, Final, Self

from proto.pod_snapshot import PodSnapshot
from tests.cluster.api import Api, Refused
from tests.cluster.control_plane import ControlPlane
from tests.free_ports import free_ports
from tests.node.tempolet_node import PATIENCE, TempoletNode, pod_manifest
from worker.standalone.containerd import Containerd
from worker.standalone.machine.links import delete_link

NAMESPACE: Final = "default"
MIRROR: Final = "kubernetes.io/config.mirror"
"""The annotation of mirror pods, which the node itself creates and deletes."""


def pods_path(namespace: str = NAMESPACE, name: str = "") -> str:
    """Return the path of a namespace's pods, or of one pod."""
    return f"/api/v1/namespaces/{namespace}/pods" + (f"/{name}" if name else "")


def listening_at(port: int) -> dict[str, Any]:
    """Build a startup probe that succeeds when the container's server listens."""
    return {"tcpSocket": {"port": port}, "periodSeconds": 1, "failureThreshold": 60}


@contextlib.contextmanager
def node_address(device: str, address: str) -> Iterator[str]:
    """Assign a node address to a device of its own: the API refuses a node's loopback address."""
    add_address(device, address)
    try:
        yield address
    finally:
        delete_link(device)


def add_address(device: str, address: str) -> None:
    """Create the device; one left by a killed session is replaced."""
    delete_link(device)
    for words in (
        ("link", "add", device, "type", "bridge"),
        ("addr", "add", f"{address}/32", "dev", device),
        ("link", "set", device, "up"),
    ):
        subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


@dataclass
class ClusterNode(TempoletNode):
    """The three processes of one node; a context manager that starts them and leaves neither pods nor a Node object."""

    roles: ClassVar[tuple[str, ...]] = ("worker", "poller", "node")
    plane: ControlPlane = field(kw_only=True)
    node_ip: str = field(kw_only=True)
    """See `node_address`."""
    kubeconfig: Path | None = field(default=None, kw_only=True)
    """Replaces that of system:node:<name>."""

    def __enter__(self) -> Self:
        self.keys = self._cluster_keys() | self.keys
        kubeconfig = self.kubeconfig or self.plane.node_kubeconfig(self.name)
        self.flags = ["--kubeconfig", str(kubeconfig), "--node-ip", self.node_ip, *self.flags]
        super().__enter__()
        return self

    def __exit__(self, *failure: object) -> None:
        with contextlib.ExitStack() as at_last:
            at_last.callback(self._remove_from_api)
            at_last.callback(super().__exit__, *failure)
            with contextlib.suppress(TimeoutError, Refused, OSError):
                self.delete_all_pods()

    @property
    def api(self) -> Api:
        """The API server with the administrator's rights."""
        return self.plane.api

    @cached_property
    def api_port(self) -> int:
        """The port of the node's HTTPS API."""
        return free_ports(1)[0]

    @property
    def path(self) -> str:
        """The path of its Node object."""
        return f"/api/v1/nodes/{self.name}"

    def until_ready(self, patience: float = PATIENCE) -> Any:
        """Wait until the Node object is Ready; returns it."""
        return self._until(
            self.path, lambda node: condition(node, "Ready") == "True", f"node {self.name} Ready", patience
        )

    def create_pod(self, manifest: Mapping[str, Any], namespace: str = NAMESPACE) -> Any:
        """Create a pod bound to this node, without the scheduler; returns it as the API server stored it."""
        bound = {**manifest, "spec": {"nodeName": self.name, **manifest["spec"]}}
        return self.api.create(pods_path(namespace), bound)

    def run_pod(self, name: str, command: str = "sleep 3600", namespace: str = NAMESPACE, **spec: Any) -> Any:
        """Create a pod with one busybox container, and wait until the API has it running and ready; returns it."""
        self.create_pod(pod_manifest(name, command, **spec), namespace)
        return self.until_pod_ready(name, namespace)

    def pod(self, name: str) -> PodSnapshot | None:
        """Return a pod's snapshot by its name in the API or its manifest's; the newest if there are two."""
        found = [one for one in self.snapshots() if one.name in {name, f"{name}-{self.name}"}]
        return max(found, key=lambda one: one.started_at, default=None)

    def until_api_pod(
        self,
        name: str,
        holds: Callable[[Any], Any],
        what: str = "",
        namespace: str = NAMESPACE,
        patience: float = PATIENCE,
    ) -> Any:
        """Wait until a pod in the API satisfies a condition; returns it."""
        return self._until(pods_path(namespace, name), holds, what or f"{namespace}/{name} as asked", patience)

    def until_pod_ready(self, name: str, namespace: str = NAMESPACE) -> Any:
        """Wait until a pod is Ready in the API; returns it."""
        return self.until_api_pod(
            name, lambda pod: condition(pod, "Ready") == "True", f"{namespace}/{name} Ready", namespace
        )

    def until_pod_gone(self, name: str, namespace: str = NAMESPACE, patience: float = PATIENCE) -> None:
        """Wait until the API has no such pod."""
        with self._logs_told():
            self.api.until(pods_path(namespace, name), bool, f"{namespace}/{name} gone", patience, gone=True)

    def restore(self, but: Collection[str]) -> None:
        """Also delete the other pods in the API."""
        self.start_all()
        for pod in self._api_pods():
            meta = pod["metadata"]
            if meta["uid"] not in but and MIRROR not in meta.get("annotations", {}):
                self.api.delete(pods_path(meta["namespace"], meta["name"]), gracePeriodSeconds=1)
        self.remove_all(but)

    def delete_all_pods(self) -> None:
        """Delete every pod of this node through the API, and wait until they are gone; raises TimeoutError."""

        def none_left() -> bool:
            pods = self._api_pods()
            for pod in pods:
                meta = pod["metadata"]
                if "deletionTimestamp" not in meta and MIRROR not in meta.get("annotations", {}):
                    self.api.delete(pods_path(meta["namespace"], meta["name"]), gracePeriodSeconds=1)
            return not pods

        if all(process.poll() is None for process in self.processes.values()) and self.processes:
            for path in self.manifests.iterdir():  # their mirror pods are in the API
                if path.is_file():
                    path.unlink()
            self.until(none_left, "every pod of the API gone")

    def _api_pods(self) -> list[Any]:
        found: list[Any] = self.api.get(f"/api/v1/pods?fieldSelector=spec.nodeName%3D{self.name}")["items"]
        return found

    def _until(self, path: str, holds: Callable[[Any], Any], what: str, patience: float) -> Any:
        with self._logs_told():
            return self.api.until(path, holds, what, patience)

    @contextlib.contextmanager
    def _logs_told(self) -> Iterator[None]:
        try:
            yield
        except TimeoutError as error:
            logs = "\n".join(f"--- {role}\n{self.log(role)[-3000:]}" for role in self.roles)
            raise TimeoutError(f"{error}\n{logs}") from None

    def _cluster_keys(self) -> dict[str, Any]:
        return {
            "address": self.node_ip,
            "port": self.api_port,
            "authentication": {"x509": {"clientCAFile": str(self.plane.pki / "ca.crt")}},
        }

    def _remove_from_api(self) -> None:
        """Remove what is left in the API after the node has stopped: pods of a failed test, the Node and its Lease."""
        for pod in self._api_pods():
            self.api.delete(pods_path(pod["metadata"]["namespace"], pod["metadata"]["name"]), gracePeriodSeconds=0)
        self.api.delete(self.path)
        self.api.delete(f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{self.name}")


NewNode = Callable[..., ClusterNode]
"""Creates a node in a folder without starting it; arguments replace the session's defaults. See conftest's `new_node`."""


class LoneNode(ClusterNode):
    """The node process without worker and poller."""

    roles: ClassVar[tuple[str, ...]] = ("node",)


def lone_node(directory: Path, containerd: Containerd, plane: ControlPlane, node_ip: str, **more: Any) -> LoneNode:
    """Create a node process without starting it; it does not use Temporal."""
    nowhere: Any = SimpleNamespace(address="127.0.0.1:1")
    return LoneNode(directory, containerd, nowhere, plane=plane, node_ip=node_ip, **more)


def condition(thing: Mapping[str, Any], kind: str) -> str:
    """Return the status of a condition of a pod or node: True, False, Unknown, or empty if it has none."""
    conditions = thing.get("status", {}).get("conditions") or ()
    return next((str(one["status"]) for one in conditions if one["type"] == kind), "")
