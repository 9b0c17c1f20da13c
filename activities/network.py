"""What a pod sees of the network: its host name, /etc/hosts, resolv.conf, host ports, and its addresses read back.

Pure but for the two readers at the end. The contents are the kubelet's, line by line (kubelet_pods.go
managedHostsFileContent and nodeHostsFileContent, network/dns/dns.go); CNI itself is the runtime's business.
"""

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from activities.clients.runtime import RuntimeClient
from proto.cri.v1 import api_pb2 as cri

_HOSTNAME_MAX: Final = 63  # a DNS label
_MAX_NAMESERVERS: Final = 3  # the three limits of pkg/apis/core/validation
_MAX_SEARCHES: Final = 32
_MAX_SEARCH_CHARACTERS: Final = 2048
_SUBDOMAIN_MAX: Final = 253
_CLUSTER_OPTIONS: Final = ("ndots:5",)
_MANAGED: Final = "# Kubernetes-managed hosts file.\n"
_MANAGED_HOST_NETWORK: Final = "# Kubernetes-managed hosts file (host network).\n"
_LOCAL_NAMES: Final = (
    ("127.0.0.1", "localhost"),
    ("::1", "localhost ip6-localhost ip6-loopback"),
    ("fe00::0", "ip6-localnet"),
    ("fe00::0", "ip6-mcastprefix"),
    ("fe00::1", "ip6-allnodes"),
    ("fe00::2", "ip6-allrouters"),
)


@dataclass(frozen=True, slots=True)
class NodeDns:
    """The node's name resolution: KubeletConfiguration clusterDNS and clusterDomain, and its resolv.conf as read."""

    cluster_dns: tuple[str, ...] = ()
    cluster_domain: str = ""
    resolv_conf: str | None = None
    """Content of the file that resolvConf names; None when it names none: lookups then go to loopback alone."""


@dataclass(frozen=True, slots=True)
class Resolver:
    """The three lines of a resolv.conf."""

    servers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


def on_host_network(pod: Mapping[str, Any]) -> bool:
    """Say whether the pod shares the node's network."""
    return bool((pod.get("spec") or {}).get("hostNetwork"))


def pod_hostname(pod: Mapping[str, Any]) -> str:
    """Name the pod's host: `spec.hostname` or the pod's name, cut to a DNS label."""
    name = str((pod.get("spec") or {}).get("hostname") or pod["metadata"]["name"])
    return name if len(name) <= _HOSTNAME_MAX else name[:_HOSTNAME_MAX].rstrip("-.")


def hosts_file(pod: Mapping[str, Any], pod_ips: Sequence[str], node_hosts: str) -> str | None:
    """Write the pod's /etc/hosts; None while a pod of its own network has no address yet.

    `node_hosts` is the node's own file, which a pod on the host network sees.
    """
    if on_host_network(pod):
        return _MANAGED_HOST_NETWORK + node_hosts
    if not pod_ips:
        return None
    names = [*_LOCAL_NAMES, *((ip, pod_hostname(pod)) for ip in pod_ips)]
    return _MANAGED + "".join(f"{ip}\t{name}\n" for ip, name in names)


def parse_resolv_conf(text: str) -> Resolver:
    """Read a resolv.conf: nameservers add up, of `search` lines the last counts, of one option the last."""
    servers: list[str] = []
    searches: list[str] = []
    options: dict[str, str] = {}
    for line in text.splitlines():
        match line.split():
            case ["nameserver", address, *_]:
                servers.append(address)
            case ["search", *domains]:
                searches = [domain.removesuffix(".") for domain in domains if domain != "."]
            case ["options", *given]:
                options.update({option.partition(":")[0]: option for option in given})
            case _:  # comments, and words that the kubelet passes over too
                pass
    return Resolver(tuple(servers), tuple(searches), tuple(options.values()))


def pod_resolver(pod: Mapping[str, Any], dns: NodeDns) -> Resolver:
    """Answer the pod's name resolution by its dnsPolicy, cut to what resolvers take (GetPodDNS)."""
    policy = (pod.get("spec") or {}).get("dnsPolicy") or "ClusterFirst"
    cluster = policy == "ClusterFirstWithHostNet" or (policy == "ClusterFirst" and not on_host_network(pod))
    if policy == "None":
        return Resolver()
    node = Resolver(("127.0.0.1",), (".",)) if dns.resolv_conf is None else parse_resolv_conf(dns.resolv_conf)
    if not (cluster and dns.cluster_dns):  # without a cluster DNS, ClusterFirst falls back to the node's
        return _within_limits(node)
    searches = () if dns.resolv_conf is None else node.searches
    if domain := dns.cluster_domain:
        namespace = pod["metadata"]["namespace"]
        searches = (f"{namespace}.svc.{domain}", f"svc.{domain}", domain, *searches)
    return _within_limits(Resolver(dns.cluster_dns, tuple(dict.fromkeys(searches)), _CLUSTER_OPTIONS))


def _within_limits(resolver: Resolver) -> Resolver:
    searches = [one for one in resolver.searches[:_MAX_SEARCHES] if len(one) <= _SUBDOMAIN_MAX]
    while len(" ".join(searches)) > _MAX_SEARCH_CHARACTERS:
        searches.pop()
    return Resolver(resolver.servers[:_MAX_NAMESERVERS], tuple(searches), resolver.options)


def port_mappings(containers: Iterable[Mapping[str, Any]]) -> list[cri.PortMapping]:
    """Map the regular containers' ports; a port that a container declares twice counts once (MakePortMappings)."""
    mappings = []
    for container in containers:
        ports: dict[tuple[Any, ...], Mapping[str, Any]] = {}
        for port in container.get("ports") or ():
            ports.setdefault(_port_name(port), port)
        mappings += [_port_mapping(port) for port in ports.values()]
    return mappings


def _port_mapping(port: Mapping[str, Any]) -> cri.PortMapping:
    return cri.PortMapping(
        protocol=port.get("protocol") or "TCP",
        container_port=port["containerPort"],
        host_port=port.get("hostPort") or 0,
        host_ip=port.get("hostIP") or "",
    )


def _port_name(port: Mapping[str, Any]) -> tuple[Any, ...]:
    if port.get("name"):
        return (port["name"],)
    address = port.get("hostIP") or ""
    family = ipaddress.ip_address(address).version if address else 0
    return (family, port.get("protocol") or "TCP", address, port["containerPort"], port.get("hostPort") or 0)


def sandbox_ips(status: cri.PodSandboxStatus) -> tuple[str, ...]:
    """Read a sandbox's addresses, the first one first; none on the host network."""
    network = status.network
    found = [network.ip, *(more.ip for more in network.additional_ips)]
    return tuple(ip for ip in found if ip)


async def network_failure(runtime: RuntimeClient) -> str | None:
    """Say why the runtime's network is not ready, in its own words; None when it is."""
    for condition in (await runtime.status()).conditions:
        if condition.type == "NetworkReady" and not condition.status:
            return f"container runtime network not ready: {condition.reason}: {condition.message}"
    return None


def read_node_file(path: Path | None) -> str | None:
    """Read the node's hosts or resolv.conf; None when no path is set. Raises OSError."""
    return None if path is None else path.read_text(errors="replace")
