"""Critical pods, which a node does not evict for its own sake (pkg/apis/scheduling/types.go).

Nothing resolves a manifest's priority class, so the names of the two system classes count as their priority.
"""

from collections.abc import Mapping
from typing import Any, Final

SYSTEM_CRITICAL_PRIORITY: Final = 2_000_000_000
SYSTEM_NODE_CRITICAL: Final = "system-node-critical"
SYSTEM_CLUSTER_CRITICAL: Final = "system-cluster-critical"


def is_critical(pod: Mapping[str, Any]) -> bool:
    """Report whether the pod is critical by its priority or its class."""
    spec = pod.get("spec") or {}
    of_the_system = spec.get("priorityClassName") in (SYSTEM_NODE_CRITICAL, SYSTEM_CLUSTER_CRITICAL)
    return of_the_system or (spec.get("priority") or 0) >= SYSTEM_CRITICAL_PRIORITY
