"""The kubelet's metrics of pods and containers, computed from the snapshots that workflows publish."""

import time
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from activities.probes.result_counts import ProbeResultCounts
from proto.kubernetes.admission import REJECTED_PREFIX
from proto.kubernetes.api_time import read_api_time
from proto.kubernetes.source_annotations import SEEN_ANNOTATION
from proto.pod_snapshot import PodSnapshot, is_counted, is_over
from proto.temporal.names import API_SOURCE
from proto.temporal.pod import Lifecycle
from proto.temporal.resources import RESIZE_IN_PROGRESS, RESIZE_PENDING
from worker.host.pod_cache import PodCache
from worker.host.pod_starts import PodStarts, Span
from worker.telemetry.kubelet.pods import KnownPod
from worker.telemetry.kubelet.steps import EPHEMERAL, INIT, REGULAR
from worker.telemetry.metrics import Metrics
from worker.telemetry.probe_metrics import probe_text

STATES: Final = ("created", "running", "exited", "unknown")  # kubelet_running_containers' values of container_state
RUNNING: Final = "Running"
REMEMBERED: Final = 2000
"""Pods that are over, whose UIDs may come back."""
_STATUSES: Final = {
    "initContainerStatuses": INIT,
    "containerStatuses": REGULAR,
    "ephemeralContainerStatuses": EPHEMERAL,
}
_TYPES: Final = {"initContainers": INIT, "containers": REGULAR, "ephemeralContainers": EPHEMERAL}


class PodMetrics:
    """Receives each snapshot before the cache."""

    def __init__(self, cache: PodCache, metrics: Metrics) -> None:
        self._cache, self._metrics = cache, metrics
        self._pending_since: dict[str, float] = {}
        """By UID; a pod that was pending before this process started is not measured, because its start is not known.
        """
        known = cache.snapshots()
        self._met = {one.uid for one in known}
        self._ends = {one.uid: frozenset(_ends(one.status)) for one in known}
        """By UID: the instances of containers whose end is counted."""
        self._rejected = {one.uid for one in known if _rejection(one)}
        self._over: OrderedDict[str, None] = OrderedDict()
        self._going_since: dict[str, float] = {}
        self._probes: ProbeResultCounts | None = None
        self._starts = PodStarts()
        metrics.on_read(self._count)

    def publish(self, snapshot: PodSnapshot) -> None:
        """Pass a snapshot on; record the pod's start-up time when it first runs."""
        uid = snapshot.uid
        if snapshot.lifecycle == Lifecycle.TERMINATED:
            self._met.discard(uid)
            self._pending_since.pop(uid, None)
            if self._probes is not None and is_over(snapshot):
                self._probes.forget(uid)
            if since := self._going_since.pop(uid, None):
                self._metrics.pod_ended(time.monotonic() - since)
        elif snapshot.lifecycle == Lifecycle.TERMINATING:
            self._going_since.setdefault(uid, time.monotonic())
        elif uid not in self._met:
            self._met.add(uid)
            self._pending_since[uid] = time.monotonic()
            self._meet(snapshot)
        if snapshot.phase == RUNNING and uid in self._pending_since:
            self._metrics.pod_started(time.monotonic() - self._pending_since.pop(uid))
        self._look(snapshot)
        self._cache.publish(snapshot)

    def show_probes(self, tallies: ProbeResultCounts) -> None:
        """Add the probe metrics of the present pods; those of a pod that is gone are dropped."""
        self._probes = tallies
        self._metrics.on_probes_read(lambda: probe_text(tallies, {one.uid for one in self._cache.snapshots()}))

    def type_of(self, uid: str, name: str) -> str:
        """Return the type of a container by its pod and its name."""
        return self._type(uid, "name", name)

    def type_with(self, uid: str, image: str) -> str:
        """Return the type of the first container of a pod that has an image, which is the one that waits for it."""
        return self._type(uid, "image", image)

    def pulled(self, uid: str, span: Span) -> None:
        """Note when an image was pulled for a pod."""
        self._starts.pulled(uid, span)

    def resized(self, uid: str, span: Span, *, failed: bool) -> None:
        """Note a step of a pod's resize."""
        self._metrics.resizes.step(uid, span, failed=failed)

    def _type(self, uid: str, field: str, value: str) -> str:
        found = self._cache.snapshot(uid)
        spec: Mapping[str, Any] = (found.pod.get("spec") or {}) if found else {}
        return next(
            (kind for key, kind in _TYPES.items() for one in spec.get(key) or () if one.get(field) == value), REGULAR
        )

    def _meet(self, snapshot: PodSnapshot) -> None:
        """Count a pod that is new, or has come back."""
        if self._over.pop(snapshot.uid, self) is None:
            self._metrics.pods.restarted(static=snapshot.source != API_SOURCE)
        self._starts.follow(snapshot)
        if snapshot.pod:
            seen = (snapshot.pod["metadata"].get("annotations") or {}).get(SEEN_ANNOTATION)
            self._metrics.pods.met(len(snapshot.pod["spec"].get("containers") or ()), _seconds_since(seen))

    def _look(self, snapshot: PodSnapshot) -> None:
        """Count what has happened to a pod since its last snapshot."""
        uid, counts = snapshot.uid, self._metrics.pods
        ends = _ends(snapshot.status)
        for instance in ends.keys() - self._ends.get(uid, frozenset()):
            counts.terminated(*ends[instance])
        if (reason := _rejection(snapshot)) and uid not in self._rejected:
            self._rejected.add(uid)
            counts.rejected(reason)
        if start := self._starts.started(snapshot, datetime.now(UTC)):
            counts.started(start)
        self._ends[uid] = frozenset(ends)
        if snapshot.lifecycle != Lifecycle.SYNC:
            self._metrics.resizes.forget(uid)
        elif RESIZE_IN_PROGRESS not in _conditions(snapshot):
            self._metrics.resizes.ended(uid)
        if is_over(snapshot):
            self._ends.pop(uid)
            self._rejected.discard(uid)
            self._starts.forget(uid)
            self._over[uid] = None
            while len(self._over) > REMEMBERED:
                self._over.popitem(last=False)

    def _count(self) -> None:
        snapshots = self._cache.snapshots()
        ephemeral = sum(len(one.status.get("ephemeralContainerStatuses", ())) for one in snapshots)
        self._metrics.running(*running(snapshots), ephemeral)
        self._metrics.pods.present(known_pods(snapshots))


def running(snapshots: Iterable[PodSnapshot]) -> tuple[int, dict[str, int]]:
    """Count pods with a ready sandbox, and containers by the kubelet's states."""
    pods, states = 0, Counter(dict.fromkeys(STATES, 0))
    for snapshot in snapshots:
        pods += snapshot.sandbox_ready
        states.update(
            one.state.removeprefix("CONTAINER_").lower() for one in snapshot.containers.values() if one.container_id
        )
    return pods, dict(states)


def known_pods(snapshots: Iterable[PodSnapshot]) -> Iterator[KnownPod]:
    """Return the pods as they are counted; the API lists a pod until it is over, a manifest only until it is removed."""
    for one in snapshots:
        static = one.source != API_SOURCE
        conditions = _conditions(one)
        yield KnownPod(
            static,
            Lifecycle(one.lifecycle),
            desired=not (static and one.deleting),
            active=is_counted(one),
            resize_pending=conditions.get(RESIZE_PENDING, "").lower(),
            resizes=RESIZE_IN_PROGRESS in conditions,
        )


def _conditions(snapshot: PodSnapshot) -> dict[str, str]:
    """Return the reasons of a pod's conditions, by their types."""
    return {str(one.get("type")): one.get("reason") or "" for one in snapshot.status.get("conditions") or ()}


def _ends(status: Mapping[str, Any]) -> dict[str, tuple[str, int, str]]:
    """Return the ends that a status shows, by the container's instance: its type, exit code and reason."""
    found = {}
    for field, kind in _STATUSES.items():
        for one in status.get(field) or ():
            for state in ("lastState", "state"):
                if ended := (one.get(state) or {}).get("terminated"):
                    instance = ended.get("containerID") or f"{one['name']}/{state}"
                    found[instance] = (kind, int(ended.get("exitCode") or 0), str(ended.get("reason") or ""))
    return found


def _rejection(snapshot: PodSnapshot) -> str:
    """Return why a pod was not admitted; empty if it was."""
    is_rejected = str(snapshot.status.get("message") or "").startswith(REJECTED_PREFIX)
    return str(snapshot.status.get("reason") or "") if is_rejected else ""


def _seconds_since(text: Any) -> float | None:
    at = read_api_time(text)
    return max(0.0, (datetime.now(UTC) - at).total_seconds()) if at and at.tzinfo else None
