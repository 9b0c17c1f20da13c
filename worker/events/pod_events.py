"""Records the events of pods: from activities as they begin and end, from snapshots and from probes.

Created by a cluster's worker and called from any thread; it never blocks. The events themselves are in the tables
(`activity_table`, `snapshot_table`). This module provides the pod's data to them and remembers what was recorded.
"""

import json
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from activities.network.resolver import wants_cluster_dns
from proto.pod_snapshot import PodSnapshot, is_over, pod_path
from proto.temporal.activities.requests import (
    PullImage,
    RemovePodDirectories,
    RunHook,
    RunPodSandbox,
    StartContainer,
    StopContainer,
)
from proto.temporal.hardware.ledger import AllocateHardware
from proto.temporal.pod import PodKey, ProbeKind
from worker.events.activity_table import TABLE, WAITING_REASONS, Fault, Row, Subject, missing_cluster_dns
from worker.events.event import NORMAL, WARNING, ObjectReference, Occurrence
from worker.events.recorder import EventRecorder
from worker.events.snapshot_table import ended_occurrences, status_occurrences

REMEMBERED: Final = 2000
"""Pulls and stops that were recorded; each is looked up again soon afterwards."""


class PodEvents:
    """The events of this node's pods."""

    def __init__(
        self,
        recorder: EventRecorder,
        root_dir: Path,
        *,
        checks_rights: bool,
        without_dns: ObjectReference | None = None,
    ) -> None:
        """`checks_rights`: images are only for pods that may pull them (the gate KubeletEnsureSecretPulledImages).

        `without_dns`: the node, if it has no cluster DNS configured; otherwise None.
        """
        self.recorder, self._root_dir, self._without_dns = recorder, root_dir, without_dns
        self._present = " and can be accessed by the pod" if checks_rights else ""
        self._specs: dict[str, Mapping[str, Any]] = {}
        self._recorded: dict[str, frozenset[str]] = {}
        self._once: OrderedDict[str, None] = OrderedDict()

    def know(self, snapshots: Iterable[PodSnapshot]) -> None:
        """Take the snapshots of an earlier worker, whose events are not recorded again."""
        for one in snapshots:
            if one.pod:  # already read from disk, with its snapshot
                self._specs[one.uid] = one.pod.get("spec") or {}
            self._recorded[one.uid] = frozenset(key for key, _ in status_occurrences(one, self._subject_of(one)))

    def publish(self, snapshot: PodSnapshot) -> None:
        """Record the events of a snapshot; returns at once."""
        if is_over(snapshot):
            self._recorded.pop(snapshot.uid, None)
            self._specs.pop(snapshot.uid, None)
            return
        if snapshot.pod:
            self._specs[snapshot.uid] = snapshot.pod.get("spec") or {}
        subject = self._subject_of(snapshot)
        found = dict(status_occurrences(snapshot, subject))
        before = self._recorded.get(snapshot.uid, frozenset())
        self._recorded[snapshot.uid] = frozenset(found)
        self._take(ended_occurrences(before - found.keys(), found, snapshot, subject))
        self._take(happened for key, happened in found.items() if key not in before)

    def began(self, request: Any) -> None:
        """Record that an activity begins; called for the first attempt only."""
        if (found_row := self._row(request)) is None:
            return
        row, subject = found_row
        if isinstance(request, StartContainer):
            self._record_present(subject, request)
        if isinstance(request, RunPodSandbox) and self._without_dns and wants_cluster_dns(request.sandbox_spec):
            self._take(missing_cluster_dns(subject, self._without_dns))
        found = list(row.began(subject, request))
        if found and isinstance(request, StopContainer | RunHook) and not self._first(f"stop/{request.container_id}"):
            return
        self._take(found)

    def done(self, request: Any, answer: Any) -> None:
        """Record an activity's result."""
        if isinstance(request, RemovePodDirectories):
            self._specs.pop(request.pod.uid, None)
        if (found_row := self._row(request)) is not None:
            row, subject = found_row
            if isinstance(request, PullImage) and not answer.present:
                self._remember(_pull_key(request.pod, subject.name_with(request.image)))
            self._take(row.done(subject, request, answer))

    def failed(self, request: Any, reason: str, message: str) -> None:
        """Record why an activity failed."""
        if reason not in WAITING_REASONS and (found_row := self._row(request)) is not None:
            row, subject = found_row
            self._take(row.failed(subject, request, Fault(reason, message)))

    def pull_started(self, request: PullImage) -> None:
        """Record that an image is being pulled; pulls for the node itself have no event."""
        if request.pod.uid:
            about = self._subject(request.pod).first_with(request.image)
            self.recorder.take(Occurrence(about, NORMAL, "Pulling", f'Pulling image "{request.image}"'))

    def probed(self, pod: PodKey, container: str, kind: ProbeKind, message: str) -> None:
        """Record a probe's failure; `message` is the result in the kubelet's words, without the probe's kind."""
        subject = self._subject(pod)
        reason = "ProbeWarning" if message.startswith("probe warning") else "Unhealthy"
        about = subject.container(container)
        self.recorder.take(Occurrence(about, WARNING, reason, f"{kind.value.capitalize()} {message}"))

    def _row(self, request: Any) -> tuple[Row, Subject] | None:
        row = TABLE.get(type(request))
        return (row, self._subject(_pod_of(request))) if row else None

    def _subject(self, pod: PodKey) -> Subject:
        return Subject(ObjectReference("Pod", pod.name, pod.uid, pod.namespace), self._spec(pod.uid))

    def _subject_of(self, snapshot: PodSnapshot) -> Subject:
        return self._subject(PodKey(snapshot.namespace, snapshot.name, snapshot.uid))

    def _spec(self, uid: str) -> Mapping[str, Any]:
        """Return a pod's spec; for one without a snapshot since this worker began, from the cache on disk."""
        if uid not in self._specs:
            try:
                self._specs[uid] = json.loads(pod_path(self._root_dir, uid).read_bytes())["spec"]
            except (OSError, ValueError, KeyError):
                return {}
        return self._specs[uid]

    def _record_present(self, subject: Subject, request: StartContainer) -> None:
        """Record that a container's image was present, unless it was just pulled for it."""
        name = str(request.container["name"])
        if (key := _pull_key(request.pod, name)) in self._once:
            del self._once[key]
        else:
            message = f'Container image "{request.container["image"]}" already present on machine{self._present}'
            self.recorder.take(Occurrence(subject.container(name), NORMAL, "Pulled", message))

    def _first(self, key: str) -> bool:
        """Report whether a container's stop was not recorded yet: its preStop hook runs first and may have done so."""
        if key in self._once:
            return False
        self._remember(key)
        return True

    def _remember(self, key: str) -> None:
        self._once[key] = None
        while len(self._once) > REMEMBERED:
            self._once.popitem(last=False)

    def _take(self, found: Iterable[Occurrence]) -> None:
        for one in found:
            self.recorder.take(one)


def _pod_of(request: Any) -> PodKey:
    if isinstance(request, AllocateHardware):
        metadata = request.pod["metadata"]
        return PodKey(metadata["namespace"], metadata["name"], metadata["uid"])
    pod: PodKey = request.pod
    return pod


def _pull_key(pod: PodKey, container: str) -> str:
    return f"pull/{pod.uid}/{container}"
