"""Publish volumes again whose driver asks for that (CSIDriver spec.requiresRepublish): it renews what they show.

Called by the worker every syncFrequency, as the kubelet does at each sync of a pod. What is needed for it lies beside the
volume's record in the pod's folder, so a worker that was restarted goes on with it; where a secret is kept stands there,
never the secret. A round that fails is told in the log and leaves the volume as it is (kubernetes/kubernetes#121271).
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
    """A volume that is to be published again, and for which pod."""

    place: FilesPlace
    volume: CsiVolume
    pod: Mapping[str, Any]


def record_republished(place: FilesPlace, volume: CsiVolume, pod: Mapping[str, Any]) -> None:
    """Write down that a volume is to be published again. Blocks on files; raises OSError."""
    write_json(place.directory / FILE, {"volume": asdict(volume), "pod": pod})


def republished_volumes(root_dir: Path) -> Iterator[Republished]:
    """Find every volume of the node that is to be published again; one that can't be read is passed over. Blocks on files."""
    for file in (root_dir / "pods").glob(f"*/volumes/{ESCAPED_PLUGIN}/*/{FILE}"):
        try:
            said = json.loads(file.read_bytes())
            place = FilesPlace(root_dir, file.parents[3].name, file.parent.name)
            yield Republished(place, _volume(said["volume"]), said["pod"])
        except (OSError, ValueError, KeyError, TypeError):
            continue  # its pod goes, or mounts it again


def _volume(said: dict[str, Any]) -> CsiVolume:
    secrets = {field: said[field] and SecretReference(**said[field]) for field in ("stage_secret", "publish_secret")}
    lists = {field: tuple(said[field]) for field in ("access_modes", "mount_options")}
    return CsiVolume(**{**said, **secrets, **lists, "lifecycle": Lifecycle(said["lifecycle"])})
