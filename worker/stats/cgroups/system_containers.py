"""The node's own cgroups, which /stats/summary lists as system containers (server/stats/summary_sys_containers.go).

`kubelet` is worker, poller and node process: one cgroup with kubeletCgroups, else those in which they were started, added up.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Final

from worker.stats.cgroups.usage import CgroupReader, CgroupUsage

MACHINE: Final = "/"
_ADDED: Final = (
    *("cpu", "cpu_user", "cpu_system", "memory", "cache", "rss", "mapped", "swap", "active_file", "inactive_file"),
    *("page_faults", "major_faults", "tasks"),
)
"""What several cgroups use together. Their stalls overlap, so pressure cannot be added."""


@dataclass(frozen=True, slots=True)
class SystemContainer:
    """Which cgroups are one system container."""

    name: str
    cgroups: Sequence[str]
    since: float | None = None
    """When it was started; None: when its cgroup was made."""


@dataclass(frozen=True, slots=True)
class SystemReading:
    """One system container at one time."""

    name: str
    usage: CgroupUsage
    since: float
    is_machine: bool = False
    """It is the machine's root cgroup, so its limits are the machine's."""


def outermost(cgroups: Iterable[str]) -> list[str]:
    """Leave out the cgroups that lie in another one of the list, which counts them already."""
    found = dict.fromkeys(cgroups)
    return [one for one in found if not any(str(parent) in found for parent in PurePosixPath(one).parents)]


def read_system(reader: CgroupReader, containers: Iterable[SystemContainer], *, whole: bool) -> Iterator[SystemReading]:
    """Read them; one whose cgroup does not exist is left out, as by the kubelet. Blocks: call it in a thread."""
    read = reader.usage if whole else reader.cpu_and_memory
    for one in containers:
        used = [usage for cgroup in one.cgroups if (usage := read(cgroup)) is not None]
        if not used:
            continue
        since = reader.created_at(one.cgroups[0]) if one.since is None else one.since
        yield SystemReading(one.name, added(used), since, one.cgroups[0] == MACHINE)


def added(used: Sequence[CgroupUsage]) -> CgroupUsage:
    """Add up what cgroups use; a limit counts only if each of them has one."""
    if len(used) == 1:
        return used[0]
    total = replace(used[0], pressure={}, transfers={})
    for name in _ADDED:
        setattr(total, name, sum(getattr(one, name) for one in used))
    for name in ("memory_limit", "swap_limit"):
        limits = [getattr(one, name) for one in used]
        setattr(total, name, None if None in limits else sum(limits))
    return total
