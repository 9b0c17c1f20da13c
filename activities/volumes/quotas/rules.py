"""Which volumes get a project quota, and of which size (pure; pkg/volume/emptydir/empty_dir.go assignQuota)."""

from collections.abc import Mapping
from typing import Any

from proto.kubernetes.resources.quantity import ZERO, parse_quantity
from proto.kubernetes.resources.storage_limits import storage_limits


def counts_by_quota(pod: Mapping[str, Any], source: Mapping[str, Any]) -> bool:
    """Report whether an emptyDir is counted by quota, where its file system can do that.

    Outside a user namespace a container could give its files to another project (fsquota.SupportsQuotas).
    """
    return (pod.get("spec") or {}).get("hostUsers") is False and not source.get("medium")


def is_limited(pod: Mapping[str, Any], source: Mapping[str, Any]) -> bool:
    """Report whether the volume or its pod has a limit (desired_state_of_world.go AddPodToVolume).

    Its quota is then the largest that there is, else none: a quota counts and never refuses a write.
    """
    limits = (source.get("sizeLimit"), (found := storage_limits(pod)) and found.pod)
    return any(limit and parse_quantity(limit) > ZERO for limit in limits)
