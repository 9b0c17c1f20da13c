"""What a pod takes beside its containers, because of the runtime that it runs under (`spec.overhead`).

Asked where a pod's cgroup is computed and where its sandbox is described (component-helpers resource/helpers.go,
kuberuntime_sandbox_linux.go).
"""

from collections.abc import Mapping
from typing import Any

from proto.kubernetes.resources.quantity import ZERO, Quantity, parse_quantity


def pod_overhead(pod: Mapping[str, Any]) -> dict[str, Quantity]:
    """Read a pod's overhead."""
    said = (pod.get("spec") or {}).get("overhead") or {}
    return {name: parse_quantity(amount) for name, amount in said.items()}


def requests_and_overhead(pod: Mapping[str, Any], requests: Mapping[str, Quantity]) -> dict[str, Quantity]:
    """Add the overhead to what the containers ask for."""
    added = {name: requests.get(name, ZERO) + amount for name, amount in pod_overhead(pod).items()}
    return {**requests, **added}


def limits_and_overhead(pod: Mapping[str, Any], limits: Mapping[str, Quantity]) -> dict[str, Quantity]:
    """Add the overhead to what the containers may use, where that has a limit at all."""
    added = {name: limits[name] + amount for name, amount in pod_overhead(pod).items() if limits.get(name)}
    return {**limits, **added}
