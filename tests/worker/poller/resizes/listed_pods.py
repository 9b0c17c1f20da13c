"""A node of two cpus with pods that are listed, resized and removed, for the tests of `resizes`."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from proto.kubernetes.resources.overhead import requests_and_overhead
from proto.pod_snapshot import PodSnapshot
from proto.temporal.pod import PodJson
from proto.temporal.pod_inputs import Rejected
from tests.worker.poller.snapshots import snapshot
from worker.poller.resizes.allocated_pods import AllocatedPods
from worker.poller.resizes.dependencies import ResizeDependencies
from worker.poller.resizes.resizes import Listed, Resizes
from worker.telemetry.kubelet.resizes import ResizeCounts
from workflows.decide.eviction.preemption import Preemption
from workflows.decide.resources.resizes import ResizeSettings


def pod(uid: str, cpu: str, generation: int = 1, **spec: Any) -> PodJson:
    """Write a pod that requests so much cpu."""
    container = {"name": "c", "image": "busybox:1", "resources": {"requests": {"cpu": cpu}}}
    metadata = {"name": uid, "namespace": "default", "uid": uid, "generation": generation}
    return {"metadata": metadata, "spec": {"containers": [container], **spec}}


def cpu_of(listed: PodJson) -> str:
    """Read what a pod is granted."""
    found: str = listed["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    return found


class ListedPods:
    """The pods, and who grants their resizes."""

    def __init__(self, root_dir: Path, settings: ResizeSettings | None = None) -> None:
        self.present: dict[str, PodJson] = {}
        self.snapshots: dict[str, PodSnapshot] = {}
        self.ready, self.going_down, self.capacity = True, False, 2000
        self.told: list[str] = []
        self.preempting = asyncio.Lock()
        self._more = asyncio.Event()
        self.counted = CollectorRegistry()
        self.resizes = Resizes(
            ResizeDependencies(
                allocated=AllocatedPods(root_dir),
                settings=settings or ResizeSettings(),
                snapshot=self.snapshots.get,
                present=lambda: self.present,
                sources_ready=lambda: self.ready,
                shuts_down=lambda: self.going_down,
                counts=ResizeCounts(self.counted),
            )
        )
        self.resizes.room = self
        self.resizes.on_change = self._changed

    def judge_resize(self, pod: PodJson, *, static: bool) -> Rejected | Preemption | None:  # noqa: ARG002 - the Protocol's signature
        """Count the cpus of all other pods."""
        others = [
            one for uid, one in self.present.items() if uid != pod["metadata"]["uid"] and not self.resizes.is_over(uid)
        ]
        used = sum(
            requests_and_overhead(self.resizes.in_use(one["metadata"]["uid"], one))["cpu"].milli for one in others
        )
        asked = requests_and_overhead(pod)["cpu"].milli
        return Rejected("OutOfcpu", f"{asked} beside {used}") if asked + used > self.capacity else None

    async def preempt_for_resize(self, pod: PodJson, found: Preemption) -> None:
        """Fail: no pod is critical here."""
        raise NotImplementedError("no pod is critical here, so none is stopped for a resize")

    def start(self, *pods: PodJson) -> None:
        """List new pods, and admit them."""
        for one in pods:
            self.edit(one)
            self.resizes.admitted(one)

    def edit(self, edited: PodJson, *, static: bool = False) -> Listed:
        """List a pod."""
        uid = edited["metadata"]["uid"]
        self.present[uid] = self.resizes.listed(edited, static=static).pod
        self.resizes.settle()
        return self.resizes.of(uid)

    def remove(self, uid: str) -> None:
        """List a pod no more."""
        self.present.pop(uid)
        self.resizes.removed(uid)
        self.resizes.settle()

    def show(self, uid: str, **fields: Any) -> None:
        """Let a pod's workflow publish something."""
        self.snapshots[uid] = replace(self.snapshots.get(uid) or snapshot(uid), **fields)

    def cpu(self, uid: str) -> str:
        """Return what a pod is granted."""
        return cpu_of(self.resizes.of(uid).pod)

    def pending(self, uid: str) -> str:
        """Return why a pod is not granted more; empty if it asks for no more."""
        found = self.resizes.of(uid).pending
        return f"{found.reason} {found.cause}: {found.message}" if found else ""

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait for a change after which this is true."""
        async with asyncio.timeout(20):
            while not true():
                self._more.clear()
                await self._more.wait()

    def _changed(self, uid: str) -> None:
        self.told.append(uid)
        self.present[uid] = self.resizes.of(uid).pod
        self._more.set()

    def count(self, name: str, **labels: str) -> float:
        """Read a count."""
        return self.counted.get_sample_value(name, labels) or 0
