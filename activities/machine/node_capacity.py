"""The machine's CPU, memory, huge pages, swap, disk and process IDs (cAdvisor's MachineInfo, as the kubelet uses it)."""

import os
import platform
from pathlib import Path
from typing import Final

from activities.machine.cgroup_hierarchies import Hierarchies
from proto.kubernetes.resources.node_resources import NodeResources, NodeSwap

_HUGE_PAGES: Final = Path("/sys/kernel/mm/hugepages")
_MEMORY: Final = Path("/proc/meminfo")
_KIB: Final = 1024
_MACHINES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
"""Go's names for the kernel's machine names."""


def architecture() -> str:
    """Return the machine's architecture in Go's words, which Kubernetes uses."""
    machine = platform.machine()
    return _MACHINES.get(machine, machine)


def memory_capacity() -> int:
    """Read the node's memory in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def cpu_capacity() -> int:
    """Count the node's processors, in thousandths."""
    return (os.cpu_count() or 1) * 1000


def storage_capacity(directory: Path) -> int:
    """Read the size in bytes of the file system of a directory, which need not exist yet; raises OSError."""
    while not directory.exists() and directory != directory.parent:
        directory = directory.parent
    found = os.statvfs(directory)
    return found.f_frsize * found.f_blocks


def throttle_paths(cpus: Path = Path("/sys/devices/system/cpu")) -> tuple[str, ...]:
    """List the files that show how often a processor was throttled, which are masked in containers."""
    found = cpus.glob("cpu[0-9]*/thermal_throttle")
    return tuple(str(one) for one in sorted(found, key=lambda one: int(one.parent.name.removeprefix("cpu"))))


def apparmor_enabled(system: Path = Path("/sys")) -> bool:
    """Report whether AppArmor is enabled in the kernel (as github.com/opencontainers/runc does)."""
    if not (system / "kernel/security/apparmor").exists():
        return False
    try:
        return (system / "module/apparmor/parameters/enabled").read_text().startswith("Y")
    except OSError:
        return False


def huge_page_sizes(folder: Path = _HUGE_PAGES) -> tuple[int, ...]:
    """List the sizes of huge pages that the kernel supports, in bytes."""
    if not folder.is_dir():
        return ()
    names = (one.name.removeprefix("hugepages-").removesuffix("kB") for one in folder.iterdir())
    return tuple(sorted(int(name) * _KIB for name in names if name.isdecimal()))


def huge_pages(folder: Path = _HUGE_PAGES) -> dict[int, int]:
    """Return the bytes that are reserved for huge pages of each size."""
    counted = ((size, folder / f"hugepages-{size // _KIB}kB" / "nr_hugepages") for size in huge_page_sizes(folder))
    return {size: size * int(count.read_text()) for size, count in counted}


def swap_capacity(meminfo: Path = _MEMORY) -> int:
    """Read the bytes of swap."""
    for line in meminfo.read_text().splitlines():
        name, _, amount = line.partition(":")
        if name == "SwapTotal":
            return int(amount.split()[0]) * _KIB
    return 0


def task_capacity(proc: Path = Path("/proc")) -> tuple[int, int]:
    """Return the maximum and the current number of tasks (pkg/kubelet/stats/pidlimit); raises OSError, ValueError."""
    most = min(int((proc / "sys/kernel" / limit).read_text()) for limit in ("pid_max", "threads-max"))
    return most, int((proc / "loadavg").read_text().split()[3].partition("/")[2])


def swap_accounted(hierarchies: Hierarchies) -> bool:
    """Report whether the kernel counts swap for each cgroup; v2's root has no file for it."""
    if hierarchies.v2 is not None:
        return next(hierarchies.v2.glob("*/memory.swap.max"), None) is not None
    memory = hierarchies.v1.get("memory")
    return memory is not None and (memory / "memory.memsw.limit_in_bytes").exists()


def this_node(hierarchies: Hierarchies | None = None) -> NodeResources:
    """Read the facts about this node that pods' resources depend on, with the kubelet's default settings."""
    found = hierarchies or Hierarchies.of_this_node()
    return NodeResources(
        memory_capacity=memory_capacity(),
        cgroup_v2=found.v2 is not None,
        huge_page_sizes=huge_page_sizes(),
        swap=NodeSwap(swap_accounted(found), swap_capacity()),
    )
