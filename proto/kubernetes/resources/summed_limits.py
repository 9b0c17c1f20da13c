"""A pod's limit of a resource, written as Go writes the sum of its containers' limits.

A sum keeps the suffixes of its first amount that is not zero, a maximum those of the larger one (k8s.io/component-helpers
resource/helpers.go AggregateContainerLimits, resource.Quantity.Add). The amount alone is in `pod_totals`.
"""

from collections.abc import Mapping
from typing import Any

from proto.kubernetes.resources.pod_totals import is_sidecar
from proto.kubernetes.resources.quantity import Quantity, parse_with_form, write_quantity

Sum = tuple[Quantity, str]
"""An amount and the family of its suffix."""


def summed_limit(pod: Mapping[str, Any], resource: str) -> str:
    """Return the limit of all containers with the overhead; empty if none has one."""
    spec = pod["spec"]
    total: Sum | None = None
    for container in spec.get("containers") or ():
        total = _sum(total, _limit(container, resource))
    sidecars: Sum | None = None
    peak: Sum | None = None
    for container in spec.get("initContainers") or ():
        own = _limit(container, resource)
        if is_sidecar(container):
            total, sidecars = _sum(total, own), _sum(sidecars, own)
            peak = _larger(peak, sidecars)
        else:
            peak = _larger(peak, _sum(own, sidecars))
    found = _larger(total, peak)
    overhead = (spec.get("overhead") or {}).get(resource)
    if found and found[0] and overhead is not None:
        found = _sum(found, parse_with_form(overhead))
    return write_quantity(*found) if found else ""


def _limit(container: Mapping[str, Any], resource: str) -> Sum | None:
    limits = (container.get("resources") or {}).get("limits") or {}
    return parse_with_form(limits[resource]) if resource in limits else None


def _sum(one: Sum | None, more: Sum | None) -> Sum | None:
    if one is None or more is None:
        return one or more
    return one[0] + more[0], one[1] if one[0] else more[1]


def _larger(one: Sum | None, other: Sum | None) -> Sum | None:
    if one is None or other is None:
        return one or other
    return other if other[0] > one[0] else one
