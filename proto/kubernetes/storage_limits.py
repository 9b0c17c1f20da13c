"""How much a pod's emptyDirs may hold on the node's disk, as its manifest says it, and which of them holds more.

Asked by the pod's workflow, which tells the node's cache what is to be watched and judges what was seen, and by the worker's
loop that counts. The rules are the kubelet's pkg/kubelet/eviction/eviction_manager.go, emptyDirLimitEviction. What lies in
memory is not among them: its file system is no larger than its limit.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from proto.kubernetes.quantity import NANO, canonical_quantity, parse_quantity


@dataclass(frozen=True, slots=True)
class StorageLimits:
    """What is limited, quantities as the API writes them."""

    empty_dirs: dict[str, str] = field(default_factory=dict)
    """By the volume's name."""


def storage_limits(pod: Mapping[str, Any]) -> StorageLimits | None:
    """Read a pod's limits; None: it has none, and nobody need count."""
    volumes = (pod.get("spec") or {}).get("volumes") or ()
    empty_dirs = {
        volume["name"]: canonical_quantity(limit)
        for volume in volumes
        for source in [volume.get("emptyDir") or {}]
        if not source.get("medium") and (limit := source.get("sizeLimit")) and parse_quantity(limit).nanos > 0
    }
    return StorageLimits(empty_dirs) if empty_dirs else None


def holds_too_much(limits: StorageLimits, empty_dir: str, used_bytes: int) -> bool:
    """Say whether a volume holds more than it may; just its limit is not more."""
    limit = limits.empty_dirs.get(empty_dir)
    return limit is not None and used_bytes * NANO > parse_quantity(limit).nanos
