"""Makes a manifest's pod a static pod of this node: UID, node name as a suffix, annotations of its source.

Called by `manifest` between defaulting and validation, as in the kubelet's pkg/kubelet/config/common.go. One difference
is deliberate: the kubelet hashes Go's printed form of its struct, which is not available here, so the UID hashes the
canonical JSON of the defaulted pod. It is as stable (the same file gives the same UID, an edit a new one), but a pod
that moves from the kubelet to tempolet gets a new UID and is started again.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from proto.kubernetes.source_annotations import HASH_ANNOTATION, SEEN_ANNOTATION, SOURCE_ANNOTATION
from proto.temporal.pod import PodJson
from proto.temporal.resources import PendingResize

SOURCE: Final = "file"
URL_SOURCE: Final = "http"
DEFAULT_NAMESPACE: Final = "default"
_FNV_OFFSET: Final = 0x6C62272E07BB014262B821756295C58D
_FNV_PRIME: Final = 0x0000000001000000000000000000013B
_FNV_MASK: Final = 2**128 - 1
_NO_EXECUTE: Final = {"operator": "Exists", "effect": "NoExecute"}


Place = Path | str
"""A file's path, or a URL without credentials."""


@dataclass(frozen=True, slots=True)
class Placing:
    """Where and when a pod is placed."""

    node_name: str
    seen: datetime
    url: str = ""
    """The URL of its manifest, if it did not come from a file."""


@dataclass(frozen=True, slots=True)
class StaticPod:
    """One manifest's pod, defaulted, valid, and placed on this node."""

    path: Place
    pod: PodJson
    uid: str
    namespace: str
    name: str
    own_uid: bool = False
    """The manifest sets the UID, so that an edit does not change it."""
    source: str = SOURCE
    """file or http."""
    pending_resize: PendingResize | None = None
    """What the manifest asks for besides the resources that `pod` has, which this node grants."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A manifest that gives no pod, and everything that is wrong with it."""

    path: Place
    reason: str
    messages: tuple[str, ...]
    pod: str = ""
    """The namespace/name that the pod would have, if the manifest has a name."""

    @property
    def message(self) -> str:
        """All messages as one line."""
        return "; ".join(self.messages)


def place_static_pod(path: Place, pod: PodJson, placing: Placing) -> StaticPod:
    """Give a defaulted pod its UID, names, node and annotations; `pod` itself is not changed.

    A pod from a file gets a NoExecute toleration, which keeps it on a node with taints; one from a URL does not.
    """
    metadata, spec = dict(pod["metadata"]), dict(pod["spec"])
    node_name, source = placing.node_name, URL_SOURCE if placing.url else SOURCE
    origin = f"url:{placing.url}" if placing.url else f"host:{node_name}file:{path}"
    uid = metadata.get("uid") or static_pod_uid(pod, origin)
    metadata["uid"] = uid
    metadata["name"] = static_pod_name(metadata["name"], node_name)
    metadata["namespace"] = metadata.get("namespace") or DEFAULT_NAMESPACE
    metadata["annotations"] = dict(metadata.get("annotations") or {}) | {
        HASH_ANNOTATION: uid,
        SOURCE_ANNOTATION: source,
        SEEN_ANNOTATION: timestamp(placing.seen),
    }
    spec["nodeName"] = node_name
    if not placing.url:
        spec["tolerations"] = _with_no_execute(spec.get("tolerations") or [])
    placed = pod | {"metadata": metadata, "spec": spec}
    own_uid = bool(pod["metadata"].get("uid"))
    return StaticPod(path, placed, uid, metadata["namespace"], metadata["name"], own_uid, source)


def static_pod_name(name: str, node_name: str) -> str:
    """Append the node's name, which makes the name unique among nodes."""
    return f"{name}-{node_name.lower()}"


def static_pod_uid(pod: Mapping[str, Any], origin: str) -> str:
    """Hash pod and origin into 32 hex digits (FNV-128a over the pod, then `host:…file:…` or `url:…`)."""
    canonical = json.dumps(pod, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"{_fnv_128a(f'{canonical}{origin}'.encode()):032x}"


def _with_no_execute(tolerations: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add the toleration, or replace the same one with a time limit."""
    kept = [_NO_EXECUTE if _matches_no_execute(one) else one for one in tolerations]
    return kept if _NO_EXECUTE in kept else [*kept, _NO_EXECUTE]


def _matches_no_execute(toleration: Mapping[str, Any]) -> bool:
    fields = ("key", "operator", "value", "effect")
    return all((toleration.get(field) or "") == _NO_EXECUTE.get(field, "") for field in fields)


def timestamp(now: datetime) -> str:
    """Format RFC 3339 with nine digits, the kubelet's fixed width."""
    return f"{now.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}000Z"


def _fnv_128a(data: bytes) -> int:
    value = _FNV_OFFSET
    for byte in data:
        value = ((value ^ byte) * _FNV_PRIME) & _FNV_MASK
    return value
