"""Hook annotations of a pod of the API: those that say nothing usable are left out, where its pod is read.

A manifest with such a one is refused. The API takes any text, at a pod's start and in an edit of one that runs, and knows nothing
of our annotations; what the pod's workflow could not read would hold it up for ever.
"""

from collections.abc import Mapping
from typing import Any, Final

import structlog

from workflows.decide.manifest.hook_terms import DOMAIN

_MOST: Final = 500
"""Characters in the log: a fault repeats the annotation."""
_log: Final = structlog.get_logger(__name__)


def without_faulty_hooks(pod: dict[str, Any]) -> dict[str, Any]:
    """Leave out each annotation of ours that a manifest could not have, and log why."""
    metadata = pod["metadata"]
    annotations: Mapping[str, str] = metadata["annotations"]
    ours = {name: text for name, text in annotations.items() if name.partition("/")[0].lower().endswith(f".{DOMAIN}")}
    faulty = {name: why for name, text in ours.items() if (why := _faults(pod, name, text))}
    if not faulty:
        return pod
    named = f"{metadata['namespace']}/{metadata['name']}"
    _log.warning(
        "annotations of a pod are passed over",
        pod=named,
        podUID=metadata["uid"],
        err="; ".join(faulty.values())[:_MOST],
    )
    kept = {name: text for name, text in annotations.items() if name not in faulty}
    return {**pod, "metadata": {**metadata, "annotations": kept}}


def _faults(pod: dict[str, Any], name: str, text: str) -> str:
    from workflows.decide.manifest.validation.hook_annotations import validate_hook_annotations  # noqa: PLC0415 - only a pod that has one needs it

    only = {**pod, "metadata": {**pod["metadata"], "annotations": {name: text}}}
    return "; ".join(validate_hook_annotations(only))
