"""Whether a node is one of those that a pod wants: nodeSelector and what its node affinity requires.

Asked by `node_admission` (k8s.io/component-helpers scheduling/corev1/nodeaffinity). What an affinity merely prefers is the scheduler's.
"""

from collections.abc import Mapping
from typing import Any

from proto.kubernetes.node_selector import Labels, selects


def matches_node(spec: Mapping[str, Any], labels: Labels, name: str) -> bool:
    """Say whether a node with these labels and this name may run a pod of this spec."""
    selector: Mapping[str, str] = spec.get("nodeSelector") or {}
    if any(labels.get(key) != value for key, value in selector.items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or selects(required.get("nodeSelectorTerms") or (), labels, name)
