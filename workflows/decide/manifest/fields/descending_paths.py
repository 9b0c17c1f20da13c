"""Rules about paths that may lead only downward: a volumeMount's subPath and subPathExpr, a profile's, a file's in a volume.

Called by `volumes`, `content_volumes`, `environment` and `security`; source: pkg/apis/core/validation/validation.go,
validateLocalDescendingPath, validatePathNoBacksteps.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from workflows.decide.manifest.fields.field_errors import invalid


def sub_path(mount: Mapping[str, Any], mounts_path: str, path: str) -> Iterator[str]:
    """Judge which path of its volume a mount shows; like the API, faults of the path itself leave the mount's index out."""
    plain, expression = mount.get("subPath", ""), mount.get("subPathExpr", "")
    if plain:
        yield from descending(plain, f"{mounts_path}.subPath")
    if expression:
        if plain:
            yield invalid(f"{path}.subPathExpr", expression, "subPathExpr and subPath are mutually exclusive")
        yield from descending(expression, f"{mounts_path}.subPathExpr")


def descending(value: str, path: str) -> Iterator[str]:
    """Judge a path that is to stay below where it begins."""
    if value.startswith("/"):
        yield invalid(path, value, "must be a relative path")
    yield from without_backsteps(value, path)


def without_backsteps(value: str, path: str) -> Iterator[str]:
    """Judge a path that may not lead upward; one fault is enough to make the point."""
    if ".." in value.split("/"):
        yield invalid(path, value, "must not contain '..'")
