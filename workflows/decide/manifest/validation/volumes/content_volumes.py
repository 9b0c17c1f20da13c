"""Rules about volumes whose files the node writes: configMap, secret, downwardAPI and projected.

Source: pkg/apis/core/validation/validation.go, validateConfigMapVolumeSource, validateSecretVolumeSource,
validateDownwardAPIVolumeSource, validateProjectedVolumeSource. As there, the paths of some errors leave out an index.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from workflows.decide.manifest.fields.descending_paths import descending
from workflows.decide.manifest.fields.field_errors import forbidden, invalid, required
from workflows.decide.manifest.validation.containers.environment import (
    validate_field_selector,
    validate_resource_selector,
)

Source = Mapping[str, Any]

_MODES: Final = range(0o1000)
_MODE_FAULT: Final = "must be a number between 0 and 0777 (octal), both inclusive"
_TOLD: Final = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
_CONFLICT: Final = "conflicting duplicate paths"


def config_map(source: Source, path: str) -> Iterator[str]:
    """Validate a configMap volume."""
    yield from _object(source, path, "name")


def secret(source: Source, path: str) -> Iterator[str]:
    """Validate a secret volume."""
    yield from _object(source, path, "secretName")


def downward_api(source: Source, path: str) -> Iterator[str]:
    """Validate a downwardAPI volume."""
    yield from _mode(source, "defaultMode", path)
    for file in source.get("items") or ():
        yield from _downward_file(file, path)


def projected(source: Source, path: str) -> Iterator[str]:
    """Validate a projected volume; no two sources may have the same path."""
    yield from _mode(source, "defaultMode", path)
    taken: set[str] = set()
    for index, projection in enumerate(source.get("sources") or ()):
        here = f"{path}.sources[{index}]"
        for kind in ("secret", "configMap"):
            if kind in projection:
                yield from _object_projection(projection[kind], f"{here}.{kind}", (path, taken))
        if "downwardAPI" in projection:
            for file in projection["downwardAPI"].get("items") or ():
                yield from _downward_file(file, f"{here}.downwardAPI")
                yield from _doubled(file, file.get("path"), (path, taken))
        if len(projection) > 1:
            yield forbidden(here, "may not specify more than 1 volume type per source")


def _object_projection(source: Source, path: str, taken: tuple[str, set[str]]) -> Iterator[str]:
    name = source.get("name")
    if not name:
        yield required(f"{path}.name")
    for index, item in enumerate(source.get("items") or ()):
        yield from _key_to_path(item, f"{path}.items[{index}]")
        yield from _doubled(item, name or "", taken)


def _doubled(item: Source, shown: Any, taken: tuple[str, set[str]]) -> Iterator[str]:
    volume, paths = taken
    if not (asked := item.get("path")):
        return
    if asked in paths:
        yield invalid(volume, shown, _CONFLICT)
    paths.add(asked)


def _object(source: Source, path: str, name: str) -> Iterator[str]:
    if not source.get(name):
        yield required(f"{path}.{name}")
    yield from _mode(source, "defaultMode", path)
    for index, item in enumerate(source.get("items") or ()):
        yield from _key_to_path(item, f"{path}.items[{index}]")


def _key_to_path(item: Source, path: str) -> Iterator[str]:
    for field in ("key", "path"):
        if not item.get(field):
            yield required(f"{path}.{field}")
    yield from _local_path(item.get("path", ""), f"{path}.path")
    yield from _mode(item, "mode", path)


def _downward_file(file: Source, path: str) -> Iterator[str]:
    if not file.get("path"):
        yield required(f"{path}.path")
    yield from _local_path(file.get("path", ""), f"{path}.path")
    if "fieldRef" in file:
        yield from validate_field_selector(file["fieldRef"], f"{path}.fieldRef", known=_TOLD)
        if "resourceFieldRef" in file:
            yield invalid(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
    elif "resourceFieldRef" in file:
        yield from validate_resource_selector(file["resourceFieldRef"], f"{path}.resourceFieldRef", of_volume=True)
    else:
        yield required(path, "one of fieldRef and resourceFieldRef is required")
    yield from _mode(file, "mode", path)


def _local_path(asked: str, path: str) -> Iterator[str]:
    """Require a path that stays inside the volume and is not reserved (ValidateLocalNonReservedPath)."""
    yield from descending(asked, path)
    if asked.startswith("..") and not asked.startswith("../"):
        yield invalid(path, asked, "must not start with '..'")


def _mode(source: Source, field: str, path: str) -> Iterator[str]:
    mode = source.get(field)
    if mode is not None and mode not in _MODES:
        yield invalid(f"{path}.{field}", mode, _MODE_FAULT)
