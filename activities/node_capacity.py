"""What the machine has of cpu and memory (cadvisor's MachineInfo, as the kubelet asks it)."""

import os


def memory_capacity() -> int:
    """Read the node's memory in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def cpu_capacity() -> int:
    """Count the node's processors, in thousandths."""
    return (os.cpu_count() or 1) * 1000
