"""Records of volumes to be published again, because their driver renews their content (CSIDriver spec.requiresRepublish).

The worker publishes them every syncFrequency, as the kubelet does with each sync of a pod. The record is beside the
volume's own in the pod's folder, so a restarted worker continues; it refers to Secrets and contains none. A failed
round is logged and leaves the volume as it is (kubernetes/kubernetes#121271).
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from activities.files.atomic_files import write_json
from activities.volumes.csi.records.layout import ESCAPED_PLUGIN
from activities.volumes.csi.records.places import FilesPlace
from activities.volumes.csi.records.volume import CsiVolume, Lifecycle, SecretReference

FILE: Final = "republish.json"


@dataclass(frozen=True, slots=True)
class Republished:
    """A volume to be published again, and its pod."""

    place: FilesPlace
    volume: CsiVolume
    pod: Mapping[str, Any]


def record_republished(place: FilesPlace, volume: CsiVolume, pod: Mapping[str, Any]) -> None:
    """Record that a volume is to be published again. Blocks on files; raises OSError."""
    write_json(place.directory / FILE, {"volume": asdict(volume), "pod": pod})


def republished_volumes(root_dir: Path) -> Iterator[Republished]:
    """Yield every volume of the node that is to be published again, except unreadable records. Blocks on files."""
    for file in (root_dir / "pods").glob(f"*/volumes/{ESCAPED_PLUGIN}/*/{FILE}"):
        try:
            record = json.loads(file.read_bytes())
            place = FilesPlace(root_dir, file.parents[3].name, file.parent.name)
            yield Republished(place, _volume(record["volume"]), record["pod"])
        except (OSError, ValueError, KeyError, TypeError):
            continue  # its pod is being removed, or mounts it again


def _volume(record: dict[str, Any]) -> CsiVolume:
    secrets = {
        field: record[field] and SecretReference(**record[field]) for field in ("stage_secret", "publish_secret")
    }
    lists = {field: tuple(record[field]) for field in ("access_modes", "mount_options")}
    return CsiVolume(**{**record, **secrets, **lists, "lifecycle": Lifecycle(record["lifecycle"])})
