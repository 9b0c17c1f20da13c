"""How long the starts of pods took, by the definition of the pod startup latency SLI (pkg/kubelet/util/pod_startup_latency_tracker.go).

Fed by `pod_metrics` with snapshots, and with the image pulls of pods. Only pods of the API count that this process has seen before they
ran. A kubelet takes the time when the API shows it that all containers run; here it is when the pod's workflow says so.
"""

import threading
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from proto.kubernetes.api_time import read_api_time
from proto.pod_snapshot import FINAL_PHASES, PodSnapshot
from proto.temporal.names import API_SOURCE
from worker.telemetry.kubelet.pods import Start

STATELESS: Final = frozenset({"secret", "configMap", "downwardAPI", "emptyDir", "projected"})
Span = tuple[datetime, datetime]


class PodStarts:
    """The pods that have not started yet; may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pulls: dict[str, list[Span]] = {}
        """By the UID of a pod that is followed."""

    def follow(self, snapshot: PodSnapshot) -> None:
        """Follow a pod that is new."""
        if snapshot.source == API_SOURCE and snapshot.phase not in FINAL_PHASES:
            with self._lock:
                self._pulls.setdefault(snapshot.uid, [])

    def pulled(self, uid: str, span: Span) -> None:
        """Note when an image was pulled for a pod."""
        with self._lock:
            if uid in self._pulls:
                self._pulls[uid].append(span)

    def forget(self, uid: str) -> None:
        """Follow a pod no longer."""
        with self._lock:
            self._pulls.pop(uid, None)

    def started(self, snapshot: PodSnapshot, now: datetime) -> Start | None:
        """Return how long a followed pod's start took, once, when all its containers run."""
        if snapshot.uid not in self._pulls:
            return None
        if snapshot.phase in FINAL_PHASES:
            self.forget(snapshot.uid)
            return None
        created = _time(snapshot.pod["metadata"].get("creationTimestamp")) if snapshot.pod else None
        if created is None or not _all_run(snapshot.status):
            return None
        with self._lock:
            pulls = self._pulls.pop(snapshot.uid, None)
        if pulls is None:
            return None
        total, spec = (now - created).total_seconds(), snapshot.pod["spec"]
        apart = pull_seconds(pulls) + _init_seconds(snapshot.status)
        return Start(total, total - apart, is_stateful(spec), bool(spec.get("hostNetwork")))


def pull_seconds(spans: Iterable[Span]) -> float:
    """Return how long images were pulled, counting what overlaps once (calculateImagePullingTime)."""
    seconds, until = 0.0, datetime.min.replace(tzinfo=UTC)
    for begin, end in sorted(spans):
        if end > until:
            seconds += (end - max(begin, until)).total_seconds()
            until = end
    return seconds


def is_stateful(spec: Mapping[str, Any]) -> bool:
    """Report whether a pod has volumes other than those that come with it."""
    return any(
        not STATELESS & {key for key, one in volume.items() if one is not None} for volume in spec.get("volumes") or ()
    )


def _all_run(status: Mapping[str, Any]) -> bool:
    """Report whether every container has been started and runs (hasPodStartedSLO)."""
    found = status.get("containerStatuses") or ()
    return bool(found) and all(((one.get("state") or {}).get("running") or {}).get("startedAt") for one in found)


def _init_seconds(status: Mapping[str, Any]) -> float:
    return sum(_ended_spans(status.get("initContainerStatuses") or ()))


def _ended_spans(statuses: Iterable[Mapping[str, Any]]) -> Iterator[float]:
    for one in statuses:
        ended = (one.get("state") or {}).get("terminated") or {}
        begin, end = _time(ended.get("startedAt")), _time(ended.get("finishedAt"))
        if begin and end and end > begin:
            yield (end - begin).total_seconds()


def _time(text: Any) -> datetime | None:
    found = read_api_time(text)
    return found if found and found.tzinfo else None
