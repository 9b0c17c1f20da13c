"""Removes hook annotations from a pod of the API when the pod is read, unless the node allows them.

Whoever may patch a pod or its status may write them, and no admission of images or of the spec sees them. So they count
only if TempoletConfiguration says so (`hooks.allowedOnApiPods`), and none may name an image. A manifest with an invalid one
is refused. The API accepts any text, at creation and in an edit; one that the workflow cannot parse would block the pod
for ever.
"""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import structlog

from workflows.decide.manifest.hook_terms import is_hook_annotation

_MOST: Final = 200
"""Characters in the log: an error message repeats the annotation."""
_DISABLED: Final = "this node runs no hooks of pods of an API server: hooks.allowedOnApiPods is false"
_log: Final = structlog.get_logger(__name__)


def without_refused_hooks(pod: dict[str, Any], *, allowed: bool) -> dict[str, Any]:
    """Remove each hook annotation that this node does not obey, and log why."""
    metadata = pod["metadata"]
    annotations: Mapping[str, str] = metadata["annotations"]
    ours = {name: text for name, text in annotations.items() if is_hook_annotation(name)}
    refused = {name: why for name, text in ours.items() if (why := _faults(pod, name, text) if allowed else _DISABLED)}
    if not refused:
        return pod
    named = f"{metadata['namespace']}/{metadata['name']}"
    _tell(named, metadata["uid"], "; ".join(dict.fromkeys(refused.values()))[:_MOST])
    kept = {name: text for name, text in annotations.items() if name not in refused}
    return {**pod, "metadata": {**metadata, "annotations": kept}}


@lru_cache(maxsize=1024)
def _tell(pod: str, uid: str, why: str) -> None:
    """Log it once: a pod is read again with each change of its status."""
    _log.warning("ignoring hook annotations of a pod", pod=pod, podUID=uid, err=why)


def without_hooks(pod: dict[str, Any]) -> dict[str, Any]:
    """Remove every hook annotation."""
    metadata = pod["metadata"]
    kept = {name: text for name, text in metadata["annotations"].items() if not is_hook_annotation(name)}
    return {**pod, "metadata": {**metadata, "annotations": kept}}


def _faults(pod: dict[str, Any], name: str, text: str) -> str:
    from workflows.decide.manifest.validation.hook_annotations import validate_hook_annotations  # noqa: PLC0415 - needed only by such a pod

    only = {**pod, "metadata": {**pod["metadata"], "annotations": {name: text}}}
    faults = [*validate_hook_annotations(only)]
    if not faults and "image" in json.loads(text):
        return f"metadata.annotations[{name}].image: not allowed on a pod of an API server"
    return "; ".join(faults)
