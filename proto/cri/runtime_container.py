"""What the runtime says of a container's CPUs, memory and devices, as plain values: for what is decided by it when all else is lost."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RuntimeContainer:
    """The newest container of one name in a pod; 0 and empty: the runtime does not say."""

    uid: str
    """Its pod's."""
    name: str
    created_at: int = 0
    """Nanoseconds since 1970."""
    is_up: bool = True
    """It runs, or is about to; otherwise it has exited, and may start again."""
    is_guaranteed: bool = False
    """Its pod's cgroup is among those of guaranteed pods."""
    cpu_shares: int = 0
    cpuset_cpus: str = ""
    cpuset_mems: str = ""
    memory_limit: int = 0
    """In bytes."""
    huge_pages: Mapping[str, int] = field(default_factory=dict)
    """Limits in bytes, by the runtime's name of the size (2MB)."""
    devices: str = ""
    """What its annotation says of the devices of plugins (`DEVICES_ANNOTATION`)."""
    has_succeeded: bool = False
    """It has exited with 0."""
    finished_at: int = 0
    """Nanoseconds since 1970."""

    def __str__(self) -> str:
        """Name it in a message."""
        return f"container {self.name} of pod {self.uid}"


def newest(found: Iterable[RuntimeContainer]) -> tuple[RuntimeContainer, ...]:
    """Return the newest container of each name and pod; one that is up before one that has exited."""
    best: dict[tuple[str, str], RuntimeContainer] = {}
    for one in found:
        key = (one.uid, one.name)
        if key not in best or (one.is_up, one.created_at) > (best[key].is_up, best[key].created_at):
            best[key] = one
    return tuple(best.values())


def as_believed(found: Iterable[RuntimeContainer]) -> list[RuntimeContainer]:
    """Sort containers so that the first of two that claim the same thing keeps it: running ones first, then the older ones."""
    return sorted(found, key=lambda one: (not one.is_up, one.created_at, one.uid, one.name))
