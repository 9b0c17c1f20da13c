"""Which quality-of-service class a pod belongs to: it names the cgroup's parent and the order of dying.

Asked when a pod's cgroup is placed, its resources are computed and its status is written; the rule is
pkg/apis/core/v1/helper/qos/qos.go. Only cpu and memory count, in containers and init containers alike; where the pod has
resources of its own (`spec.resources`), those and nothing else.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Final

from proto.kubernetes.resources.quantity import ZERO, Quantity, parse_quantity

_COMPUTE: Final = ("cpu", "memory")


class QosClass(StrEnum):
    """The API's three classes (status.qosClass)."""

    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"


def all_containers(pod: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Walk the containers, then the init containers."""
    spec = pod.get("spec") or {}
    yield from spec.get("containers") or ()
    yield from spec.get("initContainers") or ()


def resource_list(container: Mapping[str, Any], kind: str) -> dict[str, Quantity]:
    """Read a container's `requests` or `limits`; raises QuantityError where validation was left out."""
    entries: Mapping[str, Any] = (container.get("resources") or {}).get(kind) or {}
    return {name: parse_quantity(amount) for name, amount in entries.items()}


def qos_class(pod: Mapping[str, Any]) -> QosClass:
    """Class a defaulted pod; a class that its status already carries stays, for it never changes."""
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
