"""The static policy: memory of some NUMA nodes for containers of guaranteed pods.

The rules are pkg/kubelet/cm/memorymanager/policy_static.go.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from proto.kubernetes.resources.pod_totals import HUGE_PAGES
from proto.kubernetes.resources.quantity import bytes_quantity
from workflows.decide.memory_nodes.amounts import (
    MEMORY,
    Assignments,
    Block,
    Blocks,
    Machine,
    Node,
    Table,
    with_block,
    without_block,
)
from workflows.decide.memory_nodes.hints import have_enough, is_of_other_group, nodes_with_enough
from workflows.decide.memory_nodes.requests import ContainerRequest, MemoryNodesError, PodRequest, Sizes
from workflows.decide.topology.hints import Hint


class StateError(ValueError):
    """A state does not suit the machine, so the node must not start; the message is the kubelet's."""


@dataclass(frozen=True, slots=True)
class NodeMemory:
    """What one NUMA node has."""

    size: int
    """In bytes, huge pages included."""
    huge_pages: Mapping[int, int] = field(default_factory=dict)
    """How many there are, by size in bytes."""


def idle_machine(nodes: Mapping[int, NodeMemory], reserved: Mapping[int, Sizes]) -> Machine:
    """Return a machine on which no container has memory (getDefaultMachineState)."""
    return {number: _idle_node(number, has, reserved.get(number, {})) for number, has in nodes.items()}


def begun(idle: Machine, known: Assignments) -> Assignments:
    """Return what a node starts with: what is known if it suits the machine, else raises StateError."""
    if not known.machine:
        if known.containers:
            raise StateError("[memorymanager] machine state can not be empty when it has memory assignments")
        return replace(known, machine=idle)
    if not _are_alike(known.machine, machine_with(idle, known.containers)):
        raise StateError("[memorymanager] the expected machine state is different from the real one")
    return known


def begun_with_other_sizes(idle: Machine, known: Assignments) -> Assignments | None:
    """Return what is known, on NUMA nodes of other sizes than before; None if anything else differs, or if not all of it fits.

    What the kernel keeps of a node for itself differs from boot to boot. A kubelet does not start then (kubernetes/kubernetes#131253).
    """
    try:
        machine = machine_with(idle, known.containers)
    except StateError:
        return None
    is_same = _are_alike(_without_sizes(known.machine), _without_sizes(machine))
    return replace(known, machine=machine) if is_same else None


def machine_with(idle: Machine, containers: Mapping[str, Mapping[str, Blocks]]) -> Machine:
    """Return the machine on which these containers have their memory; raises StateError."""
    machine = idle
    for uid, given in sorted(containers.items()):
        for name, blocks in sorted(given.items()):
            for block in blocks:
                for node in block.nodes:
                    _refuse_unknown(machine, block, node, f"(pod: {uid}, container: {name})")
                machine = with_block(machine, block)
    return machine


def allocate(known: Assignments, pod: PodRequest, name: str, affinity: Hint) -> Assignments:
    """Give a container its memory, that of the nodes in `affinity` if they have it; raises MemoryNodesError."""
    container = pod.named(name)
    if not pod.is_pinned:
        return known
    if (has := known.of(pod.uid, name)) is not None:
        return _reusing(known, pod, container, has)
    sizes = container.sizes
    nodes = _nodes(known, pod, sizes, affinity)
    machine = known.machine
    for resource, size in sizes.items():
        reused = known.reusable_in(pod.uid, nodes, resource)
        machine = with_block(machine, Block(nodes, resource, max(0, size - reused)))
    blocks = tuple(Block(nodes, resource, size) for resource, size in sizes.items())
    known = _reusing(replace(known, machine=machine), pod, container, blocks)
    return _less_for_inits(known.with_blocks(pod.uid, name, blocks), pod, name, blocks)


def released(known: Assignments, uid: str, names: Iterable[str]) -> Assignments:
    """Take back the memory of containers of a pod."""
    for name in names:
        machine = known.machine
        for block in known.of(uid, name) or ():
            machine = without_block(machine, block)
        known = replace(known.without(uid, name), machine=machine)
    return known


def _idle_node(number: int, has: NodeMemory, reserved: Sizes) -> Node:
    pages = {f"{HUGE_PAGES}{bytes_quantity(size)}": size * count for size, count in has.huge_pages.items()}
    tables = {resource: _idle_table(total, total, reserved.get(resource, 0)) for resource, total in pages.items()}
    tables[MEMORY] = _idle_table(has.size, has.size - sum(pages.values()), reserved.get(MEMORY, 0))
    return Node((number,), tables)


def _idle_table(total: int, usable: int, reserved: int) -> Table:
    allocatable = max(0, usable - reserved)
    return Table(total, reserved, allocatable, 0, allocatable)


def _refuse_unknown(machine: Machine, block: Block, node: int, who: str) -> None:
    if node not in machine:
        raise StateError(f"[memorymanager] {who} the memory assignment uses the NUMA that does not exist")
    if block.resource not in machine[node].memory:
        raise StateError(f"[memorymanager] {who} the memory assignment uses memory resource that does not exist")


def _are_alike(known: Machine, expected: Machine) -> bool:
    """Compare amounts by group of nodes: how they lie within a group depends on the order of all assignments."""
    return known.keys() == expected.keys() and all(
        (node.assignments, node.group) == (expected[number].assignments, expected[number].group)
        and node.memory.keys() == expected[number].memory.keys()
        and all(
            _fixed(node.table(resource)) == _fixed(expected[number].table(resource))
            and _moving(known, node.group, resource) == _moving(expected, node.group, resource)
            for resource in node.memory
        )
        for number, node in known.items()
    )


def _fixed(table: Table) -> tuple[int, int, int]:
    return table.total, table.system_reserved, table.allocatable


def _moving(machine: Machine, group: tuple[int, ...], resource: str) -> tuple[int, int]:
    tables = [machine[one].table(resource) for one in group if one in machine]
    return sum(one.free for one in tables), sum(one.reserved for one in tables)


def _without_sizes(machine: Machine) -> Machine:
    """Leave out how much memory each node has, which is not its huge pages."""
    return {
        number: node.with_table(MEMORY, replace(node.table(MEMORY), total=0, allocatable=0, free=0))
        if MEMORY in node.memory
        else node
        for number, node in machine.items()
    }


def _nodes(known: Assignments, pod: PodRequest, sizes: Sizes, affinity: Hint) -> tuple[int, ...]:
    """Choose the nodes: those of the topology manager, more if these have too little, or the best if it names none."""
    best = affinity
    if best.nodes is None:
        hints = nodes_with_enough(known, pod.uid, sizes)
        if not hints:
            raise MemoryNodesError(
                "[memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough memory is available"
            )
        best = _better(hints, best, "default")
    nodes = best.nodes or ()
    if not have_enough(known.machine, nodes, sizes):
        hints = tuple(one for one in nodes_with_enough(known, pod.uid, sizes) if {*nodes} <= {*(one.nodes or ())})
        if not hints:
            raise MemoryNodesError("[memorymanager] failed to find NUMA nodes to extend the current topology hint")
        nodes = _better(hints, best, "extended").nodes or ()
    if is_of_other_group(known.machine, nodes):
        raise MemoryNodesError("[memorymanager] preferred hint violates NUMA node allocation")
    return nodes


def _better(hints: Iterable[Hint], than: Hint, what: str) -> Hint:
    """Return the preferred hint with the fewest nodes, the lower ones first (findBestHint)."""
    best = min(hints, key=lambda one: (not one.preferred, len(one.nodes or ()), (one.nodes or ())[::-1]))
    if than.preferred and not best.preferred:
        raise MemoryNodesError(f"[memorymanager] failed to find the {what} preferred hint")
    return best


def _reusing(known: Assignments, pod: PodRequest, container: ContainerRequest, blocks: Blocks) -> Assignments:
    """Let the next containers of the pod have what an init container has that ends; take from that what others have."""
    reusable = {nodes: dict(sizes) for nodes, sizes in known.reusable.items()} if known.reusable_by == pod.uid else {}
    for block in blocks:
        sizes = reusable.setdefault(block.nodes, {})
        before = sizes.get(block.resource, 0)
        sizes[block.resource] = max(before, block.size) if container.ends else max(0, before - block.size)
    return replace(known, reusable_by=pod.uid, reusable=reusable)


def _less_for_inits(known: Assignments, pod: PodRequest, name: str, blocks: Blocks) -> Assignments:
    """Write down less for init containers that ended, so that the pod's blocks add up to what it takes of the machine."""
    left = {(block.nodes, block.resource): block.size for block in blocks}
    for init in pod.ended_before(name):
        fewer = []
        for block in known.of(pod.uid, init) or ():
            place = (block.nodes, block.resource)
            part = min(left.get(place, 0), block.size)
            left[place] = left.get(place, 0) - part
            fewer.append(replace(block, size=block.size - part))
        if fewer:
            known = known.with_blocks(pod.uid, init, tuple(fewer))
    return known
