"""Everything an operator can configure, as one frozen `NodeConfig`.

Three sources, the later ones take precedence: KubeletConfiguration (`--config`, `--config-dir`), our own file
(`--tempolet-config`) for settings that a kubelet does not have, and flags with the kubelet's names. Loaded once at the
start of each command; warnings are returned in `warnings`, because logging is not set up before the configuration is
read.
"""

import ipaddress
import os
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from proto.kubernetes.user_ids import UNIT
from proto.temporal.eviction.thresholds import EvictionPolicy
from proto.temporal.node import ImagePolicy
from worker.settings.cgroups.agent import AgentProcesses, agent_processes, agent_warnings, why_upward
from worker.settings.cgroups.enforcement import Enforcement, enforcement
from worker.settings.cgroups.qos_reserved import qos_reserved, qos_reserved_warnings
from worker.settings.cluster import ClusterSettings, cluster_settings
from worker.settings.credential_providers.providers import CredentialProviders, load_credential_providers
from worker.settings.eviction import eviction_policy
from worker.settings.flags import Flags
from worker.settings.hardware.cpu_manager import CpuManager, cpu_manager
from worker.settings.hardware.memory_manager import MemoryManager, memory_manager
from worker.settings.hardware.topology_manager import NO_ALIGNMENT, topology_manager_of
from worker.settings.images import ImagePulls, image_policy, image_pulls
from worker.settings.in_force import in_force
from worker.settings.kubelet.configuration import (
    ConfigurationRefused,
    KubeletConfiguration,
    load_kubelet_configuration,
)
from worker.settings.kubelet.feature_gates import (
    PROVIDER_TOKENS_GATE,
    FeatureGates,
    GateRefused,
    gate_warnings,
    parse_gate_flag,
    set_gates,
)
from worker.settings.kubelet.shutdown import shutdown_periods
from worker.settings.kubelet_validation import validate
from worker.settings.log_rotation import DEFAULT_CONTAINER_LOGS, ContainerLogs, container_logs
from worker.settings.memory import DEFAULT_MEMORY, MemorySettings, memory_settings, refuse_what_this_node_has_not
from worker.settings.reserved import NOTHING_RESERVED, Reserved, kept_memory, refuse_more_than_the_machine, reserved
from worker.settings.tempolet_configuration import TempoletConfiguration, load_tempolet_configuration
from workflows.decide.shutdown.periods import Period
from workflows.decide.topology.scopes import TopologyManager

DEFAULT_ROOT_DIR: Final = Path("/var/lib/kubelet")
STATE_DIRECTORY: Final = "tempolet"
DEFAULT_TRACING_ENDPOINT: Final = "localhost:4317"  # the kubelet's
_CGROUP_V2: Final = Path("/sys/fs/cgroup/cgroup.controllers")  # exists only if cgroup v2 is mounted alone
_UNBOUNDED_BACKOFF: Final = timedelta(seconds=300)  # the gate KubeletCrashLoopBackOffMax is off
_AS_THEY_STAND: Final[Mapping[str, str]] = {
    "container_runtime_endpoint": "containerRuntimeEndpoint",
    "file_check_frequency": "fileCheckFrequency",
    "sync_frequency": "syncFrequency",
    "local_storage_limits": "localStorageCapacityIsolation",
    "pod_pids_limit": "podPidsLimit",
    "cgroup_driver": "cgroupDriver",
    "cpu_cfs_quota": "cpuCFSQuota",
    "cpu_cfs_quota_period": "cpuCFSQuotaPeriod",
    "seccomp_default": "seccompDefault",
    "max_pods": "maxPods",
    "healthz_bind_address": "healthzBindAddress",
    "healthz_port": "healthzPort",
}
"""Fields of `NodeConfig` that are copied from a key of KubeletConfiguration."""


@dataclass(frozen=True, slots=True)
class Dns:
    """What a pod's resolv.conf is built from."""

    cluster_dns: tuple[str, ...] = ()
    cluster_domain: str = ""
    resolv_conf: str = "/etc/resolv.conf"
    """The node's; empty: pods with dnsPolicy Default get none."""


@dataclass(frozen=True, slots=True)
class Logging:
    """Log format and verbosity."""

    format: str = "text"
    """text (klog) or json."""
    verbosity: int = 0


@dataclass(frozen=True, slots=True)
class ManifestUrlSettings:
    """The URL of static pods: staticPodURL."""

    url: str = ""
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """May hold credentials."""
    every: timedelta = timedelta(seconds=20)
    """httpCheckFrequency."""


@dataclass(frozen=True, slots=True)
class Tracing:
    """Where spans are sent; set if KubeletConfiguration has a tracing block."""

    endpoint: str = DEFAULT_TRACING_ENDPOINT
    sampling_rate_per_million: int = 0


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """One node's complete and validated configuration."""

    node_name: str
    root_dir: Path = DEFAULT_ROOT_DIR
    node_ips: tuple[str, ...] = ()
    """From --node-ip; empty: the node's default address."""
    lock_file: Path | None = None
    """--lock-file, in addition to the node's own lock."""
    runtime_cgroup: str = ""
    """--runtime-cgroups: where the container runtime was started; it is only measured."""
    container_runtime_endpoint: str = "unix:///run/containerd/containerd.sock"
    static_pod_path: Path | None = None
    file_check_frequency: timedelta = timedelta(seconds=20)
    manifest_url: ManifestUrlSettings = ManifestUrlSettings()
    sync_frequency: timedelta = timedelta(minutes=1)
    pod_logs_dir: Path = Path("/var/log/pods")
    container_logs: ContainerLogs = DEFAULT_CONTAINER_LOGS
    cgroup_root: str = ""
    cgroup_driver: str = "cgroupfs"
    """The key; counts only if the runtime cannot tell its driver."""
    local_storage_limits: bool = True
    """Pods that exceed a limit are evicted: localStorageCapacityIsolation."""
    pod_pids_limit: int = -1
    reserved: Reserved = NOTHING_RESERVED
    """Resources reserved from pods."""
    cpu_manager: CpuManager = field(default_factory=CpuManager)
    """Which CPUs containers may have to themselves."""
    memory_manager: MemoryManager = field(default_factory=MemoryManager)
    """From which NUMA nodes they have their memory."""
    topology_manager: TopologyManager = NO_ALIGNMENT
    """Which NUMA nodes CPUs, memory and devices come from together."""
    enforcement: Enforcement = field(default_factory=Enforcement)
    """The cgroups that are limited accordingly."""
    qos_reserved: int | None = None
    """The percentage of memory requests that is kept from lower QoS classes; None: no limit."""
    agent: AgentProcesses = field(default_factory=AgentProcesses)
    """The node's own processes."""
    eviction: EvictionPolicy = field(default_factory=EvictionPolicy)
    """When pods are evicted under pressure; hard thresholds are reserved from pods, too."""
    shutdown: tuple[Period, ...] = ()
    """How long pods of which priority get when the machine goes down; empty: nothing waits for them."""
    cpu_cfs_quota: bool = True
    cpu_cfs_quota_period: timedelta = timedelta(milliseconds=100)
    memory: MemorySettings = DEFAULT_MEMORY
    seccomp_default: bool = False
    allowed_unsafe_sysctls: tuple[str, ...] = ()
    user_ids_per_pod: int = UNIT
    protect_kernel_defaults: bool | None = None
    """None: no file has the key, and the kernel's settings are left alone."""
    max_pods: int = 110
    max_container_restart_period: timedelta = timedelta(seconds=300)
    healthz_bind_address: str = "127.0.0.1"
    healthz_port: int = 10248
    """0: no healthz endpoint."""
    pulls: ImagePulls = field(default_factory=ImagePulls)
    image_policy: ImagePolicy = field(default_factory=ImagePolicy)
    credential_providers: CredentialProviders = field(default_factory=CredentialProviders)
    dns: Dns = Dns()
    logging: Logging = Logging()
    tracing: Tracing | None = None
    feature_gates: FeatureGates = field(default_factory=FeatureGates)
    tempolet: TempoletConfiguration = field(default_factory=TempoletConfiguration)
    cluster: ClusterSettings | None = None
    """None: a standalone node."""
    kubelet: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The KubeletConfiguration in force: only for /configz."""
    flags: Mapping[str, str] = field(default_factory=dict)
    """The flags that were given: for /flagz."""
    warnings: tuple[str, ...] = ()

    @property
    def state_dir(self) -> Path:
        """Return the folder of tempolet's own files on a node (locks, keys)."""
        return self.root_dir / STATE_DIRECTORY

    @property
    def objects_dir(self) -> Path:
        """Return the folder of the ConfigMaps, Secrets and other objects that manifests refer to."""
        if folder := self.tempolet.objects.folder:
            return folder
        return (self.static_pod_path.parent if self.static_pod_path else self.state_dir) / "objects"

    @property
    def payload_key_file(self) -> Path:
        """Return the file of the keys that encrypt payloads."""
        return self.tempolet.temporal.payload_key_file or self.state_dir / "payload.keys"

    @property
    def codec_token_file(self) -> Path:
        """Return the file of the codec endpoint's token."""
        return self.tempolet.codec.token_file or self.state_dir / "codec.token"

    @property
    def start_limit(self) -> int:
        """Return how many Run, Create and Start calls the runtime gets concurrently: more only compete for CPU."""
        return self.tempolet.runtime.start_limit or 2 * (os.cpu_count() or 2)


def load_node_config(flags: Flags) -> NodeConfig:
    """Load and validate everything; raises ConfigurationRefused with one line that names source and key."""
    own = load_tempolet_configuration(flags.tempolet_config)
    kubelet, gates = _checked(flags)
    root_dir = (flags.root_dir or DEFAULT_ROOT_DIR).absolute()
    refuse_more_than_the_machine(kubelet, eviction_policy(kubelet), root_dir)
    return NodeConfig(
        **{name: kubelet[key] for name, key in _AS_THEY_STAND.items()},
        node_name=node_name(flags.hostname_override),
        root_dir=root_dir,
        node_ips=node_ips(flags.node_ip),
        lock_file=flags.lock_file,
        runtime_cgroup=_runtime_cgroup(flags.runtime_cgroups),
        static_pod_path=Path(kubelet["staticPodPath"]) if kubelet["staticPodPath"] else None,
        manifest_url=_manifest_url(kubelet),
        pod_logs_dir=Path(kubelet["podLogsDir"]),
        container_logs=container_logs(kubelet),
        cgroup_root=kubelet["cgroupRoot"] or "",
        reserved=reserved(kubelet),
        cpu_manager=cpu_manager(kubelet, gates, reserved(kubelet).cpu_milli),
        memory_manager=memory_manager(kubelet, lambda: kept_memory(kubelet, eviction_policy(kubelet))),
        topology_manager=topology_manager_of(kubelet),
        enforcement=enforcement(kubelet),
        qos_reserved=qos_reserved(kubelet, gates),
        agent=agent_processes(kubelet),
        eviction=eviction_policy(kubelet),
        shutdown=shutdown_periods(kubelet, gates),
        memory=memory_settings(kubelet),
        protect_kernel_defaults=kubelet["protectKernelDefaults"] if "protectKernelDefaults" in kubelet.said else None,
        user_ids_per_pod=kubelet["userNamespaces.idsPerPod"] or UNIT,
        allowed_unsafe_sysctls=tuple(kubelet["allowedUnsafeSysctls"] or ()),
        max_container_restart_period=kubelet["crashLoopBackOff.maxContainerRestartPeriod"] or _UNBOUNDED_BACKOFF,
        pulls=image_pulls(kubelet, gates),
        credential_providers=load_credential_providers(
            flags.image_credential_provider_config,
            flags.image_credential_provider_bin_dir,
            account_tokens=gates.enabled(PROVIDER_TOKENS_GATE),
        ),
        image_policy=image_policy(kubelet, own),
        dns=Dns(tuple(kubelet["clusterDNS"] or ()), kubelet["clusterDomain"] or "", kubelet["resolvConf"] or ""),
        logging=Logging(kubelet["logging.format"], kubelet["logging.verbosity"]),
        tracing=_tracing(kubelet),
        feature_gates=gates,
        tempolet=own,
        cluster=cluster_settings(flags, kubelet, root_dir),
        kubelet=in_force(kubelet, gates),
        flags=flags.said,
        warnings=tuple(_warnings(kubelet, gates)),
    )


def node_name(override: str | None) -> str:
    """Return the node's name as the kubelet does: the override or the hostname, trimmed, in lower case."""
    name = (override or socket.gethostname()).strip().lower()
    if not name:
        raise ConfigurationRefused("this machine has no hostname: give --hostname-override NAME")
    if "/" in name:
        raise ConfigurationRefused(f"--hostname-override {name!r}: a node's name must not contain a slash")
    return name


def node_ips(text: str | None) -> tuple[str, ...]:
    """Parse --node-ip: one address, or one of each family."""
    if not text:
        return ()
    try:
        found = [ipaddress.ip_address(one.strip()) for one in text.split(",")]
    except ValueError as error:
        raise ConfigurationRefused(f"--node-ip {text!r}: {error}") from error
    if len(found) > 2 or (len(found) == 2 and found[0].version == found[1].version):
        raise ConfigurationRefused(f"--node-ip {text!r}: one address, or one of IPv4 and one of IPv6")
    if len(found) == 2 and any(one.is_unspecified for one in found):
        raise ConfigurationRefused(f"--node-ip {text!r}: 0.0.0.0 and :: only alone")
    return tuple(str(one) for one in found)


def _runtime_cgroup(text: str | None) -> str:
    if why := why_upward("--runtime-cgroups", text):
        raise ConfigurationRefused(why)
    return text or ""


def _checked(flags: Flags) -> tuple[KubeletConfiguration, FeatureGates]:
    """Read the kubelet's keys, and refuse what cannot be obeyed on this machine."""
    keys = dict(flags.keys)
    try:
        if flags.feature_gates and (gates_flag := parse_gate_flag(flags.feature_gates)):
            keys["featureGates"] = gates_flag  # merged over the file's, as the kubelet does
        kubelet = load_kubelet_configuration(flags.config, flags.config_dir, keys, cluster=flags.kubeconfig is not None)
        gates = set_gates(kubelet["featureGates"] or {})
    except GateRefused as error:
        raise ConfigurationRefused(str(error)) from error
    validate(kubelet, gates)
    _refuse_cgroup_v1(kubelet)
    refuse_what_this_node_has_not(kubelet, cgroup_v2=_CGROUP_V2.exists())
    return kubelet, gates


def _warnings(kubelet: KubeletConfiguration, gates: FeatureGates) -> Iterator[str]:
    """Collect all warnings for the operator."""
    yield from kubelet.warnings
    yield from agent_warnings(kubelet)
    yield from qos_reserved_warnings(kubelet, gates)
    yield from gate_warnings(gates)


def _refuse_cgroup_v1(kubelet: KubeletConfiguration) -> None:
    """Obey failCgroupV1 if a file sets it; unlike the kubelet's, our default runs on both."""
    if "failCgroupV1" in kubelet.said and kubelet["failCgroupV1"] and not _CGROUP_V2.exists():
        raise ConfigurationRefused("failCgroupV1: true, and this node has cgroup v1; set it to false to run here")


def _manifest_url(kubelet: KubeletConfiguration) -> ManifestUrlSettings:
    said: Mapping[str, list[str]] = kubelet["staticPodURLHeader"] or {}
    headers = tuple((name, value) for name, values in said.items() for value in values)
    return ManifestUrlSettings(kubelet["staticPodURL"] or "", headers, kubelet["httpCheckFrequency"])


def _tracing(kubelet: KubeletConfiguration) -> Tracing | None:
    if not {"tracing.endpoint", "tracing.samplingRatePerMillion"} & kubelet.said:
        return None
    return Tracing(
        kubelet["tracing.endpoint"] or DEFAULT_TRACING_ENDPOINT, kubelet["tracing.samplingRatePerMillion"] or 0
    )
