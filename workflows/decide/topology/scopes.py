"""For whom hints are merged: each container by itself, or the pod as a whole.

The rules are pkg/kubelet/cm/topologymanager/scope*.go and NewManager in topology_manager.go, with the gate
PodLevelResourceManagers off. The caller gives a container its resources before it asks for the next container's nodes,
because the next hints depend on what is taken.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from workflows.decide.topology.hints import Hint, ProviderHints
from workflows.decide.topology.numa_nodes import NumaNodes
from workflows.decide.topology.options import parse_options
from workflows.decide.topology.policies import NONE, POLICIES, Policy

CONTAINER: Final = "container"
POD: Final = "pod"
SCOPES: Final = (CONTAINER, POD)

REASON: Final = "TopologyAffinityError"
"""The reason of a pod that is refused for its NUMA nodes."""
MESSAGE: Final = "Resources cannot be allocated with Topology locality"


class TopologyAffinityError(Exception):
    """The resources of a pod do not lie in NUMA nodes as the policy demands."""

    def __init__(self) -> None:
        super().__init__(MESSAGE)


class TopologyManagerError(ValueError):
    """The manager cannot work on this machine, so the node must not start; the message is the kubelet's."""


class Provider(Protocol):
    """Who gives CPUs, memory or devices to one pod."""

    def container_hints(self, name: str) -> ProviderHints:
        """Return the hints for one container."""

    def pod_hints(self) -> ProviderHints:
        """Return the hints for the whole pod."""


@dataclass(frozen=True, slots=True)
class TopologyManager:
    """The policy and the scope of one node."""

    policy: Policy
    scope: str

    def affinities(self, containers: Sequence[str], providers: Sequence[Provider]) -> Iterator[tuple[str, Hint]]:
        """Yield each container with the nodes to take from, init containers first; raises TopologyAffinityError."""
        if self.policy.name == NONE:
            whole: Hint | None = self._merged([])
        else:
            whole = self._merged([one.pod_hints() for one in providers]) if self.scope == POD else None
        for name in containers:
            yield name, whole or self._merged([one.container_hints(name) for one in providers])

    def _merged(self, hints: Sequence[ProviderHints]) -> Hint:
        merged = self.policy.merge(hints)
        if not merged.is_admitted:
            raise TopologyAffinityError
        return merged.hint


def topology_manager(policy: str, scope: str, given: Mapping[str, str], machine: NumaNodes) -> TopologyManager:
    """Make the manager of a machine; raises OptionError and TopologyManagerError."""
    if policy == NONE:  # the kubelet looks at neither scope nor options
        return TopologyManager(Policy(NONE, machine), scope)
    options = parse_options(given)
    if options.closest and not all(one in machine.distances for one in machine.nodes):
        raise TopologyManagerError("cannot discover NUMA topology: error getting NUMA distances from cadvisor")
    if len(machine.nodes) > options.most_nodes:
        raise TopologyManagerError(f"unsupported on machines with more than {options.most_nodes} NUMA Nodes")
    if policy not in POLICIES:
        raise TopologyManagerError(f'unknown policy: "{policy}"')
    if scope not in SCOPES:
        raise TopologyManagerError(f'unknown scope: "{scope}"')
    return TopologyManager(Policy(policy, machine, options), scope)
