"""Cpu and memory in histories: the node's allocatable, and the state of a resize.

Resources are a container's `resources` as in its spec. Figures are the kernel's, as `proto/kubernetes/resources`
computes them. Fields are only ever added, each with a default.
"""

from dataclasses import dataclass, field
from typing import Any, Final

RESIZE_PENDING: Final = "PodResizePending"
RESIZE_IN_PROGRESS: Final = "PodResizeInProgress"
"""The conditions of a resize."""


@dataclass(frozen=True, slots=True)
class Allocatable:
    """What this node has for its pods."""

    cpu_milli: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class CgroupFigures:
    """What a pod's cgroup was last set to; None is no limit."""

    cpu_shares: int
    cpu_quota: int | None = None
    """Microseconds in each period."""
    memory_limit: int | None = None
    """Bytes."""


@dataclass(slots=True)
class PendingResize:
    """A resize that this node does not grant: the condition PodResizePending."""

    reason: str
    """Deferred or Infeasible."""
    message: str
    generation: int | None = None
    """The metadata.generation that asks for it."""
    cause: str = ""
    """Why it is Deferred, in one word, such as OutOfcpu; Infeasible."""
    asked: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The resources that the source asks for, by container; for the event."""


@dataclass(frozen=True, slots=True)
class ResizeVerdict:
    """What the node has decided about a listing: it grants the resources that the listed pod has."""

    pending: PendingResize | None = None
    """What the source asks for besides, and why it is not granted."""


@dataclass(slots=True)
class Resize:
    """A resize that is granted and not complete: the condition PodResizeInProgress."""

    cgroup: CgroupFigures
    """The highest figures that the pod's cgroup may have; a failed step may have been done."""
    least: CgroupFigures
    """The lowest figures that it may have."""
    containers: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By name the resources that a live instance still has, where its spec has others."""
    doubtful: tuple[str, ...] = ()
    """Containers whose update failed and may have been done."""
    generation: int | None = None


@dataclass(frozen=True, slots=True)
class RuntimeResources:
    """What the runtime reports that a container has; 0 is the CRI's value for unset."""

    cpu_shares: int = 0
    cpu_quota: int = 0
    cpu_period: int = 0
    memory_limit_in_bytes: int = 0
    gone: bool = False
    """The runtime no longer holds the container."""
