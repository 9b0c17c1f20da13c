"""`spec.overhead`: what a pod uses besides its containers, because of its runtime class.

Used for the pod's cgroup and its sandbox (component-helpers resource/helpers.go, kuberuntime_sandbox_linux.go).
"""

from collections.abc import Mapping
from typing import Any

from proto.kubernetes.resources.pod_totals import pod_requests
from proto.kubernetes.resources.quantity import ZERO, Quantity, parse_quantity


def pod_overhead(pod: Mapping[str, Any]) -> dict[str, Quantity]:
    """Return a pod's overhead."""
    said = (pod.get("spec") or {}).get("overhead") or {}
    return {name: parse_quantity(amount) for name, amount in said.items()}


def requests_and_overhead(pod: Mapping[str, Any]) -> dict[str, Quantity]:
    """Return a pod's requests with its overhead."""
    requests = pod_requests(pod)
    added = {name: requests.get(name, ZERO) + amount for name, amount in pod_overhead(pod).items()}
    return {**requests, **added}


def limits_and_overhead(pod: Mapping[str, Any], limits: Mapping[str, Quantity]) -> dict[str, Quantity]:
    """Add the overhead to limits, for resources that have one."""
    added = {name: limits[name] + amount for name, amount in pod_overhead(pod).items() if limits.get(name)}
    return {**limits, **added}
