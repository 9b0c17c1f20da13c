"""Which pods are to be told that an object they show has another version: versions compared with what snapshots say.

Pure; asked wherever objects are kept: by `poller.objects` for a folder, by `api_objects.telling` for an API server.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from proto.pod_snapshot import PodSnapshot
from proto.temporal.mounted import IMMUTABLE, UNKNOWN

Versions = Mapping[tuple[str, str], str]
"""(namespace, `<plural>/<name>`) -> version."""
LastNotified = dict[tuple[str, str], str]
"""(workflow id, `<plural>/<name>`) -> the version that the pod was last told of."""


@dataclass(frozen=True, slots=True)
class Hint:
    """What a pod is to be told."""

    workflow_id: str
    versions: dict[str, str]


def object_hints(
    pods: Iterable[PodSnapshot], versions: Versions, told: LastNotified, previous: Versions | None
) -> tuple[list[Hint], LastNotified]:
    """Say which pods are to be told what, and what of `told` still matters.

    What a pod wants and does not show yet (it is being mounted, or could not be) is told when it has changed since the
    `previous` listing, not when it is first seen: whoever mounts it reads it anyway.
    """
    hints: list[Hint] = []
    kept: LastNotified = {}
    for pod in pods:
        changed: dict[str, str] = {}
        for name, shown in pod.objects.items():
            now = versions.get((pod.namespace, name), "")
            before = told.get((pod.workflow_id, name))
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
