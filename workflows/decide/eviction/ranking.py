"""In which order pods are evicted for a starved resource (pkg/kubelet/eviction/helpers.go rankMemoryPressure and others).

For memory and disks: a pod without statistics first, then one that uses more than it requests, then the lowest priority, then
the most above its request. For process ids: the lowest priority, then one without statistics, then the most processes.
Equal pods keep the order in which they were given; the kubelet's order of more than twelve pods may differ among equals.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from proto.kubernetes.resources.quantity import NANO, ZERO
from proto.temporal.eviction.candidates import Candidate
from proto.temporal.eviction.readings import FileUse, PodUse
from workflows.decide.eviction.amounts import count_text, size_text
from workflows.decide.eviction.disks import Files
from workflows.decide.eviction.signals import INODES, MEMORY, PIDS, STORAGE

Uses = Mapping[str, PodUse]
"""What pods use, by their uid; a pod without statistics is absent."""
_NOTHING: Final = FileUse()


@dataclass(frozen=True, slots=True)
class Ranked:
    """A pod in its place, with what put it there."""

    pod: Candidate
    used: int | None
    """Of the starved resource; None without statistics."""
    exceeds: bool = False
    """It uses more than it requests."""
    above_nanos: int = 0
    """How much more; for inodes less the request of ephemeral storage, as in the kubelet."""

    @property
    def priority(self) -> int:
        """The pod's priority, 0 without one."""
        return self.pod.priority or 0

    def why(self, resource: str) -> str:
        """Say what put it there."""
        if self.used is None:
            return f"nothing is known of what it uses; priority {self.priority}"
        written = size_text(self.used) if resource in (MEMORY, STORAGE) else count_text(self.used)
        if resource == PIDS:
            return f"priority {self.priority}; it has {written} processes and threads"
        more = "more than" if self.exceeds else "no more than"
        requested = "nothing" if resource == INODES else "it requests"
        unit = f" {INODES}" if resource == INODES else f" of {resource}"
        return f"it uses {written}{unit}, {more} {requested}; priority {self.priority}"


def rank(pods: Iterable[Candidate], uses: Uses, resource: str, files: frozenset[Files]) -> list[Ranked]:
    """Return the pods, the first victim first."""
    placed = [_place(pod, uses.get(pod.uid), resource, files) for pod in pods]
    return sorted(placed, key=_by_priority_first if resource == PIDS else _by_excess_first)


def _by_excess_first(one: Ranked) -> tuple[bool, bool, int, int]:
    return one.used is not None, not one.exceeds, one.priority, -one.above_nanos


def _by_priority_first(one: Ranked) -> tuple[int, bool, int]:
    return one.priority, one.used is not None, -(one.used or 0)


def _place(pod: Candidate, use: PodUse | None, resource: str, files: frozenset[Files]) -> Ranked:
    if use is None:
        return Ranked(pod, None)
    used = _used(pod, use, resource, files)
    exceeds = used * NANO > pod.requests.get(resource, ZERO).nanos
    subtracted = STORAGE if resource == INODES else resource
    return Ranked(pod, used, exceeds, used * NANO - pod.requests.get(subtracted, ZERO).nanos)


def _used(pod: Candidate, use: PodUse, resource: str, files: frozenset[Files]) -> int:
    match resource:
        case "memory":
            return use.memory or 0
        case "pids":
            return use.processes or 0
        case "inodes":
            return _files_used(pod, use, files, lambda one: one.inodes or 0)
        case _:
            return _files_used(pod, use, files, lambda one: one.used or 0)


def _files_used(pod: Candidate, use: PodUse, files: frozenset[Files], figure: Callable[[FileUse], int]) -> int:
    """Sum up the files that fill the starved file system (podDiskUsage)."""
    found = 0
    for container in use.containers:
        if Files.ROOT in files:
            found += figure(container.root or _NOTHING)
        if Files.LOGS in files:
            found += figure(container.logs or _NOTHING)
    if Files.VOLUMES in files:
        found += sum(figure(use.volumes.get(name, _NOTHING)) for name in pod.local_volumes)
    return found
