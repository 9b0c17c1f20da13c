"""Defaults of volumes whose files the node writes (pkg/apis/core/v1/defaults.go)."""

from typing import Any, Final

MODE: Final = 0o644
"""The default mode of a file."""
_WITH_MODE: Final = ("configMap", "secret", "downwardAPI", "projected")


def default_contents(kind: str, source: Any) -> Any:
    """Apply the defaults to a volume of such a type; any other stays as it is."""
    if kind not in _WITH_MODE:
        return source
    filled = {"defaultMode": MODE} | source
    if kind == "downwardAPI":
        return _with_versions(filled)
    if kind == "projected" and "sources" in filled:
        filled["sources"] = [_projection(one) for one in filled["sources"]]
    return filled


def _projection(projection: dict[str, Any]) -> dict[str, Any]:
    source = projection.get("downwardAPI")
    return {**projection, "downwardAPI": _with_versions(source)} if source else projection


def _with_versions(source: dict[str, Any]) -> dict[str, Any]:
    """Set the API version of each field reference (SetDefaults_ObjectFieldSelector)."""
    if "items" not in source:
        return source
    return {**source, "items": [_with_version(one) for one in source["items"]]}


def _with_version(file: dict[str, Any]) -> dict[str, Any]:
    field = file.get("fieldRef")
    if field is None or field.get("apiVersion"):
        return file
    return {**file, "fieldRef": {**field, "apiVersion": "v1"}}
