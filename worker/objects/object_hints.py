"""Which pods are to be notified that an object they mount has another version.

Pure; used by `poller/object_watch.py` for a folder and by `api_objects/change_signals.py` for an API server.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from proto.pod_snapshot import PodSnapshot
from proto.temporal.mounted import IMMUTABLE, UNKNOWN

Versions = Mapping[tuple[str, str], str]
"""(namespace, `<plural>/<name>`) -> version."""
LastNotified = dict[tuple[str, str], str]
"""(workflow id, `<plural>/<name>`) -> the version that the pod was last notified of."""


@dataclass(frozen=True, slots=True)
class Hint:
    """A hint for one pod."""

    workflow_id: str
    versions: dict[str, str]


def object_hints(
    pods: Iterable[PodSnapshot], versions: Versions, notified: LastNotified, previous: Versions | None
) -> tuple[list[Hint], LastNotified]:
    """Return the hints for pods, and the part of `notified` that is still needed.

    A pod that waits for an object (it is being mounted, or could not be) gets a hint when the object has changed since the
    `previous` listing, not when it is first seen: mounting reads it anyway.
    """
    hints: list[Hint] = []
    kept: LastNotified = {}
    for pod in pods:
        changed: dict[str, str] = {}
        for name, shown in pod.objects.items():
            now = versions.get((pod.namespace, name), "")
            before = notified.get((pod.workflow_id, name))
            if shown.startswith(IMMUTABLE) or shown == now:
                continue
            if before is None and shown == UNKNOWN:
                before = now if previous is None else previous.get((pod.namespace, name), "")
            if before != now:
                changed[name] = now
            if before is not None:
                kept[pod.workflow_id, name] = before
        if changed and not pod.deleting:
            hints.append(Hint(pod.workflow_id, changed))
    return hints, kept
