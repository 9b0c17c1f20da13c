"""The CPU manager: cpuManagerPolicy, its options, reservedSystemCPUs and cpuManagerReconcilePeriod.

The rules and their words are the kubelet's (cmd/kubelet/app/server.go getReservedCPUs, cm/cpumanager/cpu_manager.go NewManager). What
depends on the machine is checked, too, so a node that cannot do what its configuration says does not start.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from worker.settings.hardware.cpu_topology import read_topology
from worker.settings.kubelet.configuration import ConfigurationRefused, KubeletConfiguration
from worker.settings.kubelet.feature_gates import FeatureGates
from workflows.decide.cpus.cpu_sets import NONE, CpuListError, parse_cpus, written_cpus
from workflows.decide.cpus.options import ALPHA_GATE, BETA_GATE, Gates, OptionError, advice, parse_options, why_not_here
from workflows.decide.cpus.packed import CpusError
from workflows.decide.cpus.static_policy import StaticPolicy, static_policy
from workflows.decide.cpus.topology import Topology

POLICY: Final = "cpuManagerPolicy"
OPTIONS: Final = "cpuManagerPolicyOptions"
RESERVED: Final = "reservedSystemCPUs"
PERIOD: Final = "cpuManagerReconcilePeriod"
QUOTA_OFF_GATE: Final = "DisableCPUQuotaWithExclusiveCPUs"
STATIC: Final = "static"
NO_POLICY: Final = "none"
_TOPOLOGY_POLICY: Final = "topologyManagerPolicy"


@dataclass(frozen=True, slots=True)
class CpuManager:
    """The CPU manager of a node."""

    static: StaticPolicy | None = None
    """The machine and how its CPUs are given; None: the policy is none."""
    reconcile_every: timedelta = timedelta(seconds=10)
    is_quota_off: bool = True
    """Containers with CPUs of their own are not throttled."""

    @property
    def policy(self) -> str:
        """The policy's name."""
        return STATIC if self.static else NO_POLICY


def reserved_cpus(kubelet: KubeletConfiguration) -> int:
    """Count the CPUs of reservedSystemCPUs, which replace what is reserved of cpu otherwise; 0 if the key is not set."""
    return len(parse_cpus(kubelet[RESERVED] or ""))


def cpu_manager_breaches(kubelet: KubeletConfiguration, gates: FeatureGates) -> Iterator[str]:
    """List what is wrong whatever the machine is."""
    try:
        parse_cpus(kubelet[RESERVED] or "")
    except CpuListError as error:
        yield f"invalid configuration: unable to parse {RESERVED} (--reserved-cpus) {kubelet[RESERVED]}, error: {error}"
    policy, options = kubelet[POLICY] or NO_POLICY, kubelet[OPTIONS] or {}
    if policy not in (NO_POLICY, STATIC):
        yield f'{POLICY}: unknown policy: "{policy}"; it must be "{NO_POLICY}" or "{STATIC}"'
    elif policy == NO_POLICY and options:
        given = " ".join(f"{name}:{value}" for name, value in sorted(options.items()))
        yield f"{OPTIONS}: new none policy error: None policy: received unsupported options=map[{given}]; set {POLICY} to {STATIC}, or remove them"
    elif policy == STATIC:
        try:
            parse_options(options, _gates(gates))
        except OptionError as error:
            more = advice(options, _gates(gates))
            yield f"{OPTIONS}: new static policy error: {error}{more and f'; {more}'}"


def cpu_manager(
    kubelet: KubeletConfiguration,
    gates: FeatureGates,
    reserved_milli: int,
    read: Callable[[], Topology] = read_topology,
) -> CpuManager:
    """Read the keys for this machine, of which so many thousandths of CPUs are reserved; raises ConfigurationRefused."""
    every, quota_off = kubelet[PERIOD], gates.enabled(QUOTA_OFF_GATE)
    is_static = kubelet[POLICY] == STATIC
    if not (is_static or kubelet[RESERVED]):
        return CpuManager(None, every, quota_off)
    try:
        topology = read()
    except (OSError, ValueError) as error:
        raise ConfigurationRefused(f"{POLICY}: unable to discover CPU topology info: {error}") from error
    named = parse_cpus(kubelet[RESERVED] or "")
    if named - topology.places.cpus:
        online = written_cpus(topology.places.cpus)
        raise ConfigurationRefused(
            f"{RESERVED}: reserved-cpus: {kubelet[RESERVED]} is not a subset of online-cpus: {online}"
        )
    if not is_static:
        return CpuManager(None, every, quota_off)
    if not reserved_milli:
        raise ConfigurationRefused(
            f"{POLICY}: [cpumanager] unable to determine reserved CPU resources for static policy; set {RESERVED}, "
            "or cpu in kubeReserved or systemReserved"
        )
    options = parse_options(kubelet[OPTIONS] or {}, _gates(gates))
    try:
        why = why_not_here(options, topology, kubelet[_TOPOLOGY_POLICY] or NO_POLICY)
        policy = static_policy(topology, options, math.ceil(reserved_milli / 1000), named or NONE)
    except CpusError as error:
        raise ConfigurationRefused(f"{POLICY}: new static policy error: {error}") from error
    if why:
        raise ConfigurationRefused(f"{OPTIONS}: new static policy error: {why}")
    return CpuManager(policy, every, quota_off)


def _gates(gates: FeatureGates) -> Gates:
    return Gates(gates.enabled(ALPHA_GATE), gates.enabled(BETA_GATE))
