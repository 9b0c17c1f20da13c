"""A pod's quality-of-service class, which determines its parent cgroup and its oom_score_adj.

The rule is pkg/apis/core/v1/helper/qos/qos.go. Only cpu and memory count, of containers and init containers alike, or
of `spec.resources` if the pod has it.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Final

from proto.kubernetes.resources.quantity import ZERO, Quantity, parse_quantity

_COMPUTE: Final = ("cpu", "memory")


class QosClass(StrEnum):
    """The three classes of status.qosClass."""

    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"


def all_containers(pod: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the containers, then the init containers."""
    spec = pod.get("spec") or {}
    yield from spec.get("containers") or ()
    yield from spec.get("initContainers") or ()


def resource_list(container: Mapping[str, Any], kind: str) -> dict[str, Quantity]:
    """Return a container's `requests` or `limits`; raises QuantityError for an invalid one."""
    entries: Mapping[str, Any] = (container.get("resources") or {}).get(kind) or {}
    return {name: parse_quantity(amount) for name, amount in entries.items()}


def qos_class(pod: Mapping[str, Any]) -> QosClass:
    """Return the class of a defaulted pod; a class in its status stays, because it never changes."""
    known = (pod.get("status") or {}).get("qosClass")
    if known:
        return QosClass(known)
    spec = pod.get("spec") or {}
    judged = [spec] if spec.get("resources") is not None else all_containers(pod)
    totals: dict[str, dict[str, Quantity]] = {"requests": {}, "limits": {}}
    every_limit_set = True
    for one in judged:
        for kind, total in totals.items():
            given = {n: q for n, q in resource_list(one, kind).items() if n in _COMPUTE and q > ZERO}
            for name, amount in given.items():
                total[name] = total.get(name, ZERO) + amount
            if kind == "limits" and len(given) < len(_COMPUTE):
                every_limit_set = False
    if not totals["requests"] and not totals["limits"]:
        return QosClass.BEST_EFFORT
    if every_limit_set and totals["requests"] == totals["limits"]:
        return QosClass.GUARANTEED
    return QosClass.BURSTABLE
