"""How much a pod may hold on the node's disk, as its manifest says it.

Asked by the pod's workflow, which tells the node's cache what is to be watched and judges what was seen, and by the worker's
loop that counts. The rules are the kubelet's pkg/kubelet/eviction/eviction_manager.go, localStorageEviction. An emptyDir in memory
is not among them: its file system is no larger than its limit.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from proto.kubernetes.resources.overhead import limits_and_overhead
from proto.kubernetes.resources.pod_totals import container_limits
from proto.kubernetes.resources.qos import all_containers
from proto.kubernetes.resources.quantity import NANO, ZERO, canonical_quantity, parse_quantity

_RESOURCE: Final = "ephemeral-storage"


@dataclass(frozen=True, slots=True)
class StorageLimits:
    """What is limited, quantities as the API writes them."""

    empty_dirs: dict[str, str] = field(default_factory=dict)
    """By the volume's name."""
    pod: str = ""
    """Of all together: what is written in containers, to logs, and into volumes that are on disk; empty: none."""
    containers: dict[str, str] = field(default_factory=dict)
    """Of what is written in one container and to its logs, by its name."""


def storage_limits(pod: Mapping[str, Any]) -> StorageLimits | None:
    """Read a pod's limits; None: it has none, and nobody need count."""
    spec = pod.get("spec") or {}
    empty_dirs = {
        volume["name"]: canonical_quantity(limit)
        for volume in spec.get("volumes") or ()
        for source in [volume.get("emptyDir") or {}]
        if not source.get("medium") and (limit := source.get("sizeLimit")) and parse_quantity(limit) > ZERO
    }
    containers = {
        container["name"]: canonical_quantity(limit)
        for container in spec.get("containers") or ()
        if (limit := _own_limit(container)) and parse_quantity(limit)
    }
    limits = StorageLimits(empty_dirs, _of_all(pod), containers)
    return limits if limits != StorageLimits() else None


def is_more(used_bytes: int, limit: str) -> bool:
    """Say whether this exceeds a limit; just the limit does not, and nothing exceeds none."""
    return bool(limit) and used_bytes * NANO > parse_quantity(limit).nanos


def _own_limit(container: Mapping[str, Any]) -> str:
    return str(((container.get("resources") or {}).get("limits") or {}).get(_RESOURCE) or "")


def _of_all(pod: Mapping[str, Any]) -> str:
    """Sum the containers' limits, also when not all have one (PodLimits); a sum is written like the first of them."""
    first = next((limit for container in all_containers(pod) if (limit := _own_limit(container))), "")
    if not first:  # nearly every pod, at each of its decisions
        return ""
    total = limits_and_overhead(pod, container_limits(pod))[_RESOURCE]
    if first.endswith("i"):
        return canonical_quantity(f"{total.value // 1024}Ki") if total.value % 1024 == 0 else str(total.value)
    return canonical_quantity(str(total.value))
