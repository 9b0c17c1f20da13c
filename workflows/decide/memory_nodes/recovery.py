"""Who has memory of which NUMA nodes, by what the runtime says of its containers: for a node that has lost `memory_manager_state`.

A container of a guaranteed pod whose memory the kernel takes from certain nodes has so much of them as its limits say, for these are what
it asks for. Init containers that ended have nothing. No node gives more than it has.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from proto.cri.runtime_container import RuntimeContainer, as_believed
from proto.kubernetes.resources.huge_pages import page_size, page_size_name
from proto.kubernetes.resources.pod_totals import HUGE_PAGES
from workflows.decide.memory_nodes.amounts import MEMORY, Assignments, Block, Machine, with_block
from workflows.decide.memory_nodes.hints import have_enough
from workflows.decide.memory_nodes.requests import Sizes
from workflows.decide.topology.number_sets import read_set

_UNREADABLE: Final = "has memory of NUMA nodes that this machine does not have, or that cannot be read"


@dataclass(frozen=True, slots=True)
class Recovered:
    """What was found."""

    assignments: Assignments = field(default_factory=Assignments)
    ignored: tuple[str, ...] = ()
    """What was not taken back, one sentence each."""


def recovered(idle: Machine, found: Iterable[RuntimeContainer]) -> Recovered:
    """Return which containers have memory of which nodes: first those that run, then the older ones."""
    known, ignored = Assignments(idle), list[str]()
    everyone = tuple(found)
    for one in as_believed(everyone):
        if not one.is_guaranteed or not one.cpuset_mems or _has_ended(one, everyone):
            continue
        nodes = tuple(sorted(read_set(one.cpuset_mems, frozenset(idle)) or ()))
        sizes = _sizes(one, idle[nodes[0]].memory if nodes else ())
        if why := why_not(known.machine, nodes, sizes):
            ignored.append(f"{one} {why}")
            continue
        blocks = tuple(Block(nodes, resource, size) for resource, size in sizes.items())
        machine = known.machine
        for block in blocks:
            machine = with_block(machine, block)
        known = replace(known.with_blocks(one.uid, one.name, blocks), machine=machine)
    return Recovered(known if known.containers else Assignments(), tuple(ignored))


def why_not(machine: Machine, nodes: tuple[int, ...], sizes: Sizes) -> str:
    """Return why nodes do not have so much left for a container; empty if they do."""
    if not nodes or not sizes or any(resource not in machine[one].memory for one in nodes for resource in sizes):
        return _UNREADABLE
    if any(machine[one].assignments and machine[one].group != nodes for one in nodes):
        return "has memory of NUMA nodes that serve others together with other nodes"
    return "" if have_enough(machine, nodes, sizes) else "has more memory than its NUMA nodes have left"


def _sizes(one: RuntimeContainer, resources: Iterable[str]) -> dict[str, int]:
    """Return what a container asks for, memory first, of what the nodes have; nothing without a limit of memory."""
    if one.memory_limit <= 0:
        return {}
    pages = {page_size_name(page_size(name)): name for name in sorted(resources) if name.startswith(HUGE_PAGES)}
    asked = {name: one.huge_pages.get(size, 0) for size, name in pages.items()}
    return {MEMORY: one.memory_limit, **{name: size for name, size in asked.items() if size > 0}}


def _has_ended(one: RuntimeContainer, everyone: Sequence[RuntimeContainer]) -> bool:
    """Report whether it is an init container that has ended, or cannot be told from one: another one of its pod was made afterwards."""
    if one.is_up or not one.has_succeeded:
        return False
    return any(other.uid == one.uid and other.is_up and other.created_at >= one.finished_at for other in everyone)
