"""The topology manager: topologyManagerPolicy, its scope and its options.

The rules and their words are the kubelet's (apis/config/validation/validation.go, cm/topologymanager NewManager). What
depends on the machine is checked, too.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from proto.kubernetes.go_quote import go_quoted
from worker.settings.hardware.numa_nodes import MachineNodes, read_nodes
from worker.settings.kubelet.configuration import ConfigurationRefused, KubeletConfiguration
from workflows.decide.topology.numa_nodes import NumaNodes
from workflows.decide.topology.options import advice, option_faults
from workflows.decide.topology.policies import NONE, POLICIES, Policy
from workflows.decide.topology.scopes import (
    CONTAINER,
    SCOPES,
    TopologyManager,
    TopologyManagerError,
    topology_manager,
)

POLICY: Final = "topologyManagerPolicy"
SCOPE: Final = "topologyManagerScope"
OPTIONS: Final = "topologyManagerPolicyOptions"
NO_ALIGNMENT: Final = TopologyManager(Policy(NONE, NumaNodes((0,))), CONTAINER)


def topology_manager_breaches(kubelet: KubeletConfiguration) -> Iterator[str]:
    """List what is wrong whatever the machine is."""
    policy, scope = kubelet[POLICY] or NONE, kubelet[SCOPE] or CONTAINER
    if policy not in POLICIES:
        yield (
            f"invalid configuration: {POLICY} (--topology-manager-policy) {go_quoted(policy)} must be one of: "
            f"{_listed(POLICIES)}"
        )
    if scope not in SCOPES:
        yield (
            f"invalid configuration: {SCOPE} (--topology-manager-scope) {go_quoted(scope)} must be one of: "
            f"{', or '.join(map(go_quoted, SCOPES))}"
        )
    if policy != NONE:  # the kubelet does not look at them otherwise
        for name, value in (kubelet[OPTIONS] or {}).items():
            yield from (f"{OPTIONS}: {why}; {advice({name: value})}" for why in option_faults({name: value}))


def topology_manager_of(
    kubelet: KubeletConfiguration, read: Callable[[], MachineNodes] = read_nodes
) -> TopologyManager:
    """Read the keys for this machine; raises ConfigurationRefused."""
    policy, scope = kubelet[POLICY] or NONE, kubelet[SCOPE] or CONTAINER
    if policy == NONE:
        return NO_ALIGNMENT
    try:
        return topology_manager(policy, scope, kubelet[OPTIONS] or {}, read().topology)
    except TopologyManagerError as error:
        raise ConfigurationRefused(f"{POLICY}: {error}") from error
    except (OSError, ValueError) as error:
        raise ConfigurationRefused(f"{POLICY}: cannot discover NUMA topology: {error}") from error


def _listed(names: Sequence[str]) -> str:
    return f"[{' '.join(map(go_quoted, names))}]"
