"""The pods' objects, from `<root-dir>/pods/<uid>/pod.json`, which the worker writes (proto/pod_snapshot.py).

They have what neither cgroups nor the runtime know: a pod's volumes, and its containers before they run. A file is parsed only
when it changed, and only a small part of it is kept.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from proto.dra.pod_claims import ClaimUnknown, container_claims
from proto.kubernetes.pod_containers import used_volumes
from proto.pod_snapshot import POD_FILE_NAME


@dataclass(frozen=True, slots=True)
class PodFile:
    """The part of a pod that is kept."""

    uid: str
    namespace: str
    name: str
    pod: Mapping[str, Any]
    """metadata.{uid,namespace,name} and, of spec.volumes, those that a container uses, in the pod's structure."""
    containers: tuple[str, ...]
    """Containers that run as long as the pod: sidecars first."""
    sidecars: tuple[str, ...] = ()
    claims: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The names of the ResourceClaims of each container that uses some; none as long as one of its names is not known."""


class PodFiles:
    """The newest version of every pod; may be read in any thread."""

    def __init__(self, root_dir: Path) -> None:
        """Take the directory that holds the node's pods."""
        self._folder = root_dir / "pods"
        self._kept: dict[str, tuple[int, PodFile]] = {}

    def all(self, uids: Iterable[str] | None = None) -> list[PodFile]:
        """Read these pods, or all that have a folder; incomplete and removed files are skipped. Blocks."""
        if uids is None:
            uids = [one.name for one in self._folder.iterdir()] if self._folder.is_dir() else []
        kept = {}
        for uid in uids:
            path = self._folder / uid / POD_FILE_NAME
            try:
                changed = path.stat().st_mtime_ns
                known = self._kept.get(uid)
                kept[uid] = known if known and known[0] == changed else (changed, _cut(json.loads(path.read_bytes())))
            except (OSError, ValueError, KeyError, TypeError):
                continue
        self._kept = kept
        return [one for _, one in kept.values()]

    def known(self) -> list[PodFile]:
        """Return what was read last."""
        return [one for _, one in self._kept.values()]


def _cut(pod: Mapping[str, Any]) -> PodFile:
    metadata, spec = pod["metadata"], pod["spec"]
    uid, namespace, name = metadata["uid"], metadata.get("namespace", "default"), metadata["name"]
    sidecars = [one for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"]
    volumes = spec.get("volumes") or ()
    # on a standalone node, an earlier release wrote no mounts: then all volumes count
    used = used_volumes(spec) or {one["name"] for one in volumes}
    kept = {
        "metadata": {"uid": uid, "namespace": namespace, "name": name},
        "spec": {"volumes": [one for one in volumes if one["name"] in used]},
    }
    running = (*sidecars, *spec["containers"])
    pod = {**pod, "metadata": {**metadata, "namespace": namespace}}
    claims = {one["name"]: found for one in running if (found := _claims(pod, one))}
    names = tuple(one["name"] for one in running)
    return PodFile(uid, namespace, name, kept, names, tuple(one["name"] for one in sidecars), claims)


def _claims(pod: Mapping[str, Any], container: Mapping[str, Any]) -> tuple[str, ...]:
    try:
        return container_claims(pod, container)
    except ClaimUnknown:
        return ()
