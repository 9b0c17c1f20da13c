"""The Node object to register with, and the fields that are reset on an existing one.

Used by `own_node` (pkg/kubelet/kubelet_node_status.go initialNode, tryRegisterWithAPIServer). Taints and --node-labels apply
when the object is created; later only the default labels and the attach-detach annotation are reset.
"""

from collections.abc import Mapping
from typing import Any, Final

from worker.settings.cluster import OWN_LABELS, ClusterSettings

Json = dict[str, Any]

ATTACH_DETACH: Final = "volumes.kubernetes.io/controller-managed-attach-detach"
UNINITIALIZED: Final = {
    "key": "node.cloudprovider.kubernetes.io/uninitialized",
    "value": "true",
    "effect": "NoSchedule",
}


def initial_node(name: str, cluster: ClusterSettings, architecture: str) -> Json:
    """Return the object to register with, without its status."""
    node: Json = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": _labels(name, architecture) | dict(cluster.labels),
            "annotations": {ATTACH_DETACH: "true"},
        },
    }
    spec: Json = {}
    taints = [dict(one) for one in cluster.taints] + ([UNINITIALIZED] if cluster.external_cloud else [])
    if taints:
        spec["taints"] = taints
    if cluster.provider_id:
        spec["providerID"] = cluster.provider_id
    return node | ({"spec": spec} if spec else {})


def reconcile(existing: Json, initial: Mapping[str, Any]) -> Json:
    """Return an existing Node with the labels and annotations that this node requires."""
    metadata = existing["metadata"]
    labels = dict(metadata.get("labels") or {})
    for label in OWN_LABELS:
        if label in initial["metadata"]["labels"]:
            labels[label] = initial["metadata"]["labels"][label]
            if not labels[label]:
                del labels[label]
    annotations = {**(metadata.get("annotations") or {}), ATTACH_DETACH: "true"}
    return {**existing, "metadata": {**metadata, "labels": labels, "annotations": annotations}}


def _labels(name: str, architecture: str) -> dict[str, str]:
    return {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": architecture,
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": architecture,
    }
