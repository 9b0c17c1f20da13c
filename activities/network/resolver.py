"""A pod's resolv.conf: the node's or the cluster's by its dnsPolicy, plus its dnsConfig, within the limits of resolvers.

Pure; used for the sandbox's configuration. The rules and messages are those of pkg/kubelet/network/dns/dns.go; the
limits are in pkg/apis/core/validation.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from activities.network.network import on_host_network

_MAX_NAMESERVERS: Final = 3
_MAX_SEARCHES: Final = 32
_MAX_SEARCH_CHARACTERS: Final = 2048
_SUBDOMAIN_MAX: Final = 253
_CLUSTER_OPTIONS: Final = ("ndots:5",)
_EVENT: Final = "DNSConfigForming"


@dataclass(frozen=True, slots=True)
class NodeDns:
    """The node's DNS settings: KubeletConfiguration clusterDNS and clusterDomain, and its resolv.conf as read."""

    cluster_dns: tuple[str, ...] = ()
    cluster_domain: str = ""
    resolv_conf: str | None = None
    """Content of the file that resolvConf names; None if it names none: then only loopback is asked."""


@dataclass(frozen=True, slots=True)
class Resolver:
    """The three parts of a resolv.conf."""

    servers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    """What was left out, in the words of the kubelet's events."""


def parse_resolv_conf(text: str) -> Resolver:
    """Parse a resolv.conf: nameservers add up, the last `search` line wins, and so does the last value of an option."""
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
            case _:  # comments, and words that the kubelet ignores too
                pass
    return Resolver(tuple(servers), tuple(searches), tuple(options.values()))


def pod_resolver(pod: Mapping[str, Any], dns: NodeDns) -> Resolver:
    """Return the pod's DNS configuration (GetPodDNS)."""
    base = _by_policy(pod, dns)
    if config := (pod.get("spec") or {}).get("dnsConfig"):
        base = _with_config(base, config)
    return _within_limits(base)


def wants_cluster_dns(pod: Mapping[str, Any]) -> bool:
    """Report whether a pod is to use the cluster's DNS servers, if the node has any."""
    policy = _policy(pod)
    return policy == "ClusterFirstWithHostNet" or (policy == "ClusterFirst" and not on_host_network(pod))


def _policy(pod: Mapping[str, Any]) -> str:
    return (pod.get("spec") or {}).get("dnsPolicy") or "ClusterFirst"


def _by_policy(pod: Mapping[str, Any], dns: NodeDns) -> Resolver:
    if _policy(pod) == "None":
        return Resolver()
    node = Resolver(("127.0.0.1",), (".",)) if dns.resolv_conf is None else parse_resolv_conf(dns.resolv_conf)
    if not (wants_cluster_dns(pod) and dns.cluster_dns):  # without a cluster DNS, ClusterFirst falls back to the node's
        return node
    searches = () if dns.resolv_conf is None else node.searches
    if domain := dns.cluster_domain:
        namespace = pod["metadata"]["namespace"]
        searches = (f"{namespace}.svc.{domain}", f"svc.{domain}", domain, *searches)
    return Resolver(dns.cluster_dns, tuple(dict.fromkeys(searches)), _CLUSTER_OPTIONS)


def _with_config(base: Resolver, config: Mapping[str, Any]) -> Resolver:
    """Add the pod's dnsConfig: servers and domains are appended without duplicates, options replace equal ones (appendDNSConfig)."""
    options = {name: value for name, _, value in (one.partition(":") for one in base.options)}
    options |= {one["name"]: one.get("value") or "" for one in config.get("options") or ()}
    return Resolver(
        tuple(dict.fromkeys((*base.servers, *(config.get("nameservers") or ())))),
        tuple(dict.fromkeys((*base.searches, *(config.get("searches") or ())))),
        tuple(f"{name}:{value}" if value else name for name, value in options.items()),
    )


def _within_limits(resolver: Resolver) -> Resolver:
    servers, notices = resolver.servers[:_MAX_NAMESERVERS], []
    searches = [one for one in resolver.searches[:_MAX_SEARCHES] if len(one) <= _SUBDOMAIN_MAX]
    while len(" ".join(searches)) > _MAX_SEARCH_CHARACTERS:
        searches.pop()
    if len(servers) < len(resolver.servers):
        notices.append(
            f"{_EVENT}: Nameserver limits were exceeded, some nameservers have been omitted,"
            f" the applied nameserver line is: {' '.join(servers)}"
        )
    if len(searches) < len(resolver.searches):
        notices.append(
            f"{_EVENT}: Search Line limits were exceeded, some search paths have been omitted,"
            f" the applied search line is: {' '.join(searches)}"
        )
    return Resolver(servers, tuple(searches), resolver.options, tuple(notices))
