"""Reads from the kernel's log which process its OOM killer has ended, and for want of whose memory.

Called by `worker/host/pressure/oom_watch.py` with one record after the other. The rules are those of cadvisor's oomparser
(utils/oomparser of v0.56.2), by which pkg/kubelet/oom tells SystemOOM. Names of processes and cgroups in these records are chosen by
pods. So, unlike there, a record counts only if the kernel itself wrote it (root in a pod may write to /dev/kmsg, too), and the words
that decide must begin it.
"""

import re
from dataclasses import dataclass
from typing import Final

LONGEST_RECORD: Final = 8192
"""Bytes, by the kernel's own limit."""
SYSTEM: Final = "/"
"""The cgroup whose memory was short if it was the machine's."""
SYSTEM_OOM: Final = "SystemOOM"
_FACILITY: Final = 3
"""Bits of a record's priority below its facility; the kernel's is 0, and no other writer may use it."""
_HEAD: Final = re.compile(rb"(\d{1,10}),(\d{1,20}),\d{1,20},[^;\n]{0,64};")
_START: Final = re.compile(r".{1,64} invoked oom-killer:")
_OF_CGROUP: Final = re.compile(r"oom-kill:constraint=[A-Z_]{1,40},.*?,oom_memcg=(/[^,]*),")
_VICTIM: Final = re.compile(r",task=([^/]{0,64}),pid=(\d{1,10}),uid=\d{1,10}$")
_OF_CGROUP_BEFORE_5_0: Final = re.compile(r"Task in .* killed as a result of limit of (/.*)$")
_KILLED: Final = re.compile(
    r"(?:Out of memory[^:]{0,40}: |Memory cgroup out of memory: )?Killed process (\d{1,10}) \((.{1,64})\)"
)
_KILLED_IN_CGROUP: Final = "Memory cgroup "


@dataclass(frozen=True, slots=True)
class KernelRecord:
    """One record of the kernel's log."""

    sequence: int
    text: str


@dataclass(frozen=True, slots=True)
class Report:
    """The OOM killer has begun to tell of itself, and not yet said whom it ends."""

    short_of: str = SYSTEM


@dataclass(frozen=True, slots=True)
class OomKill:
    """A process was ended."""

    short_of: str
    """The cgroup whose limit was reached."""
    process: str = ""
    pid: int = 0

    @property
    def of_the_system(self) -> bool:
        """Whether the machine itself was short of memory."""
        return self.short_of == SYSTEM

    @property
    def message(self) -> str:
        """The event's message."""
        victim = f", victim process: {self.process}, pid: {self.pid}" if self.process and self.pid else ""
        return f"System OOM encountered{victim}"


def kernel_record(raw: bytes) -> KernelRecord | None:
    """Parse a record of /dev/kmsg (Documentation/ABI/testing/dev-kmsg); None for one that the kernel did not write."""
    head = _HEAD.match(raw[:LONGEST_RECORD])
    if head is None or int(head[1]) >> _FACILITY:
        return None
    text = raw[head.end() : LONGEST_RECORD].partition(b"\n")[0]
    return KernelRecord(int(head[2]), text.decode("ascii", errors="replace"))


def follow(report: Report | None, text: str) -> tuple[Report | None, OomKill | None]:
    """Take the next record into account: returns the report that is not over yet, and the kill that this record tells of."""
    if _START.match(text):
        return Report(), None
    if report is None:
        return None, None
    if (found := _OF_CGROUP.match(text)) and (victim := _VICTIM.search(text)):
        return None, OomKill(found[1], victim[1], int(victim[2]))
    if found := _OF_CGROUP_BEFORE_5_0.match(text):
        return Report(found[1]), None
    if (found := _KILLED.match(text)) is None:
        return report, None
    in_cgroup = report.short_of == SYSTEM and text.startswith(_KILLED_IN_CGROUP)  # the record that named it is lost
    return None, OomKill("" if in_cgroup else report.short_of, found[2], int(found[1]))
