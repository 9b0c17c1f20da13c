"""Which NUMA nodes could give a container its CPUs: the hints for the topology manager.

The rules are GetTopologyHints, GetPodTopologyHints and generateCPUTopologyHints in
pkg/kubelet/cm/cpumanager/policy_static.go.
"""

from itertools import combinations

from workflows.decide.cpus.cpu_sets import NONE, Cpus
from workflows.decide.cpus.requests import PodRequest
from workflows.decide.cpus.static_policy import Assignments, StaticPolicy
from workflows.decide.topology.hints import Hint, Hints


def container_hints(policy: StaticPolicy, known: Assignments, pod: PodRequest, name: str) -> Hints:
    """Return the hints for one container."""
    wanted = pod.named(name).cpus
    if not wanted:
        return None
    if (has := known.of(pod.uid, name)) is not None:
        return _hints(policy, has, NONE, wanted) if len(has) == wanted else ()
    return _hints(policy, policy.available(known), known.reusable_in(pod.uid), wanted)


def pod_hints(policy: StaticPolicy, known: Assignments, pod: PodRequest) -> Hints:
    """Return the hints for a whole pod."""
    wanted = pod.cpus
    if not wanted:
        return None
    assigned = NONE
    for container in pod.containers:
        if (has := known.of(pod.uid, container.name)) is not None:
            if len(has) != container.cpus:
                return ()
            assigned |= has
    if len(assigned) == wanted:
        return _hints(policy, assigned, NONE, wanted)
    return _hints(policy, policy.available(known), known.reusable_in(pod.uid) | assigned, wanted)


def _hints(policy: StaticPolicy, available: Cpus, reusable: Cpus, wanted: int) -> tuple[Hint, ...]:
    places = policy.topology.places
    every = sorted(places.nodes)
    least = len(every)
    found: list[tuple[int, ...]] = []
    for size in range(1, len(every) + 1):
        for nodes in combinations(every, size):
            inside = places.in_nodes(*nodes)
            if len(inside) >= wanted:
                least = min(least, size)
            if reusable <= inside and len(reusable) + len(available & inside) >= wanted:
                found.append(nodes)
    return tuple(Hint(nodes, len(nodes) == least or _is_by_socket(policy, nodes, least)) for nodes in found)


def _is_by_socket(policy: StaticPolicy, nodes: tuple[int, ...], least: int) -> bool:
    """Say whether nodes lie in as few sockets as could have enough: isHintSocketAligned."""
    if not policy.options.align_by_socket:
        return False
    per_socket = policy.topology.nodes // policy.topology.sockets
    if not per_socket:
        return False
    return len(policy.topology.places.sockets_of_nodes(*nodes)) == (least + per_socket - 1) // per_socket
