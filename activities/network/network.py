"""A pod's network: /etc/hosts, host ports and addresses.

Pure, except for the two readers at the end. The contents are the kubelet's, line by line (kubelet_pods.go
managedHostsFileContent and nodeHostsFileContent); the runtime calls CNI. For the host name see `hostnames`, for
resolv.conf `resolver`.
"""

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from activities.clients.runtime import RuntimeClient
from activities.network.hostnames import pod_hostname
from proto.cri.v1 import api_pb2 as cri

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


def on_host_network(pod: Mapping[str, Any]) -> bool:
    """Report whether the pod shares the node's network."""
    return bool((pod.get("spec") or {}).get("hostNetwork"))


def hosts_file(
    pod: Mapping[str, Any], pod_ips: Sequence[str], node_hosts: str, *, cluster_domain: str = ""
) -> str | None:
    """Build the pod's /etc/hosts; None while a pod with its own network has no address yet.

    `node_hosts` is the node's own file, which a pod on the host network gets.
    """
    if on_host_network(pod):
        return _MANAGED_HOST_NETWORK + node_hosts + _aliases(pod)
    if not pod_ips:
        return None
    names = [*_LOCAL_NAMES, *((ip, pod_hostname(pod, cluster_domain).line) for ip in pod_ips)]
    return _MANAGED + "".join(f"{ip}\t{name}\n" for ip, name in names) + _aliases(pod)


def _aliases(pod: Mapping[str, Any]) -> str:
    """Build the lines of the pod's hostAliases, one for each address (hostsEntriesFromHostAliases)."""
    aliases = (pod.get("spec") or {}).get("hostAliases") or ()
    lines = ("\t".join((alias.get("ip", ""), *(alias.get("hostnames") or ()))) for alias in aliases)
    return "".join(("\n# Entries added by HostAliases.\n", *(f"{line}\n" for line in lines))) if aliases else ""


def port_mappings(containers: Iterable[Mapping[str, Any]]) -> list[cri.PortMapping]:
    """Map the host ports of regular containers.

    A port that a container declares twice counts once (MakePortMappings).
    """
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
    """Return a sandbox's addresses, the primary one first; none on the host network."""
    network = status.network
    found = [network.ip, *(more.ip for more in network.additional_ips)]
    return tuple(ip for ip in found if ip)


async def network_failure(runtime: RuntimeClient) -> str | None:
    """Return why the runtime's network is not ready, in the runtime's words; None if it is."""
    for condition in (await runtime.status()).conditions:
        if condition.type == "NetworkReady" and not condition.status:
            reason = f"NetworkReady=false reason:{condition.reason} message:{condition.message}"
            return f"container runtime network not ready: {reason}"
    return None


def read_node_file(path: Path | None) -> str | None:
    """Read the node's hosts or resolv.conf; None if no path is set. Raises OSError."""
    return None if path is None else path.read_text(errors="replace")
