"""The events of a pod's status: back-offs, pods that this node has ended or rejected, resizes.

Used by `pod_events` with each snapshot. Each event has a key and is recorded again only after its key was absent. The end of a
resize is an event too.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from proto.kubernetes.admission import REJECTED_PREFIX
from proto.pod_snapshot import PodSnapshot
from proto.temporal import resources
from proto.temporal.pod import Lifecycle
from worker.events.activity_table import Subject
from worker.events.event import NORMAL, WARNING, Occurrence

FAILED: Final = "Failed"
_ENDED: Final = ("Succeeded", FAILED)
_OWN_LIMIT: Final = "DeadlineExceeded"
_RESIZE_STARTED: Final = "resize/started/"
_STATUSES: Final = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")

Keyed = tuple[str, Occurrence]


def status_occurrences(snapshot: PodSnapshot, subject: Subject) -> Iterator[Keyed]:
    """Yield the events of a snapshot with their keys."""
    for field in _STATUSES:
        for status in snapshot.status.get(field) or ():
            yield from _backing_off(snapshot, subject, status)
    reason, message = snapshot.eviction_reason, snapshot.eviction_message
    if not reason and snapshot.status.get("phase") == FAILED:  # an eviction is told when it begins: its pod may succeed
        reason, message = snapshot.status.get("reason") or "", str(snapshot.status.get("message") or "")
    if reason:
        kind = NORMAL if reason == _OWN_LIMIT else WARNING
        message = message.removeprefix(REJECTED_PREFIX)
        yield f"ended/{reason}", Occurrence(subject.pod, kind, reason, message, snapshot.event_annotations)
    for condition in snapshot.status.get("conditions") or ():
        yield from _resizing(snapshot, subject, condition)


def ended_occurrences(
    before: Iterable[str], now: Iterable[str], snapshot: PodSnapshot, subject: Subject
) -> Iterator[Occurrence]:
    """Yield events for keys that are absent now: a resize has completed, unless another one or the pod's end replaced it."""
    goes_on = snapshot.lifecycle == Lifecycle.SYNC and snapshot.status.get("phase") not in _ENDED
    if not goes_on or any(key.startswith(_RESIZE_STARTED) for key in now):
        return
    for key in before:
        if key.startswith(_RESIZE_STARTED):
            message = _resize_message(subject, "completed", int(key.removeprefix(_RESIZE_STARTED)))
            yield Occurrence(subject.pod, NORMAL, "ResizeCompleted", message)


def _backing_off(snapshot: PodSnapshot, subject: Subject, status: Mapping[str, Any]) -> Iterator[Keyed]:
    waiting = (status.get("state") or {}).get("waiting") or {}
    name = str(status["name"])
    match waiting.get("reason"):
        case "CrashLoopBackOff":
            pod = f"{snapshot.name}_{snapshot.namespace}({snapshot.uid})"
            message = f"Back-off restarting failed container {name} in pod {pod}"
            key = f"crash/{name}/{status.get('restartCount', 0)}"
            yield key, Occurrence(subject.container(name), WARNING, "BackOff", message)
        case "ImagePullBackOff":
            key, about = f"pull/{name}/{waiting.get('message', '')}", subject.container(name)
            image = str(waiting.get("message") or "").partition(": ")[0]
            yield key, Occurrence(about, NORMAL, "BackOff", image)
            yield f"{key}/error", Occurrence(about, WARNING, "Failed", "Error: ImagePullBackOff")


def _resizing(snapshot: PodSnapshot, subject: Subject, condition: Mapping[str, Any]) -> Iterator[Keyed]:
    generation, message = condition.get("observedGeneration", 0), str(condition.get("message") or "")
    match condition.get("type"), condition.get("reason"):
        case resources.RESIZE_PENDING, ("Deferred" | "Infeasible") as why:
            asked, cause = snapshot.resize_asked, snapshot.resize_cause
            text = _resize_message(subject, cause, generation, error=message, asked=asked) if cause else message
            yield f"resize/{generation}/{why}", Occurrence(subject.pod, WARNING, f"Resize{why}", text)
        case resources.RESIZE_IN_PROGRESS, why:
            message_text = _resize_message(subject, "started", generation)
            yield f"{_RESIZE_STARTED}{generation}", Occurrence(subject.pod, NORMAL, "ResizeStarted", message_text)
            if why == "Error":
                message_text = _resize_message(subject, "error", generation, error=message)
                yield f"resize/{generation}/Error", Occurrence(subject.pod, WARNING, "ResizeError", message_text)


def _resize_message(
    subject: Subject, what: str, generation: int, *, error: str = "", asked: Mapping[str, Any] | None = None
) -> str:
    """Return a resize message with the containers' resources in JSON (pkg/kubelet/events/resize.go).

    `asked`: other resources than the spec's, by container.
    """
    content: dict[str, Any] = {}
    for kind in ("initContainers", "containers"):
        if found := subject.spec.get(kind):
            amounts = {one["name"]: one.get("resources") or {} for one in found} | dict(asked or {})
            content[kind] = [{"name": one["name"], "resources": _sorted(amounts[one["name"]])} for one in found]
    content["generation"] = generation
    if error:
        content["error"] = error
    return f"Pod resize {what}: {json.dumps(content, separators=(',', ':'))}"


def _sorted(resources: Mapping[str, Any]) -> dict[str, Any]:
    """Sort it in the order in which Go writes it."""
    return {kind: dict(sorted(resources[kind].items())) for kind in ("limits", "requests") if resources.get(kind)}
