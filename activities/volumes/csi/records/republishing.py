"""Records of volumes to be published again, because their driver renews their content (CSIDriver spec.requiresRepublish).

The worker publishes them every syncFrequency, as the kubelet does with each sync of a pod: files and devices. The record is in the
pod's folder, so a restarted worker continues; it refers to Secrets and contains none. A failed attempt leaves the volume as it is
(kubernetes/kubernetes#121271).
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from activities.files.atomic_files import write_json
from activities.volumes.csi.records.block_places import BlockPlace
from activities.volumes.csi.records.layout import ESCAPED_PLUGIN, REPUBLISH, REPUBLISHED_DEVICES
from activities.volumes.csi.records.places import FilesPlace, Place, make_folder
from activities.volumes.csi.records.volume import CsiVolume, Lifecycle, SecretReference
from proto.temporal.pod import PodKey

_FILES: Final = f"volumes/{ESCAPED_PLUGIN}"
_KINDS: Final[Mapping[str, type[FilesPlace] | type[BlockPlace]]] = {
    _FILES: FilesPlace,
    REPUBLISHED_DEVICES: BlockPlace,
}


@dataclass(frozen=True, slots=True)
class Republished:
    """A volume to be published again, and its pod."""

    place: Place
    volume: CsiVolume
    pod: Mapping[str, Any]
    key: PodKey


def record_republished(place: Place, volume: CsiVolume, pod: Mapping[str, Any]) -> None:
    """Record that a volume is to be published again. Blocks on files; raises OSError."""
    make_folder(place.republished.parent)
    write_json(place.republished, {"volume": asdict(volume), "pod": pod})


def republished_volumes(root_dir: Path) -> Iterator[Republished]:
    """Yield every volume of the node that is to be published again, except unreadable records. Blocks on files."""
    for folder, kind in _KINDS.items():
        for file in (root_dir / "pods").glob(f"*/{folder}/*/{REPUBLISH}"):
            try:
                record = json.loads(file.read_bytes())
                place = kind(root_dir, file.parents[3].name, file.parent.name)
                metadata = record["pod"]["metadata"]
                key = PodKey(metadata["namespace"], metadata["name"], place.pod_uid)
                yield Republished(place, _volume(record["volume"]), record["pod"], key)
            except (OSError, ValueError, KeyError, TypeError):
                continue  # its pod is being removed, or mounts it again


def _volume(record: dict[str, Any]) -> CsiVolume:
    secrets = {
        field: record.get(field) and SecretReference(**record[field])
        for field in ("stage_secret", "publish_secret", "expand_secret")
    }
    lists = {field: tuple(record[field]) for field in ("access_modes", "mount_options")}
    return CsiVolume(**{**record, **secrets, **lists, "lifecycle": Lifecycle(record["lifecycle"])})
