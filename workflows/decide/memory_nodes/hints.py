"""Which NUMA nodes could give a container its memory: the hints for the topology manager.

The rules are calculateHints, regenerateHints, GetTopologyHints and GetPodTopologyHints in
pkg/kubelet/cm/memorymanager/policy_static.go. A node serves either containers by itself or a group of nodes, never both.
"""

from itertools import combinations

from workflows.decide.memory_nodes.amounts import Assignments, Blocks, Machine
from workflows.decide.memory_nodes.requests import MemoryNodesError, PodRequest, Sizes
from workflows.decide.topology.hints import Hint, ProviderHints


def container_hints(known: Assignments, pod: PodRequest, name: str) -> ProviderHints:
    """Return the hints for one container."""
    container = pod.named(name)
    if not pod.is_pinned or container.amounts is None:
        return {}
    if (has := known.of(pod.uid, name)) is not None:
        return _known_hints(has, container.amounts)
    return _by_resource(container.amounts, nodes_with_enough(known, pod.uid, container.amounts))


def pod_hints(known: Assignments, pod: PodRequest) -> ProviderHints:
    """Return the hints for a whole pod."""
    try:
        sizes = pod.sizes if pod.is_pinned else {}
    except MemoryNodesError:
        sizes = {}
    if not sizes:
        return {}
    for container in pod.containers:
        if (has := known.of(pod.uid, container.name)) is not None:
            return _known_hints(has, sizes)
    return _by_resource(sizes, nodes_with_enough(known, pod.uid, sizes))


def nodes_with_enough(known: Assignments, uid: str, sizes: Sizes) -> tuple[Hint, ...]:
    """Return each set of nodes that can give all of it."""
    machine, least = known.machine, len(known.machine)
    found: list[tuple[int, ...]] = []
    for size in range(1, len(machine) + 1):
        for nodes in combinations(sorted(machine), size):
            if any(_sum(machine, nodes, one, "allocatable") < wanted for one, wanted in sizes.items()):
                continue
            least = min(least, size)
            if is_of_other_group(machine, nodes) or (size == 1 and len(machine[nodes[0]].group) > 1):
                continue
            if all(
                _sum(machine, nodes, one, "free") + known.reusable_in(uid, nodes, one) >= wanted
                for one, wanted in sizes.items()
            ):
                found.append(nodes)
    return tuple(Hint(nodes, len(nodes) == least) for nodes in found)


def have_enough(machine: Machine, nodes: tuple[int, ...], sizes: Sizes) -> bool:
    """Say whether nodes have all of it left (isAffinitySatisfyRequest)."""
    return all(_sum(machine, nodes, resource, "free") >= wanted for resource, wanted in sizes.items())


def is_of_other_group(machine: Machine, nodes: tuple[int, ...]) -> bool:
    """Say whether one of several nodes serves containers by itself or with other nodes."""
    return len(nodes) > 1 and any(machine[one].assignments and machine[one].group != nodes for one in nodes)


def _sum(machine: Machine, nodes: tuple[int, ...], resource: str, field: str) -> int:
    return sum(getattr(machine[one].table(resource), field) for one in nodes)


def _known_hints(has: Blocks, sizes: Sizes) -> ProviderHints:
    """Return where a container already has its memory; nothing if it has other amounts."""
    if {one.resource: one.size for one in has} != dict(sizes) or len(has) != len(sizes):
        return {}
    return {one.resource: (Hint(one.nodes, preferred=True),) for one in has}


def _by_resource(sizes: Sizes, hints: tuple[Hint, ...]) -> ProviderHints:
    return dict.fromkeys(sizes, hints) if hints else {}
