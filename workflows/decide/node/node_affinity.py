"""Whether a node matches a pod's nodeSelector and required node affinity.

See k8s.io/component-helpers scheduling/corev1/nodeaffinity. Preferred affinity is only for the scheduler.
"""

from collections.abc import Mapping
from typing import Any

from proto.kubernetes.node_selector import Labels, selects


def matches_node(spec: Mapping[str, Any], labels: Labels, name: str) -> bool:
    """Report whether a node with these labels and this name matches a pod's spec."""
    selector: Mapping[str, str] = spec.get("nodeSelector") or {}
    if any(labels.get(key) != value for key, value in selector.items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or selects(required.get("nodeSelectorTerms") or (), labels, name)
