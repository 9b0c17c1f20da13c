"""How much memory each NUMA node has, reserves and has left; and who has what of it.

The types are pkg/kubelet/cm/memorymanager/state/state.go.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

MEMORY: Final = "memory"
"""The resource beside the sizes of huge pages (`hugepages-2Mi`)."""


@dataclass(frozen=True, slots=True)
class Table:
    """One resource of one node, in bytes."""

    total: int = 0
    system_reserved: int = 0
    allocatable: int = 0
    reserved: int = 0
    """What containers have."""
    free: int = 0

    def more(self, size: int) -> "Table":
        """Give so much to a container, or take it back if it is negative."""
        return replace(self, reserved=self.reserved + size, free=self.free - size)


@dataclass(frozen=True, slots=True)
class Node:
    """One NUMA node."""

    group: tuple[int, ...]
    """This node and those that serve containers together with it (Cells)."""
    memory: Mapping[str, Table] = field(default_factory=dict)
    """By resource."""
    assignments: int = 0
    """How many blocks there are of it."""

    def table(self, resource: str) -> Table:
        """Return what it has of a resource, which may be nothing."""
        return self.memory.get(resource, Table())

    def with_table(self, resource: str, table: Table) -> "Node":
        """Replace one resource."""
        return replace(self, memory={**self.memory, resource: table})


Machine = Mapping[int, Node]


@dataclass(frozen=True, slots=True)
class Block:
    """What a container has of one resource."""

    nodes: tuple[int, ...]
    """In ascending order."""
    resource: str
    size: int
    """In bytes; less than the container asked for if the next containers of the pod have a part of it."""


Blocks = tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Assignments:
    """Which memory belongs to whom."""

    machine: Machine = field(default_factory=dict)
    containers: Mapping[str, Mapping[str, Blocks]] = field(default_factory=dict)
    """By uid of the pod and name of the container."""
    reusable_by: str = ""
    """The pod that was given memory last."""
    reusable: Mapping[tuple[int, ...], Mapping[str, int]] = field(default_factory=dict)
    """What its init containers have, by nodes and resource, and its next containers may have, too."""

    def of(self, uid: str, name: str) -> Blocks | None:
        """Return a container's blocks; None if it is not known."""
        return self.containers.get(uid, {}).get(name)

    def nodes_of(self, uid: str, name: str) -> tuple[int, ...]:
        """Return the NUMA nodes for a container's cpuset.mems; none: it may use all (GetMemoryNUMANodes)."""
        return tuple(sorted({node for block in self.of(uid, name) or () for node in block.nodes}))

    def with_blocks(self, uid: str, name: str, blocks: Blocks) -> "Assignments":
        """Note what a container has."""
        return replace(self, containers={**self.containers, uid: {**self.containers.get(uid, {}), name: blocks}})

    def without(self, uid: str, name: str) -> "Assignments":
        """Forget a container."""
        others = {other: blocks for other, blocks in self.containers.get(uid, {}).items() if other != name}
        containers = {pod: given for pod, given in self.containers.items() if pod != uid}
        return replace(self, containers=containers | ({uid: others} if others else {}))

    def reusable_in(self, uid: str, nodes: tuple[int, ...], resource: str) -> int:
        """Return how much a pod's next container may have of its init containers."""
        return self.reusable.get(nodes, {}).get(resource, 0) if uid == self.reusable_by else 0


def with_block(machine: Machine, block: Block) -> Machine:
    """Take a block from its nodes, the lower ones first (updateMachineState)."""
    changed, left = dict(machine), block.size
    for number in block.nodes:
        node = machine[number]
        part = min(left, node.table(block.resource).free)
        left -= part
        node = replace(node, assignments=node.assignments + 1, group=block.nodes)
        changed[number] = node.with_table(block.resource, node.table(block.resource).more(part)) if part else node
    return changed


def without_block(machine: Machine, block: Block) -> Machine:
    """Give a block back to its nodes, the lower ones first (releaseMemory)."""
    changed, left = dict(machine), block.size
    for number in block.nodes:
        node = machine[number]
        part = min(left, node.table(block.resource).reserved)
        left -= part
        assignments = node.assignments - 1
        node = replace(node, assignments=assignments, group=node.group if assignments else (number,))
        changed[number] = node.with_table(block.resource, node.table(block.resource).more(-part)) if part else node
    return changed
