"""Has the kernel wake the judge when memory gets short: kernelMemcgNotification. It only wakes it; what is done is decided by what it measures.

On cgroup v1 as the kubelet (pkg/kubelet/eviction/threshold_notifier_linux.go), by an eventfd on the usage of a cgroup, which is set anew
as files come and go. On v2, where a kubelet does nothing, by a trigger on the time for which processes of the machine wait for memory
(Documentation/accounting/psi.rst).
"""

import asyncio
import contextlib
import os
import select
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, Protocol

import structlog

from activities.machine.cgroup_hierarchies import Hierarchies
from proto.temporal.eviction.thresholds import Signal

REFRESHED: Final = timedelta(seconds=10)
"""Between two settings of a threshold at most (notifierRefreshInterval)."""
STALLED: Final = Path("/proc/pressure/memory")
TRIGGER: Final = b"some 100000 2000000\0"
"""100 ms in 2 s; a shorter window needs CAP_SYS_RESOURCE."""
_USAGE: Final = "memory.usage_in_bytes"
_CONTROL: Final = "cgroup.event_control"
_log: Final = structlog.get_logger(__name__)

Usages = Mapping[Signal, Sequence[int]]


class MemoryNotices(Protocol):
    """Sets `woken` when memory may be short."""

    woken: asyncio.Event

    def set_at(self, usages: Usages, now: datetime) -> None:
        """Notify at these usages from now on."""
        ...

    def close(self) -> None:
        """Notify no longer."""
        ...


class NoNotices:
    """Never does."""

    def __init__(self) -> None:
        self.woken = asyncio.Event()

    def set_at(self, usages: Usages, now: datetime) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class UsageNotices:
    """Of cgroup v1; used from one event loop."""

    def __init__(self, root: Path, pods_cgroup: str) -> None:
        """`root`: where the memory hierarchy is mounted."""
        self.woken = asyncio.Event()
        self._folders = {Signal.MEMORY: root, Signal.ALLOCATABLE_MEMORY: root / pods_cgroup.lstrip("/")}
        self._open: list[int] = []
        self._set_at: datetime | None = None
        self._failed = False

    def set_at(self, usages: Usages, now: datetime) -> None:
        """Set the thresholds, unless they are too new to be set again; a failure is said once."""
        if self._set_at is not None and now - self._set_at < REFRESHED:
            return
        self._set_at = now
        self.close()
        try:
            for signal, wanted in usages.items():
                for usage in wanted:
                    self._open.append(_usage_event(self._folders[signal], usage))
                    asyncio.get_running_loop().add_reader(self._open[-1], self._heard, self._open[-1])
        except OSError as error:
            if not self._failed:
                _log.warning("the kernel does not notify of memory; it is measured periodically", err=str(error))
            self._failed = True
        else:
            self._failed = False

    def _heard(self, event: int) -> None:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(event)
        self.woken.set()

    def close(self) -> None:
        """Close all events, by which the kernel forgets them."""
        while self._open:
            event = self._open.pop()
            asyncio.get_running_loop().remove_reader(event)
            os.close(event)


def _usage_event(folder: Path, usage: int) -> int:
    """Return a descriptor that is readable when a cgroup's usage has passed this, in either direction; raises OSError."""
    event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
    try:
        with (folder / _USAGE).open("rb", buffering=0) as watched:
            (folder / _CONTROL).write_text(f"{event} {watched.fileno()} {usage}")
    except OSError:
        os.close(event)
        raise
    return event


class StallNotices:
    """Of cgroup v2, or any kernel with PSI; used from one event loop."""

    def __init__(self, stalled: Path = STALLED) -> None:
        """Set the trigger; raises OSError."""
        self.woken = asyncio.Event()
        self._trigger = os.open(stalled, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._poll: select.epoll | None = None
        try:
            os.write(self._trigger, TRIGGER)
            self._poll = select.epoll()
            self._poll.register(self._trigger, select.EPOLLPRI)
            asyncio.get_running_loop().add_reader(self._poll.fileno(), self._heard)
        except OSError:
            self.close()
            raise

    def set_at(self, usages: Usages, now: datetime) -> None:
        """Do nothing: it knows no usage."""

    def _heard(self) -> None:
        assert self._poll is not None
        self._poll.poll(0)  # what was readable is taken: an event is there once
        self.woken.set()

    def close(self) -> None:
        """Take the trigger away."""
        if self._poll is not None:
            asyncio.get_running_loop().remove_reader(self._poll.fileno())
            self._poll.close()
        os.close(self._trigger)


@contextlib.contextmanager
def memory_notices(hierarchies: Hierarchies, pods_cgroup: str, *, wanted: bool) -> Iterator[MemoryNotices]:
    """Give what notifies on this machine while the block runs; what cannot is said, and never does."""
    notices = _made(hierarchies, pods_cgroup) if wanted else NoNotices()
    try:
        yield notices
    finally:
        notices.close()


def _made(hierarchies: Hierarchies, pods_cgroup: str) -> MemoryNotices:
    if memory := hierarchies.v1.get("memory"):
        return UsageNotices(memory, pods_cgroup)
    try:
        return StallNotices()
    except OSError as error:
        _log.warning("kernelMemcgNotification: this kernel does not notify (boot it with psi=1)", err=str(error))
        return NoNotices()
