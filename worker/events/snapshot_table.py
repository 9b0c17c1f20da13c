"""What a pod's status tells in events by itself: back-offs, and that this node has ended the pod or not taken it.

Asked by `pod_events` with each snapshot; each answer has a key, and what was told under it is not told again until it was over.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from proto.kubernetes.admission import REJECTED_PREFIX
from proto.pod_snapshot import PodSnapshot
from worker.events.activity_table import Subject
from worker.events.event import NORMAL, WARNING, Happened

FAILED: Final = "Failed"
_OWN_LIMIT: Final = "DeadlineExceeded"
_STATUSES: Final = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")

Keyed = tuple[str, Happened]


def told_by(snapshot: PodSnapshot, subject: Subject) -> Iterator[Keyed]:
    """Say what a snapshot tells, each with its key."""
    for field in _STATUSES:
        for status in snapshot.status.get(field) or ():
            yield from _backing_off(snapshot, subject, status)
    if snapshot.status.get("phase") == FAILED and (reason := snapshot.status.get("reason")):
        kind = NORMAL if reason == _OWN_LIMIT else WARNING
        message = str(snapshot.status.get("message") or "").removeprefix(REJECTED_PREFIX)
        yield f"ended/{reason}", Happened(subject.pod, kind, reason, message)
    for condition in snapshot.status.get("conditions") or ():
        yield from _resizing(subject, condition)


def _backing_off(snapshot: PodSnapshot, subject: Subject, status: Mapping[str, Any]) -> Iterator[Keyed]:
    waiting = (status.get("state") or {}).get("waiting") or {}
    name = str(status["name"])
    match waiting.get("reason"):
        case "CrashLoopBackOff":
            pod = f"{snapshot.name}_{snapshot.namespace}({snapshot.uid})"
            message = f"Back-off restarting failed container {name} in pod {pod}"
            key = f"crash/{name}/{status.get('restartCount', 0)}"
            yield key, Happened(subject.container(name), WARNING, "BackOff", message)
        case "ImagePullBackOff":
            key, about = f"pull/{name}/{waiting.get('message', '')}", subject.container(name)
            image = str(waiting.get("message") or "").partition(": ")[0]
            yield key, Happened(about, NORMAL, "BackOff", image)
            yield f"{key}/error", Happened(about, WARNING, "Failed", "Error: ImagePullBackOff")


def _resizing(subject: Subject, condition: Mapping[str, Any]) -> Iterator[Keyed]:
    generation, message = condition.get("observedGeneration", 0), str(condition.get("message") or "")
    match condition.get("type"), condition.get("reason"):
        case "PodResizePending", ("Deferred" | "Infeasible") as why:
            yield f"resize/{generation}/{why}", Happened(subject.pod, WARNING, f"Resize{why}", message)
        case "PodResizeInProgress", "Error":
            yield f"resize/{generation}/Error", Happened(subject.pod, WARNING, "ResizeError", message)
