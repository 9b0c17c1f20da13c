"""A pod's limits of local storage.

The pod's workflow publishes what is to be watched and judges what was measured; the worker measures. The rules are the
kubelet's pkg/kubelet/eviction/eviction_manager.go localStorageEviction. An emptyDir in memory is not included, because
its file system is no larger than its limit.
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
    """The limits, as quantities of the API."""

    empty_dirs: dict[str, str] = field(default_factory=dict)
    """By the volume's name."""
    pod: str = ""
    """For everything together: containers' writable layers, logs, and volumes on disk; empty for none."""
    containers: dict[str, str] = field(default_factory=dict)
    """For a container's writable layer and logs, by its name."""


def storage_limits(pod: Mapping[str, Any]) -> StorageLimits | None:
    """Return a pod's limits; None if it has none."""
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
    """Report whether this exceeds a limit; the limit itself does not."""
    return bool(limit) and used_bytes * NANO > parse_quantity(limit).nanos


def _own_limit(container: Mapping[str, Any]) -> str:
    return str(((container.get("resources") or {}).get("limits") or {}).get(_RESOURCE) or "")


def _of_all(pod: Mapping[str, Any]) -> str:
    """Sum the containers' limits, even if some have none (PodLimits); a sum has the suffix of the first of them."""
    first = next((limit for container in all_containers(pod) if (limit := _own_limit(container))), "")
    if not first:  # nearly every pod, and asked in each decision
        return ""
    total = limits_and_overhead(pod, container_limits(pod))[_RESOURCE]
    if first.endswith("i"):
        return canonical_quantity(f"{total.value // 1024}Ki") if total.value % 1024 == 0 else str(total.value)
    return canonical_quantity(str(total.value))
