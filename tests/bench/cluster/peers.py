"""The two agents as nodes of one cluster: the same processes as with manifests, with a kubeconfig."""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Final

import yaml

from tests.bench.cluster.membership import Membership
from tests.bench.manifests import NAMESPACE, Pod
from tests.bench.peers.kubelet import Kubelet
from tests.bench.peers.peer import Peer
from tests.bench.peers.tempolet import Tempolet
from tests.free_ports import free_ports
from worker.standalone.given_configuration import GivenConfiguration

PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
DEPLOYMENTS: Final = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"


class ApiPeer(Peer):
    """An agent whose pods come from the API server."""

    membership: Membership

    def pod_name(self, pod: Pod) -> str:
        """Return the name of a pod, which is the same in the API."""
        return pod.name

    async def start(self, pods: Sequence[Pod]) -> float:
        """Create the pods, bound to this node."""
        at = time.time()
        for pod in pods:
            made = yaml.safe_load(pod.manifest())
            made["spec"]["nodeName"] = self.membership.node
            self.membership.plane.api.create(PODS, made)
        return at

    async def delete(self, pods: Sequence[Pod]) -> float:
        """Delete the pods, with their own grace period."""
        at = time.time()
        for pod in pods:
            self.membership.plane.api.delete(f"{PODS}/{pod.name}")
        return at

    async def delete_leftovers(self) -> None:
        """Delete every pod of this node."""
        api, mine = self.membership.plane.api, f"spec.nodeName%3D{self.membership.node}"
        for found in api.get(f"{PODS}?fieldSelector={mine}")["items"]:
            api.delete(f"{PODS}/{found['metadata']['name']}", gracePeriodSeconds=0)

    async def deploy(self, name: str, count: int) -> float:
        """Create a Deployment for this node's label; returns the time."""
        spec = yaml.safe_load(Pod(name).manifest())["spec"]
        spec["nodeSelector"] = {"kubernetes.io/hostname": self.membership.node}
        labels = {"app": name}
        template = {"metadata": {"labels": labels}, "spec": spec}
        deployment = {"replicas": count, "selector": {"matchLabels": labels}, "template": template}
        at = time.time()
        self.membership.plane.api.create(DEPLOYMENTS, {"metadata": {"name": name}, "spec": deployment})
        return at

    async def undeploy(self, name: str) -> None:
        """Delete a Deployment and its pods."""
        self.membership.plane.api.delete(f"{DEPLOYMENTS}/{name}", propagationPolicy="Foreground")

    def until_ready(self) -> None:
        """Wait until the Node object is Ready."""
        self.membership.plane.api.until(
            f"/api/v1/nodes/{self.membership.node}",
            lambda node: any(
                one["type"] == "Ready" and one["status"] == "True" for one in node["status"].get("conditions") or ()
            ),
            f"node {self.membership.node} Ready",
            60,
        )


class ClusterKubelet(ApiPeer, Kubelet):
    """The real kubelet as a node."""

    def __init__(self, program: Path, membership: Membership) -> None:
        super().__init__(program)
        self.membership = membership

    def begin(self) -> None:
        """Start it and wait until its node is Ready."""
        super().begin()
        self.until_ready()

    def flags(self) -> list[str]:
        """Return the flags to join the cluster."""
        return [
            *("--kubeconfig", str(self.membership.kubeconfig), "--node-ip", self.membership.node_ip),
            *("--hostname-override", self.membership.node),
        ]

    def _configuration(self, api_port: int, healthz_port: int) -> dict[str, Any]:
        alone = super()._configuration(api_port, healthz_port)
        return {**alone, **cluster_keys(self.membership), "port": api_port, "staticPodPath": "", "readOnlyPort": 0}


class ClusterTempolet(ApiPeer, Tempolet):
    """`tempolet up` as a node."""

    processes: ClassVar[tuple[str, ...]] = ("node", "poller", "worker", "temporal")

    def __init__(self, membership: Membership) -> None:
        super().__init__()
        self.membership = membership
        keys = {"maxPods": 120, "evictionHard": {"memory.available": "100Mi"}, "port": free_ports(1)[0]}
        given = GivenConfiguration(kubelet_configuration={**keys, **cluster_keys(membership)})
        self.settings = replace(
            self.settings,
            hostname_override=membership.node,
            kubeconfig=str(membership.kubeconfig),
            node_ip=membership.node_ip,
            given_configuration=given,
        )

    def begin(self) -> None:
        """Start the node and wait until it is Ready."""
        super().begin()
        self.until_ready()


def cluster_keys(membership: Membership) -> dict[str, Any]:
    """Return the configuration of both: who may access the node's own API."""
    return {
        "address": membership.node_ip,
        "authentication": {"x509": {"clientCAFile": str(membership.client_ca)}, "webhook": {"enabled": True}},
        "authorization": {"mode": "Webhook"},
    }
