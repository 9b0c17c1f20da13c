"""A node of two cpus whose pods the test lists, and whose pods' workflows answer as the test says."""

import asyncio
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from proto.kubernetes.resources.quantity import parse_quantity
from proto.kubernetes.source_annotations import SOURCE_ANNOTATION
from proto.temporal.operator import EvictPod, Rejection, StopPod
from proto.temporal.pod import Lifecycle, NodeSettings, PodJson
from proto.temporal.pod_inputs import Rejected
from tests.worker.poller.snapshots import snapshot, write
from worker.delivery.pod_requests import PodRequests
from worker.poller.admission.node_admission import NodeAdmission
from worker.poller.admission.preemptions import PreemptionParts, Preemptions
from worker.poller.admission.under_pressure import UnderPressure
from worker.poller.runtime.known_pods import KnownPods
from worker.settings.kubelet.feature_gates import FeatureGates
from workflows.decide.node.node_admission import NodeFacts

CPU = "1500m"
CRITICAL = 2_000_000_000


def asking(uid: str, cpu: str = CPU, **spec: Any) -> PodJson:
    """Write a pod that requests so much; most of the node by default."""
    container = {"name": "c", "image": "busybox:1", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"name": uid, "namespace": "default", "uid": uid}, "spec": {"containers": [container], **spec}}


def static(pod: PodJson) -> PodJson:
    """Mark a pod as one from a file."""
    return {**pod, "metadata": {**pod["metadata"], "annotations": {SOURCE_ANNOTATION: "file"}}}


class Node:
    """A node of two cpus, whose label comes with the second look."""

    def __init__(self) -> None:
        self.labels: dict[str, str] = {}
        self.newer: dict[str, str] = {}

    async def read(self) -> None:
        """Look again."""
        self.labels = self.newer

    def facts(self) -> NodeFacts:
        """Say what is known."""
        return NodeFacts("n", labels=self.labels, allocatable={"cpu": parse_quantity("2")})


@dataclass
class Requests(PodRequests):
    """Keeps what is asked of pods."""

    answers: dict[str, list[Rejection | Exception | None]] = field(default_factory=dict)
    """By workflow id, one after the other; a pod without any takes every request."""
    asked: list[tuple[str, EvictPod | StopPod]] = field(default_factory=list)
    _more: asyncio.Event = field(default_factory=asyncio.Event)

    async def ask(self, workflow_id: str, asked: EvictPod | StopPod) -> Rejection | None:
        """Answer as the test says."""
        self.asked.append((workflow_id, asked))
        self._more.set()
        answers = self.answers.get(workflow_id) or [None]
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(found, Exception):
            raise found
        return found

    async def until(self, times: int = 1) -> None:
        """Wait until so much was asked."""
        async with asyncio.timeout(10):
            while len(self.asked) < times:
                await self._more.wait()
                self._more.clear()


class FullNode:
    """The node and its admission, as of a poller that has just started."""

    def __init__(self, root_dir: Path, *, alone: bool = False) -> None:
        self.root_dir, self.node, self.requests = root_dir, Node(), Requests()
        self.present: dict[str, PodJson] = {}
        self.counted: list[str] = []
        self.would_refuse: Rejected | None = None
        known = self.known = KnownPods(root_dir, "n")
        parts = PreemptionParts(
            node="n",
            root_dir=root_dir,
            known=known,
            requests=self.requests,
            counted=self.counted.append,
            refuses=lambda _: self.would_refuse,
            alone=alone,
        )
        self.admission = NodeAdmission(
            self.node,
            known,
            FeatureGates(),
            lambda: self.present,
            settings=NodeSettings(kernel="6.1"),
            under_pressure=UnderPressure(root_dir, alone=alone).why_refused,
            preemptions=Preemptions(parts),
        )

    async def admitted(self, pod: PodJson, *, static: bool = False) -> str:
        """Judge a pod that is listed from now on; returns the reason against it."""
        self.present[pod["metadata"]["uid"]] = pod
        why = await self.admission.admit(pod, static=static)
        return why.reason if why else ""

    def running(self, pod: PodJson) -> None:
        """Add a pod that runs."""
        self.present[pod["metadata"]["uid"]] = pod
        self.shows(pod["metadata"]["uid"], Lifecycle.SYNC)

    def shows(self, uid: str, lifecycle: Lifecycle, phase: str = "Running") -> None:
        """Have the worker write a pod's snapshot."""
        one = replace(snapshot(uid, name=uid), phase=phase, lifecycle=lifecycle)
        write(self.root_dir, replace(one, workflow_id=workflow_of(uid)))

    def ends(self, uid: str) -> None:
        """Let a pod be gone."""
        self.shows(uid, Lifecycle.TERMINATED, "Failed")

    def asked(self) -> list[str]:
        """Return of which pods something was asked."""
        return [workflow_id.rpartition("/")[2] for workflow_id, _ in self.requests.asked]


def workflow_of(uid: str) -> str:
    """Return the id of a pod's workflow."""
    return f"pod/n/default/{uid}/{uid}"
