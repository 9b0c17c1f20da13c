"""The volume families of /metrics: kubelet_volume_stats_* and volume_manager_total_volumes."""

from collections.abc import Iterator, Mapping
from typing import Final

from worker.stats.disks.volume_counts import VolumeCounts
from worker.stats.disks.volumes import Volume, VolumeUsage
from worker.telemetry.exposition import Family, labels

_CLAIMED: Final = (
    ("kubelet_volume_stats_capacity_bytes", "[ALPHA] Capacity in bytes of the volume", "capacity"),
    ("kubelet_volume_stats_available_bytes", "[ALPHA] Number of available bytes in the volume", "available"),
    ("kubelet_volume_stats_used_bytes", "[ALPHA] Number of used bytes in the volume", "used"),
    ("kubelet_volume_stats_inodes", "[ALPHA] Maximum number of inodes in the volume", "inodes"),
    ("kubelet_volume_stats_inodes_free", "[ALPHA] Number of free inodes in the volume", "inodes_free"),
    ("kubelet_volume_stats_inodes_used", "[ALPHA] Number of used inodes in the volume", "inodes_used"),
)


def claimed_families(measured: Mapping[Volume, VolumeUsage]) -> Iterator[Family]:
    """Return kubelet_volume_stats_* of volumes with a claim, each claim once (collectors/volume_stats.go)."""
    claimed = {(one.namespace, one.claim): use for one, use in measured.items()}
    written = {key: labels({"namespace": key[0], "persistentvolumeclaim": key[1]}) for key in claimed}
    for name, text, field in _CLAIMED:
        family = Family(name, text, "gauge")
        for key, use in claimed.items():
            family.add(getattr(use, field), written[key])
        yield family
    yield _health_family(claimed, written)


def _health_family(claimed: Mapping[tuple[str, str], VolumeUsage], written: Mapping[tuple[str, str], str]) -> Family:
    """Return the volumes' health, of those whose driver was asked."""
    text = (
        "[ALPHA] Abnormal volume health status. The count is either 1 or 0. 1 indicates the volume is unhealthy, "
        "0 indicates volume is healthy"
    )
    family = Family("kubelet_volume_stats_health_status_abnormal", text, "gauge")
    for key, use in claimed.items():
        if use.abnormal is not None:
            family.add(use.abnormal, written[key])
    return family


def total_family(counts: VolumeCounts) -> Family:
    """Return volume_manager_total_volumes (volumemanager/metrics/metrics.go)."""
    family = Family("volume_manager_total_volumes", "[ALPHA] Number of volumes in Volume Manager", "gauge")
    for state, by_plugin in (("desired_state_of_world", counts.wanted), ("actual_state_of_world", counts.actual)):
        for plugin, count in by_plugin.items():
            family.add(count, labels({"plugin_name": plugin, "state": state}))
    return family
