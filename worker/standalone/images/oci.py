"""Builds an OCI image archive from a few files, without any image tool.

The layout is the image-spec's (oci-layout, index.json, blobs by digest) in one tar, which `ctr images import` reads.
Times and owners are zero, so the same files always give the same digests.
"""

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

LAYER: Final = "application/vnd.oci.image.layer.v1.tar"
CONFIG: Final = "application/vnd.oci.image.config.v1+json"
MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
INDEX: Final = "application/vnd.oci.image.index.v1+json"


@dataclass(frozen=True, slots=True)
class File:
    """A regular file of an image."""

    content: bytes
    mode: int = 0o644


@dataclass(frozen=True, slots=True)
class Link:
    """A symbolic link of an image."""

    target: str


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of an image."""

    mode: int = 0o755


@dataclass(frozen=True, slots=True)
class Image:
    """The content of an image and its configuration; `names` are full references (registry/repository:tag)."""

    names: Sequence[str]
    tree: Mapping[str, File | Link | Folder]
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The config object: Entrypoint, Cmd, Env, …"""
    architecture: str = "amd64"


def archive(image: Image) -> bytes:
    """Build the archive: one uncompressed layer, its config and manifest, and an index entry for each name."""
    layer = _layer(image.tree)
    config = _json(
        {
            "architecture": image.architecture,
            "os": "linux",
            "config": dict(image.settings),
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": _descriptor(CONFIG, config),
            "layers": [_descriptor(LAYER, layer)],
        }
    )
    named = [
        _descriptor(MANIFEST, manifest)
        | {"annotations": {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name}}
        for name in image.names
    ]
    files = {
        "oci-layout": _json({"imageLayoutVersion": "1.0.0"}),
        "index.json": _json({"schemaVersion": 2, "mediaType": INDEX, "manifests": named}),
        **{f"blobs/sha256/{_digest(blob).removeprefix('sha256:')}": blob for blob in (layer, config, manifest)},
    }
    return _layer({name: File(content) for name, content in files.items()})


def _layer(tree: Mapping[str, File | Link | Folder]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, entry in tree.items():
            info = tarfile.TarInfo(name)
            match entry:
                case File(content, mode):
                    info.size, info.mode = len(content), mode
                    tar.addfile(info, io.BytesIO(content))
                case Link(target):
                    info.type, info.linkname, info.mode = tarfile.SYMTYPE, target, 0o777
                    tar.addfile(info)
                case Folder(mode):
                    info.type, info.mode = tarfile.DIRTYPE, mode
                    tar.addfile(info)
    return buffer.getvalue()


def _descriptor(media_type: str, blob: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": _digest(blob), "size": len(blob)}


def _digest(blob: bytes) -> str:
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
