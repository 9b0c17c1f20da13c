"""What the machine has of cpu, memory and disk (cadvisor's MachineInfo, as the kubelet asks it)."""

import os
from pathlib import Path


def memory_capacity() -> int:
    """Read the node's memory in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def cpu_capacity() -> int:
    """Count the node's processors, in thousandths."""
    return (os.cpu_count() or 1) * 1000


def storage_capacity(directory: Path) -> int:
    """Read the size in bytes of the file system that a directory lies on, or will lie on; raises OSError."""
    while not directory.exists() and directory != directory.parent:
        directory = directory.parent
    found = os.statvfs(directory)
    return found.f_frsize * found.f_blocks


def throttle_paths(cpus: Path = Path("/sys/devices/system/cpu")) -> tuple[str, ...]:
    """List the files that tell how often a processor was slowed down for its heat, which a container must not see."""
    found = cpus.glob("cpu[0-9]*/thermal_throttle")
    return tuple(str(one) for one in sorted(found, key=lambda one: int(one.parent.name.removeprefix("cpu"))))


def apparmor_enabled(system: Path = Path("/sys")) -> bool:
    """Say whether the kernel confines by AppArmor (as github.com/opencontainers/runc asks it)."""
    if not (system / "kernel/security/apparmor").exists():
        return False
    try:
        return (system / "module/apparmor/parameters/enabled").read_text().startswith("Y")
    except OSError:
        return False
