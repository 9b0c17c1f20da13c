"""Turns what happens to pods in the worker into events: activities as they begin and end, snapshots, probes.

Made by the worker of a node of a cluster and called from wherever something happens, from any thread; nothing here waits. What is to be
said is in the tables (`activity_table`, `snapshot_table`); here is what the tables must be told about the pod, and what was said already.
"""

import json
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from activities.network.resolver import wants_cluster_dns
from proto.pod_snapshot import PodSnapshot, pod_path
from proto.temporal.pod import PodKey, ProbeKind
from proto.temporal.requests import (
    PullImage,
    RemovePodDirectories,
    RunHook,
    RunPodSandbox,
    StartContainer,
    StopContainer,
)
from worker.events.activity_table import HELD_UP, TABLE, Fault, Row, Subject, missing_cluster_dns
from worker.events.event import NORMAL, WARNING, About, Happened
from worker.events.recorder import EventRecorder
from worker.events.snapshot_table import told_by, told_by_end
from worker.host.pod_cache import is_over

REMEMBERED: Final = 2000
"""Pulls and stops that were told; each is asked about once more, soon afterwards."""


class PodEvents:
    """The events of this node's pods."""

    def __init__(
        self, recorder: EventRecorder, root_dir: Path, *, checks_rights: bool, without_dns: About | None = None
    ) -> None:
        """`checks_rights`: images are only for those that may pull them (the gate KubeletEnsureSecretPulledImages).

        `without_dns` is the node where it was told no name servers of the cluster, and None where it was.
        """
        self.recorder, self._root_dir, self._without_dns = recorder, root_dir, without_dns
        self._present = " and can be accessed by the pod" if checks_rights else ""
        self._specs: dict[str, Mapping[str, Any]] = {}
        self._told: dict[str, frozenset[str]] = {}
        self._once: OrderedDict[str, None] = OrderedDict()

    def know(self, snapshots: Iterable[PodSnapshot]) -> None:
        """Take what an earlier worker has told of: it is not told again."""
        for one in snapshots:
            if one.pod:  # read from the disk already, with its snapshot
                self._specs[one.uid] = one.pod.get("spec") or {}
            self._told[one.uid] = frozenset(key for key, _ in told_by(one, self._subject_of(one)))

    def publish(self, snapshot: PodSnapshot) -> None:
        """Take a snapshot; returns at once."""
        if is_over(snapshot):
            self._told.pop(snapshot.uid, None)
            self._specs.pop(snapshot.uid, None)
            return
        if snapshot.pod:
            self._specs[snapshot.uid] = snapshot.pod.get("spec") or {}
        subject = self._subject_of(snapshot)
        found = dict(told_by(snapshot, subject))
        before = self._told.get(snapshot.uid, frozenset())
        self._told[snapshot.uid] = frozenset(found)
        self._take(told_by_end(before - found.keys(), found, snapshot, subject))
        self._take(happened for key, happened in found.items() if key not in before)

    def began(self, request: Any) -> None:
        """Tell that an activity begins; of its later tries nothing."""
        if (told_of := self._row(request)) is None:
            return
        row, subject = told_of
        if isinstance(request, StartContainer):
            self._tell_present(subject, request)
        if isinstance(request, RunPodSandbox) and self._without_dns and wants_cluster_dns(request.sandbox_spec):
            self._take(missing_cluster_dns(subject, self._without_dns))
        found = list(row.began(subject, request))
        if found and isinstance(request, StopContainer | RunHook) and not self._first(f"stop/{request.container_id}"):
            return
        self._take(found)

    def done(self, request: Any, answer: Any) -> None:
        """Tell what an activity came back with."""
        if isinstance(request, RemovePodDirectories):
            self._specs.pop(request.pod.uid, None)
        if (told_of := self._row(request)) is not None:
            row, subject = told_of
            if isinstance(request, PullImage) and not answer.present:
                self._remember(_pull_key(request.pod, subject.name_with(request.image)))
            self._take(row.done(subject, request, answer))

    def failed(self, request: Any, reason: str, message: str) -> None:
        """Tell why an activity has failed."""
        if reason not in HELD_UP and (told_of := self._row(request)) is not None:
            row, subject = told_of
            self._take(row.failed(subject, request, Fault(reason, message)))

    def pull_started(self, request: PullImage) -> None:
        """Tell that a registry is asked for an image; of one that the node itself wants, nothing."""
        if request.pod.uid:
            about = self._subject(request.pod).first_with(request.image)
            self.recorder.take(Happened(about, NORMAL, "Pulling", f'Pulling image "{request.image}"'))

    def probed(self, pod: PodKey, container: str, kind: ProbeKind, message: str) -> None:
        """Tell what a probe found; `message` says how it ended, in the kubelet's words after its kind."""
        subject = self._subject(pod)
        reason = "ProbeWarning" if message.startswith("probe warning") else "Unhealthy"
        about = subject.container(container)
        self.recorder.take(Happened(about, WARNING, reason, f"{kind.value.capitalize()} {message}"))

    def _row(self, request: Any) -> tuple[Row, Subject] | None:
        row = TABLE.get(type(request))
        return (row, self._subject(request.pod)) if row else None

    def _subject(self, pod: PodKey) -> Subject:
        return Subject(About("Pod", pod.name, pod.uid, pod.namespace), self._spec(pod.uid))

    def _subject_of(self, snapshot: PodSnapshot) -> Subject:
        return self._subject(PodKey(snapshot.namespace, snapshot.name, snapshot.uid))

    def _spec(self, uid: str) -> Mapping[str, Any]:
        """Give a pod's spec; of one that has said nothing since this worker began, from the cache on disk."""
        if uid not in self._specs:
            try:
                self._specs[uid] = json.loads(pod_path(self._root_dir, uid).read_bytes())["spec"]
            except (OSError, ValueError, KeyError):
                return {}
        return self._specs[uid]

    def _tell_present(self, subject: Subject, request: StartContainer) -> None:
        """Tell that the image of a container was there, unless it has just been pulled for it."""
        name = str(request.container["name"])
        if (key := _pull_key(request.pod, name)) in self._once:
            del self._once[key]
        else:
            message = f'Container image "{request.container["image"]}" already present on machine{self._present}'
            self.recorder.take(Happened(subject.container(name), NORMAL, "Pulled", message))

    def _first(self, key: str) -> bool:
        """Say whether a container's stop is told for the first time: its preStop hook comes before, and may have told."""
        if key in self._once:
            return False
        self._remember(key)
        return True

    def _remember(self, key: str) -> None:
        self._once[key] = None
        while len(self._once) > REMEMBERED:
            self._once.popitem(last=False)

    def _take(self, found: Iterable[Happened]) -> None:
        for one in found:
            self.recorder.take(one)


def _pull_key(pod: PodKey, container: str) -> str:
    return f"pull/{pod.uid}/{container}"
