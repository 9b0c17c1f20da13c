"""Removes invalid hook annotations from a pod of the API when the pod is read.

A manifest with an invalid one is refused. The API accepts any text, at creation and in an edit, because it does not
know our annotations; one that the workflow cannot parse would block the pod for ever.
"""

from collections.abc import Mapping
from typing import Any, Final

import structlog

from workflows.decide.manifest.hook_terms import DOMAIN

_MOST: Final = 500
"""Characters in the log: an error message repeats the annotation."""
_log: Final = structlog.get_logger(__name__)


def without_faulty_hooks(pod: dict[str, Any]) -> dict[str, Any]:
    """Remove each of our annotations that would be refused in a manifest, and log why."""
    metadata = pod["metadata"]
    annotations: Mapping[str, str] = metadata["annotations"]
    ours = {name: text for name, text in annotations.items() if name.partition("/")[0].lower().endswith(f".{DOMAIN}")}
    faulty = {name: why for name, text in ours.items() if (why := _faults(pod, name, text))}
    if not faulty:
        return pod
    named = f"{metadata['namespace']}/{metadata['name']}"
    _log.warning(
        "ignoring invalid annotations of a pod",
        pod=named,
        podUID=metadata["uid"],
        err="; ".join(faulty.values())[:_MOST],
    )
    kept = {name: text for name, text in annotations.items() if name not in faulty}
    return {**pod, "metadata": {**metadata, "annotations": kept}}


def _faults(pod: dict[str, Any], name: str, text: str) -> str:
    from workflows.decide.manifest.validation.hook_annotations import validate_hook_annotations  # noqa: PLC0415 - needed only by such a pod

    only = {**pod, "metadata": {**pod["metadata"], "annotations": {name: text}}}
    return "; ".join(validate_hook_annotations(only))
