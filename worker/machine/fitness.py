"""What a node needs of its machine, judged before anything on it is changed: cgroups, room on the disk, the clock, SELinux, PSI.

Called by `tempolet worker`, `up` and `join` at their start. The judgement is pure; gathering is beside it. A node that has worked before
starts on a full disk and with a wrong clock, as a kubelet does, and says so: its pods run, and it is needed to make room.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from activities.files.selinux import ENFORCE
from activities.machine.cgroup_hierarchies import Hierarchies

LEAST_BYTES: Final = 64 << 20
LEAST_INODES: Final = 1000
RELEASED: Final = datetime(2026, 4, 1, tzinfo=UTC)
"""A clock that shows an earlier time is wrong: Kubernetes 1.36 did not exist then."""
_CONTROLLERS_V1: Final = ("cpu", "cpuacct", "cpuset", "memory")
"""Of a kubelet's node (pkg/kubelet/cm/container_manager_linux.go validateSystemRequirements)."""
_CONTROLLERS_V2: Final = ("cpu", "cpuset", "memory")
_PRESSURE: Final = Path("/proc/pressure")
"""Missing where the kernel has PSI switched off, as Red Hat's has by default."""


class MachineUnfit(Exception):
    """No node can run on this machine as it is; the message says what is wrong, where, and what to do."""


@dataclass(frozen=True, slots=True)
class MachineState:
    """What was found."""

    cgroups: Sequence[str]
    """Where hierarchies are mounted."""
    cgroup_v2: bool
    controllers: frozenset[str]
    read_only: Sequence[str]
    """Hierarchies that are mounted read-only."""
    folder: Path
    """--root-dir, or what is there of the path to it."""
    free_bytes: int
    free_inodes: int | None
    """None: the file system does not count them."""
    now: datetime
    selinux_enforcing: bool = False
    pressure: bool = True
    """Whether the kernel tells how long processes wait (PSI)."""


def cgroup_faults(state: MachineState) -> Iterator[str]:
    """Say why no pod's cgroup can be made here."""
    if not state.cgroups:
        yield "no cgroups are mounted, at /sys/fs/cgroup or elsewhere: boot with systemd, or `mount -t cgroup2 none /sys/fs/cgroup`"
        return
    if state.read_only:
        places = ", ".join(state.read_only)
        yield (
            f"cgroups are mounted read-only at {places}: `mount -o remount,rw {state.read_only[0]}`; in a container, run it privileged "
            "with the machine's cgroups"
        )
    wanted = _CONTROLLERS_V2 if state.cgroup_v2 else _CONTROLLERS_V1
    if missing := [one for one in wanted if one not in state.controllers]:
        where = f"{state.cgroups[0]}/cgroup.controllers" if state.cgroup_v2 else "/proc/self/mounts"
        yield (
            f"the kernel gives no cgroup controller {', '.join(missing)} ({where} has {', '.join(sorted(state.controllers)) or 'none'}): "
            f"boot with cgroup_enable={missing[-1]} on the kernel's command line, or with a kernel that has it"
        )


def disk_faults(state: MachineState) -> Iterator[str]:
    """Say that the node's disk is full."""
    what_now = "remove what is not needed (`crictl rmi --prune`, old logs), or make it larger"
    if state.free_bytes < LEAST_BYTES:
        yield (
            f"the disk of {state.folder} is full: {state.free_bytes >> 20} MiB are free, and a node needs {LEAST_BYTES >> 20}; {what_now}"
        )
    elif state.free_inodes is not None and state.free_inodes < LEAST_INODES:
        yield f"the disk of {state.folder} has {state.free_inodes} inodes left, and a node needs {LEAST_INODES}; {what_now}"


def clock_faults(state: MachineState) -> Iterator[str]:
    """Say that the clock is wrong, as far as that can be known without asking anybody."""
    if state.now < RELEASED:
        yield (
            f"this machine's clock shows {state.now:%Y-%m-%d %H:%M} UTC, which is before this release can have been made: no certificate is valid "
            "then; set it (`timedatectl set-ntp true`, or `date -s`)"
        )


def selinux_warnings(state: MachineState) -> Iterator[str]:
    """Say what is known of a machine on which SELinux decides."""
    if state.selinux_enforcing:
        yield (
            f"SELinux is enforcing here ({ENFORCE}), with which this release was not tried: set enable_selinux = true in containerd's "
            "configuration, or pods may be denied their volumes; `ausearch -m avc -ts recent` shows what was denied"
        )


def pressure_warnings(state: MachineState) -> Iterator[str]:
    """Say that there will be no pressure figures; cgroup v1 never has them."""
    if state.cgroup_v2 and not state.pressure:
        yield (
            f"the kernel tells no pressure figures (PSI: there is no {_PRESSURE}), so statistics and metrics have none, and "
            "kernelMemcgNotification has no effect: boot with psi=1 on the kernel's command line"
        )


def refuse_unfit_machine(root_dir: Path, *, new: bool) -> list[str]:
    """Look at this machine; returns warnings, raises MachineUnfit. `new`: the node has not worked here yet."""
    state = machine_state(root_dir)
    faults, warnings = list(cgroup_faults(state)), [*selinux_warnings(state), *pressure_warnings(state)]
    (faults if new else warnings).extend((*disk_faults(state), *clock_faults(state)))
    if faults:
        raise MachineUnfit(f"nothing was changed: {'; '.join(faults)}")
    return warnings


def machine_state(
    root_dir: Path, hierarchies: Hierarchies | None = None, *, enforce: Path = ENFORCE, pressure: Path = _PRESSURE
) -> MachineState:
    """Look at this machine; blocks briefly. Raises OSError."""
    found = hierarchies or Hierarchies.of_this_node()
    places = list(dict.fromkeys([found.v2] if found.v2 else found.v1.values()))
    folder = next(one for one in (root_dir, *root_dir.parents) if one.exists())
    room = os.statvfs(folder)
    return MachineState(
        cgroups=[str(one) for one in places],
        cgroup_v2=found.v2 is not None,
        controllers=_controllers(found),
        read_only=[str(one) for one in _read_only(places)],
        folder=folder,
        free_bytes=room.f_bavail * room.f_frsize,
        free_inodes=room.f_favail if room.f_files else None,
        now=datetime.now(UTC),
        selinux_enforcing=_text(enforce) == "1",
        pressure=pressure.is_dir(),
    )


def _controllers(found: Hierarchies) -> frozenset[str]:
    if found.v2 is None:
        return frozenset(one for one in found.v1 if not one.startswith("/"))  # others are named by their place
    return frozenset(_text(found.v2 / "cgroup.controllers").split())


def _read_only(places: Iterable[Path]) -> Iterator[Path]:
    for one in places:
        if os.statvfs(one).f_flag & os.ST_RDONLY:
            yield one


def _text(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""
