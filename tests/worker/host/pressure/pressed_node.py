"""A node whose measurements are set by the test, and pods whose workflows answer as the test says."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from activities.clients.runtime import RuntimeClient
from activities.images.image_pulls import ImagePulls
from activities.machine.cgroup_hierarchies import Hierarchies
from activities.machine.cgroups import Cgroups
from activities.node_services import NodeServices
from activities.settings.activity_settings import ActivitySettings
from proto.cri.v1 import api_pb2 as cri
from proto.pod_snapshot import PodSnapshot
from proto.temporal.eviction.readings import FileSystemReading, MemoryReading, NodeReading, PodUse
from proto.temporal.eviction.thresholds import Amount, Disks, EvictionPolicy, Signal, Threshold
from proto.temporal.operator import EvictPod, Rejection, StopPod
from proto.temporal.pod import Lifecycle
from worker.daemon.config import NodeConfig
from worker.delivery.pod_requests import PodRequests
from worker.host.pressure import evictions
from worker.host.pressure.cleanups import Cleanups
from worker.host.pressure.evictions import EvictionParts, Evictions
from worker.host.pressure.reclaiming import Reclaiming
from worker.stats.node_stats import NodeStats
from worker.stats.pressure.node_reading import Measured
from worker.telemetry.kubelet.evictions import EvictionCounts
from workflows.decide.eviction.disks import Reclaim
from workflows.decide.node.pressure_decisions import Decision

HARD = Threshold(Signal.MEMORY, Amount("100"))
DISK = Threshold(Signal.NODE_FS, Amount("100"), reclaim=Amount("50"))
PLENTY = MemoryReading(900, 100)
SHORT = MemoryReading(10, 990)


def snapshot(name: str, lifecycle: Lifecycle = Lifecycle.SYNC, **known: Any) -> PodSnapshot:
    """Build a pod's snapshot, with the pod."""
    pod = known.pop(
        "pod", {"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": {"containers": []}}
    )
    return PodSnapshot(
        f"pod/{name}", "n1", "default", name, name, "file", "", lifecycle, **{"phase": "Running", **known}, pod=pod
    )


class Runtime(RuntimeClient):
    """Knows no disk of images."""

    def __init__(self) -> None:
        pass

    async def image_fs_info(self) -> cri.ImageFsInfoResponse:
        """Name none."""
        return cri.ImageFsInfoResponse()


@dataclass
class Requests(PodRequests):
    """Keeps what is asked of pods."""

    answers: dict[str, Rejection | Exception] = field(default_factory=dict)
    """By workflow id; one without an answer takes every request."""
    asked: list[tuple[str, EvictPod | StopPod]] = field(default_factory=list)

    async def ask(self, workflow_id: str, asked: EvictPod | StopPod) -> Rejection | None:
        """Answer as the test says."""
        self.asked.append((workflow_id, asked))
        found = self.answers.get(workflow_id)
        if isinstance(found, Exception):
            raise found
        return found


class PressedNode:
    """One node; `memory` is what the next round measures."""

    def __init__(
        self,
        root_dir: Path,
        monkeypatch: pytest.MonkeyPatch,
        *thresholds: Threshold,
        runtime: RuntimeClient | None = None,
    ) -> None:
        """With a runtime, the node itself is measured, and that runtime is asked to reclaim."""
        self.root_dir = root_dir
        self.memory = [PLENTY]
        """What each measurement finds; the last one stays."""
        self.left_on_disk = [900]
        """In the same way, bytes of nodefs."""
        self.reclaimed: list[Reclaim] = []
        self.pods: list[PodSnapshot] = []
        self.uses: dict[str, PodUse] = {}
        self.told: list[tuple[str, str, str]] = []
        self.decided: list[Decision] = []
        self.requests, self.cleanups, self.registry = Requests(), Cleanups(), CollectorRegistry()
        self.publish: Callable[[PodSnapshot], None] = self.cleanups.after(lambda _: None)
        self.services = NodeServices(
            settings=ActivitySettings(root_dir=root_dir, pod_logs_dir=root_dir / "logs"),
            runtime=runtime or Runtime(),
            cgroups=Cgroups(hierarchies=Hierarchies(v2=None, v1={})),
            pulls=ImagePulls(),
        )
        policy = EvictionPolicy(thresholds or (HARD,), local_storage=False)
        monkeypatch.setattr(NodeStats, "uses", self._uses)
        if runtime is None:
            monkeypatch.setattr(evictions, "measure_node", lambda *_: self._measured())
            monkeypatch.setattr(Reclaiming, "do", self._reclaim)
        self.evictions = Evictions(
            EvictionParts(
                config=NodeConfig("n1", root_dir, eviction=policy),
                services=self.services,
                pods=lambda: self.pods,
                requests=self.requests,
                cleanups=self.cleanups,
                tell=lambda *event: self.told.append(event),
                counts=EvictionCounts(self.registry),
                decided=self.decided.append,
            )
        )

    def add(self, name: str, memory: int | None, **known: Any) -> None:
        """Add a pod that uses this much memory; None: nothing is known of it."""
        self.pods.append(snapshot(name, **known))
        if memory is not None:
            self.uses[name] = PodUse(memory)

    def asked(self) -> list[str]:
        """Return whom something was asked of."""
        return [workflow_id for workflow_id, _ in self.requests.asked]

    def _measured(self) -> Measured:
        memory = self.memory.pop(0) if len(self.memory) > 1 else self.memory[0]
        left = self.left_on_disk.pop(0) if len(self.left_on_disk) > 1 else self.left_on_disk[0]
        return Measured(NodeReading(memory, node_fs=FileSystemReading(left, 1000)), Disks())

    async def _reclaim(self, what: Iterable[Reclaim]) -> None:
        self.reclaimed.extend(what)

    async def _uses(self, _: object = None) -> dict[str, PodUse]:
        return self.uses
