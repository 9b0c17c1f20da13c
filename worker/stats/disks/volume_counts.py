"""How many volumes pods want and have, by plugin (volumemanager/metrics/metrics.go).

Asked for `/metrics`. Both are named alike, so that they can be compared: a claim by the volume that it was looked up to mean, and a
CSI volume with its driver, both from the records that the worker writes when it mounts them. Nothing that may hang is accessed.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from activities.files.pod_paths import CLAIMS
from activities.volumes.csi.records.layout import ESCAPED_PLUGIN
from activities.volumes.plugin.table import VOLUME_PLUGINS, Measured, csi_label, kind_of, plugin_label, plugin_of
from worker.stats.cgroups.usage import folders
from worker.stats.disks.csi_volumes import recorded_volume

_CSI: Final = "csi"
_DEVICES: Final = "plugins/kubernetes.io/csi/volumeDevices"


class VolumeCounts(NamedTuple):
    """Volumes by plugin: those that pods want, and those that they have."""

    wanted: Counter[str]
    actual: Counter[str]


class _Meant(NamedTuple):
    """The volume that a claim, or a volume of a cloud, was found to mean."""

    kind: str
    name: str
    block: bool


def count_volumes(root_dir: Path, pods: Iterable[Mapping[str, Any]]) -> VolumeCounts:
    """Count volumes by plugin; blocks. A claim that means no volume yet does not count, as in a kubelet."""
    counts = VolumeCounts(Counter(), Counter())
    for pod in pods:
        home = root_dir / "pods" / pod["metadata"]["uid"]
        for one in pod["spec"].get("volumes") or ():
            _count_wanted(counts, root_dir, home, one)
        _count_actual(counts, root_dir, home)
    return counts


def _count_wanted(counts: VolumeCounts, root_dir: Path, home: Path, volume: Mapping[str, Any]) -> None:
    """Count a volume that a pod wants, also as one that it has if that leaves nothing in the pod's folder."""
    kind = kind_of(volume)
    label, meant = plugin_label(kind, volume.get(kind) or {}), _Meant(kind, "", block=False)
    if not label:
        found = _meant(home / CLAIMS / volume["name"])
        if found is None:
            return
        meant, label = found, _label(root_dir, home, found)
    counts.wanted[label] += 1
    row = VOLUME_PLUGINS.get(meant.kind)
    if meant.kind != _CSI and (meant.block or (row and row.measured is Measured.NOT)):
        counts.actual[label] += 1


def _count_actual(counts: VolumeCounts, root_dir: Path, home: Path) -> None:
    """Count the volumes in a pod's folder."""
    for plugin in folders(f"{home}/volumes"):
        for name in folders(f"{home}/volumes/{plugin}"):
            is_csi = plugin == ESCAPED_PLUGIN
            label = _label(root_dir, home, _Meant(_CSI, name, block=False)) if is_csi else plugin.replace("~", "/", 1)
            counts.actual[label] += 1
    for link in (home / "volumeDevices" / ESCAPED_PLUGIN).glob("*"):
        counts.actual[_label(root_dir, home, _Meant(_CSI, link.name, block=True))] += 1


def _label(root_dir: Path, home: Path, meant: _Meant) -> str:
    """Name the plugin of a PersistentVolume, that of CSI with its driver once that is recorded."""
    if meant.kind != _CSI:
        return plugin_of(meant.kind)
    files = home / "volumes" / ESCAPED_PLUGIN / meant.name
    recorded = recorded_volume(root_dir / _DEVICES / meant.name / "data" if meant.block else files, files)
    return csi_label(recorded.driver) if recorded else plugin_of(_CSI)


def _meant(record: Path) -> _Meant | None:
    """Read what a volume was found to mean; None if nothing is recorded."""
    try:
        found = json.loads(record.read_bytes())
        return _Meant(str(found["type"]), str(found["name"]), found.get("block") is True)
    except (OSError, ValueError, TypeError, LookupError):
        return None
