"""The machine's NUMA nodes, their memory and huge pages, and how far they are from each other, as cAdvisor reads them.

Read once at the start, if the configuration needs it (cAdvisor utils/sysinfo GetNodesInfo). A kernel without NUMA has one
node with all memory.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from activities.machine.node_capacity import huge_pages, memory_capacity
from worker.settings.hardware.numbered_folders import numbered_folders
from workflows.decide.memory_nodes.static_policy import NodeMemory
from workflows.decide.topology.numa_nodes import NumaNodes

FOLDER: Final = Path("/sys/devices/system/node")
_KIB: Final = 1024
_TOTAL: Final = re.compile(r"MemTotal:\s*([0-9]+) kB")


@dataclass(frozen=True, slots=True)
class MachineNodes:
    """What is read."""

    topology: NumaNodes
    memory: dict[int, NodeMemory] = field(default_factory=dict)


def read_nodes(folder: Path = FOLDER) -> MachineNodes:
    """Read it; raises OSError, and ValueError for a content that is none."""
    found = numbered_folders(folder, "node")
    if not found:
        pages = {size: total // size for size, total in huge_pages().items()}
        return MachineNodes(NumaNodes((0,), {0: {0: 10}}), {0: NodeMemory(memory_capacity(), pages)})
    numbers = tuple(sorted(found))
    distances = {number: row for number in numbers if (row := _distances(found[number] / "distance", numbers))}
    return MachineNodes(NumaNodes(numbers, distances), {number: _memory(found[number]) for number in numbers})


def _distances(file: Path, numbers: tuple[int, ...]) -> dict[int, int]:
    """Read the distances to all nodes that are online, in their order; none where the kernel does not tell."""
    try:
        row = [int(one) for one in file.read_text().split()]
    except FileNotFoundError:
        return {}
    return dict(zip(numbers, row, strict=True))


def _memory(folder: Path) -> NodeMemory:
    pages = {size: total // size for size, total in huge_pages(folder / "hugepages").items()}
    try:
        text = (folder / "meminfo").read_text()
    except FileNotFoundError:
        return NodeMemory(0, pages)
    total = _TOTAL.search(text)
    if total is None:
        raise ValueError(f"{folder / 'meminfo'}: no MemTotal")
    return NodeMemory(int(total[1]) * _KIB, pages)
