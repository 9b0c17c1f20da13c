"""Cpu and memory as histories remember them: what a node has, and what is known of a resize that is not wholly done.

Resources are a container's `resources` as its spec has them; figures are the kernel's, as `proto/kubernetes/resources`
computes them. Fields are only ever added, each with a default.
"""

from dataclasses import dataclass, field
from typing import Any


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
    """A resize that the source asks for and this node does not grant: the condition PodResizePending."""

    reason: str
    """Infeasible."""
    message: str
    generation: int | None = None
    """The metadata.generation that asks for it."""


@dataclass(slots=True)
class Resize:
    """A resize that is granted and not wholly done: the condition PodResizeInProgress."""

    cgroup: CgroupFigures
    """What the pod's cgroup stands at; at the most, where a step has failed and may have been done nevertheless."""
    least: CgroupFigures
    """The same at the least."""
    containers: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By name the resources that a live instance still has, where its spec has others now."""
    doubtful: tuple[str, ...] = ()
    """Containers whose update has failed and may have been done nevertheless."""
    generation: int | None = None


@dataclass(frozen=True, slots=True)
class RuntimeResources:
    """What the runtime says that a container has; 0 is the CRI's word for unset."""

    cpu_shares: int = 0
    cpu_quota: int = 0
    cpu_period: int = 0
    memory_limit_in_bytes: int = 0
    gone: bool = False
    """It no longer holds the container."""
