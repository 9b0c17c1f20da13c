"""Rules about paths that must not lead upward: a subPath, subPathExpr, a profile's, a file's in a volume.

Source: pkg/apis/core/validation/validation.go, validateLocalDescendingPath, validatePathNoBacksteps.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from workflows.decide.manifest.fields.field_errors import invalid


def sub_path(mount: Mapping[str, Any], mounts_path: str, path: str) -> Iterator[str]:
    """Validate a mount's subPath or subPathExpr; as in the API, errors of the path leave out the mount's index."""
    plain, expression = mount.get("subPath", ""), mount.get("subPathExpr", "")
    if plain:
        yield from descending(plain, f"{mounts_path}.subPath")
    if expression:
        if plain:
            yield invalid(f"{path}.subPathExpr", expression, "subPathExpr and subPath are mutually exclusive")
        yield from descending(expression, f"{mounts_path}.subPathExpr")


def descending(value: str, path: str) -> Iterator[str]:
    """Validate a relative path that must stay below its directory."""
    if value.startswith("/"):
        yield invalid(path, value, "must be a relative path")
    yield from without_backsteps(value, path)


def without_backsteps(value: str, path: str) -> Iterator[str]:
    """Validate a path that must not contain `..`; one error is enough."""
    if ".." in value.split("/"):
        yield invalid(path, value, "must not contain '..'")
