"""Enforces Node Allocatable: limits the cgroup of all pods, and those of the node's services that enforceNodeAllocatable names.

Run by the worker. The pods' cgroup gets the machine less the reservations (without `pods` the whole machine, because the
kernel's default of cpu shares is low), at the start and whenever another process has changed it; what fails is an event and
is tried again a minute later. A reserved cgroup is limited once, at the start, which fails with it. The kubelet's words
(pkg/kubelet/cm/node_container_manager_linux.go).
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Final

import structlog

from activities.machine.cgroup_files import NodeLimits
from activities.machine.node_capacity import cpu_capacity, memory_capacity, task_capacity
from activities.machine.node_cgroups import NodeCgroups, huge_page_capacity
from proto.kubernetes.resources.quantity import Quantity
from proto.kubernetes.resources.resources import cpu_shares
from worker.daemon.background import in_background
from worker.events.event import NORMAL, WARNING, TellOfNode
from worker.settings.cgroups.enforcement import Enforcement, ReservedCgroup
from worker.settings.kubelet.configuration import ConfigurationRefused
from worker.settings.reserved import NOTHING_RESERVED, Reserved

EVERY: Final = timedelta(minutes=1)
ENFORCED: Final = "NodeAllocatableEnforced"
FAILED: Final = "FailedNodeAllocatableEnforcement"
_UPDATED: Final = "Updated Node Allocatable limit across pods"

_log: Final = structlog.get_logger(__name__)


def refuse_missing_cgroups(cgroups: NodeCgroups, enforcement: Enforcement) -> None:
    """Refuse to start without the reserved cgroups, before anything is changed; raises ConfigurationRefused."""
    for one in enforcement.reserved:
        try:
            fault = cgroups.missing(cgroups.existing(one.cgroup)) if one.amounts else _unconfigured(cgroups, one)
        except (OSError, ValueError) as error:
            fault = _words(error)
        if fault:
            raise ConfigurationRefused(_failed(one, fault))


def limit_reserved_cgroups(cgroups: NodeCgroups, enforcement: Enforcement, tell: TellOfNode, *, protect: bool) -> None:
    """Limit them; raises ConfigurationRefused with the first that fails. `protect`: also their memory, by MemoryQoS."""
    for one in enforcement.reserved:
        limits = _of_amounts(one.amounts, compressible=one.compressible, protect=protect)
        try:
            cgroups.limit(cgroups.existing(one.cgroup), limits)
        except (OSError, ValueError) as error:
            raise ConfigurationRefused(_failed(one, _words(error))) from error
        _tell_and_log(tell, NORMAL, ENFORCED, f"Updated limits on {one.title.lower()} cgroup {one.cgroup}")


class PodsLimit:
    """The limit of the cgroup of all pods."""

    def __init__(self, cgroups: NodeCgroups, wanted: Callable[[], NodeLimits], tell: TellOfNode) -> None:
        """Take the cgroups, what measures the limits, and what takes events."""
        self._cgroups, self._wanted, self._tell = cgroups, wanted, tell
        self._enforced = False

    def keep(self) -> None:
        """Set the limit where it differs; blocks. Tells the first time, each failure, and the first success after one."""
        try:
            changed = self._cgroups.limit(self._cgroups.pods, self._wanted())
        except (OSError, ValueError) as error:
            self._enforced = False
            what = f"Failed to update Node Allocatable Limits {self._cgroups.shown(self._cgroups.pods)}"
            _tell_and_log(self._tell, WARNING, FAILED, f"{what}: {_words(error)}")
            return
        if not self._enforced:
            self._enforced = True
            _tell_and_log(self._tell, NORMAL, ENFORCED, _UPDATED)
        elif changed:
            _log.info("the limit of all pods had been changed, and is set again", cgroup=self._cgroups.pods)


def keeping_pods_limit(limit: PodsLimit, every: timedelta = EVERY) -> AbstractAsyncContextManager[None]:
    """Keep it while the block runs."""

    async def keep() -> None:
        while True:
            await asyncio.to_thread(limit.keep)
            await asyncio.sleep(every.total_seconds())

    return in_background("the limit of all pods", keep)


def limits_of_pods(enforcement: Enforcement, reserved: Reserved) -> NodeLimits:
    """Measure what all pods together may use now; raises OSError, ValueError."""
    kept = reserved if enforcement.pods else NOTHING_RESERVED
    return NodeLimits(
        cpu_shares=cpu_shares(max(0, cpu_capacity() - kept.cpu_milli)),
        memory=max(0, memory_capacity() - kept.memory_bytes),
        pids=max(0, task_capacity()[0] - kept.pids),
        huge_pages=huge_page_capacity(),
    )


def _of_amounts(amounts: Mapping[str, Quantity], *, compressible: bool, protect: bool) -> NodeLimits:
    """Return a reservation's limits. Huge pages cannot be reserved, so there are none, as in the kubelet (maybeSetHugetlb)."""
    cpu, memory, pids = (amounts.get(name) for name in ("cpu", "memory", "pid"))
    return NodeLimits(
        cpu_shares=None if cpu is None else cpu_shares(cpu.milli),
        memory=None if memory is None or compressible else memory.value,
        pids=None if pids is None or compressible else pids.value,
        huge_pages=tuple((size, 0) for size, _ in huge_page_capacity()),
        protected=protect and not compressible,
    )


def _unconfigured(cgroups: NodeCgroups, one: ReservedCgroup) -> str:
    return f"{cgroups.shown(cgroups.existing(one.cgroup))} cgroup is not configured properly"


def _failed(one: ReservedCgroup, why: str) -> str:
    return f'Failed to enforce {one.what} Cgroup Limits on "{one.cgroup}": {why}'


def _words(error: OSError | ValueError) -> str:
    """Write an error without its number."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


def _tell_and_log(tell: TellOfNode, kind: str, reason: str, message: str) -> None:
    log = _log.warning if kind == WARNING else _log.info
    log(message, reason=reason)
    tell(kind, reason, message)
