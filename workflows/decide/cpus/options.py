"""The options of the static policy, and what is wrong with them, in the kubelet's words.

The rules are pkg/kubelet/cm/cpumanager/policy_options.go.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from proto.kubernetes.go_quote import go_quoted
from workflows.decide.cpus.topology import Topology

FULL_CORES: Final = "full-pcpus-only"
STRICT_RESERVATION: Final = "strict-cpu-reservation"
ALIGN_BY_CACHE: Final = "prefer-align-cpus-by-uncorecache"
ACROSS_NODES: Final = "distribute-cpus-across-numa"
ALIGN_BY_SOCKET: Final = "align-by-socket"
ACROSS_CORES: Final = "distribute-cpus-across-cores"

ALPHA_GATE: Final = "CPUManagerPolicyAlphaOptions"
BETA_GATE: Final = "CPUManagerPolicyBetaOptions"
SINGLE_NODE: Final = "single-numa-node"
"""The policy of the topology manager that align-by-socket contradicts."""

_ALPHA: Final = frozenset({ALIGN_BY_SOCKET, ACROSS_CORES})
_BETA: Final = frozenset({ACROSS_NODES})
_STABLE: Final = frozenset({FULL_CORES, STRICT_RESERVATION, ALIGN_BY_CACHE})
_EXCLUDING: Final = (
    (FULL_CORES, ACROSS_CORES),
    (ACROSS_NODES, ACROSS_CORES),
    (ALIGN_BY_CACHE, ACROSS_CORES),
    (ALIGN_BY_CACHE, ACROSS_NODES),
)
"""Pairs that exclude each other, in the order in which the kubelet looks at them."""
_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})
"""The values of Go's strconv.ParseBool."""


@dataclass(frozen=True, slots=True)
class Gates:
    """The feature gates of options, with their defaults."""

    alpha: bool = False
    beta: bool = True


@dataclass(frozen=True, slots=True)
class Options:
    """Parsed cpuManagerPolicyOptions."""

    full_cores: bool = False
    strict_reservation: bool = False
    align_by_cache: bool = False
    across_nodes: bool = False
    align_by_socket: bool = False
    across_cores: bool = False


class OptionError(ValueError):
    """An option is invalid; the message is the kubelet's."""


def parse_options(given: Mapping[str, str], gates: Gates) -> Options:
    """Parse options without faults; raises OptionError."""
    if why := next(option_faults(given, gates), ""):
        raise OptionError(why)
    on = _switched_on(given)
    return Options(
        full_cores=FULL_CORES in on,
        strict_reservation=STRICT_RESERVATION in on,
        align_by_cache=ALIGN_BY_CACHE in on,
        across_nodes=ACROSS_NODES in on,
        align_by_socket=ALIGN_BY_SOCKET in on,
        across_cores=ACROSS_CORES in on,
    )


def option_faults(given: Mapping[str, str], gates: Gates) -> Iterator[str]:
    """List what is wrong: each option by itself, of which the kubelet names one at random, or the first pair."""
    alone = [why for name, value in given.items() if (why := _fault(name, value, gates))]
    if alone:
        yield from alone
        return
    on = _switched_on(given)
    for one, other in _EXCLUDING:
        if one in on and other in on:
            yield f"static policy options {one} and {other} can not be used at the same time"
            return


def advice(given: Mapping[str, str], gates: Gates) -> str:
    """Say what to do about the fault that `parse_options` raises, where the kubelet's words do not; empty if there is no more to say."""
    name = next((name for name, value in given.items() if _fault(name, value, gates)), "")
    if not name:
        return ""
    if name in _ALPHA and not gates.alpha:
        return f"set the feature gate {ALPHA_GATE} to true, or remove the option"
    if name in _BETA and not gates.beta:
        return f"set the feature gate {BETA_GATE} to true, or remove the option"
    if name in _ALPHA | _BETA | _STABLE:
        return "the value must be true or false"
    return (
        f"the options are {', '.join(sorted(_STABLE))}, with the feature gate {BETA_GATE} {', '.join(sorted(_BETA))}, "
        f"and with {ALPHA_GATE} {', '.join(sorted(_ALPHA))}"
    )


def why_not_here(options: Options, topology: Topology, topology_policy: str) -> str:
    """Return why options do not suit the machine; empty if they do. The spelling is the kubelet's."""
    if not options.align_by_socket:
        return ""
    if topology_policy == SINGLE_NODE:
        return f"Topolgy manager {SINGLE_NODE} policy is incompatible with CPUManager {ALIGN_BY_SOCKET} policy option"
    if topology.sockets > topology.nodes:
        return "Align by socket is not compatible with hardware where number of sockets are more than number of NUMA"
    return ""


def _switched_on(given: Mapping[str, str]) -> frozenset[str]:
    return frozenset(name for name, value in given.items() if value in _TRUE)


def _fault(name: str, value: str, gates: Gates) -> str:
    if name not in _ALPHA | _BETA | _STABLE:
        return f"unknown CPU Manager Policy option: {go_quoted(name)}"
    if name in _ALPHA and not gates.alpha:
        return f"CPU Manager Policy Alpha-level Options not enabled, but option {go_quoted(name)} provided"
    if name in _BETA and not gates.beta:
        return f"CPU Manager Policy Beta-level Options not enabled, but option {go_quoted(name)} provided"
    if value not in _TRUE | _FALSE:
        return f"bad value for option {go_quoted(name)}: strconv.ParseBool: parsing {go_quoted(value)}: invalid syntax"
    return ""
