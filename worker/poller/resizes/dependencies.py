"""What `resizes.py` works with; the processes' wiring fills it in."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from proto.pod_snapshot import PodSnapshot
from proto.temporal.pod import PodJson
from proto.temporal.pod_inputs import Rejected
from worker.poller.resizes.allocated_pods import AllocatedPods
from worker.telemetry.kubelet.resizes import ResizeCounts
from workflows.decide.eviction.preemption import Preemption
from workflows.decide.resources.resizes import ResizeSettings


class Room(Protocol):
    """Knows what this node has, and what its pods use."""

    preempting: asyncio.Lock
    """Held while pods are stopped for another one."""

    def judge_resize(self, pod: PodJson, *, static: bool) -> Rejected | Preemption | None:
        """Return why a pod cannot have what it asks for beside the others, or who is stopped for it; None if it can."""

    async def preempt_for_resize(self, pod: PodJson, found: Preemption) -> None:
        """Stop pods, and return when they are gone."""


@dataclass(frozen=True, slots=True)
class ResizeDependencies:
    """What Resizes works with."""

    allocated: AllocatedPods
    settings: ResizeSettings
    snapshot: Callable[[str], PodSnapshot | None]
    """What the workflow of a pod last showed, by uid."""
    present: Callable[[], Mapping[str, PodJson]]
    """All pods that are listed here, by uid."""
    sources_ready: Callable[[], bool]
    """Whether every source has listed its pods; before, a resize would be granted what an unknown pod has."""
    shuts_down: Callable[[], bool]
    """Whether the machine is going down."""
    counts: ResizeCounts
    """What is asked for and decided, as a kubelet counts it."""
