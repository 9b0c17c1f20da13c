"""Finds this node's addresses: by --node-ip, by its name, or by its default route.

Used for the node's status, and by worker and poller for status.hostIPs of pods (pkg/kubelet/nodestatus/setters.go NodeAddress).
An address given by --node-ip must be on one of this machine's interfaces and reachable from others.
"""

import contextlib
import ipaddress
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

_DOCUMENTATION_ADDRESSES: Final = {4: (socket.AF_INET, "192.0.2.1"), 6: (socket.AF_INET6, "2001:db8::1")}
"""Documentation addresses: nothing is sent to them; the kernel only selects the source address."""


class AddressesUnknown(Exception):
    """The node has no address, or a given one is not usable."""


@dataclass(frozen=True, slots=True)
class Lookups:
    """The queries to the machine; replaced in tests."""

    is_own: Callable[[str], bool]
    by_name: Callable[[str], Sequence[str]]
    by_route: Callable[[int], str]
    """By address family, 4 or 6; empty if there is no route."""


def node_addresses(given: Sequence[str], name: str, lookups: Lookups | None = None) -> tuple[str, ...]:
    """Return the node's addresses, the primary one first; queries DNS only if none is given. Raises AddressesUnknown."""
    ask = lookups or THIS_MACHINE
    if own := without_unspecified(given):
        for one in own:
            if wrong := reject_reason(one, ask):
                raise AddressesUnknown(f"--node-ip: {wrong}")
        return own
    with contextlib.suppress(ValueError):
        return (str(ipaddress.ip_address(name)),)
    family = ipaddress.ip_address(given[0]).version if given else 4
    found = [one for one in ask.by_name(name) if not reject_reason(one, ask)]
    found.sort(key=lambda one: ipaddress.ip_address(one).version != family)
    chosen = found[0] if found else ask.by_route(family) or ask.by_route(10 - family)
    if not chosen:
        raise AddressesUnknown(
            f"no address of node {name}: give --node-ip; its name leads to none, and no default route is there"
        )
    return (chosen,)


def pod_host_addresses(
    given: Sequence[str], name: str, *, cluster: bool, lookups: Lookups | None = None
) -> tuple[str, ...]:
    """Return the addresses that a node's pods show as their host's; in a cluster the Node's own, once they are known.

    Without those, the source addresses of the default routes; none on a machine without a network.
    """
    ask = lookups or THIS_MACHINE
    if cluster:
        with contextlib.suppress(AddressesUnknown):
            return node_addresses(given, name, ask)
    return without_unspecified(given) or tuple(filter(None, (ask.by_route(4), ask.by_route(6))))


def without_unspecified(given: Sequence[str]) -> tuple[str, ...]:
    """Omit 0.0.0.0 and ::, which only select the preferred address family."""
    return tuple(one for one in given if not ipaddress.ip_address(one).is_unspecified)


def reject_reason(address: str, ask: Lookups) -> str:
    """Return why an address cannot be this node's, or ""."""
    found = ipaddress.ip_address(address)
    for wrong, word in (
        (found.is_loopback, "a loopback address"),
        (found.is_multicast, "a multicast address"),
        (found.is_link_local, "a link-local address"),
        (found.is_unspecified, "no single address"),
    ):
        if wrong:
            return f"{address} is {word}, and others must reach it"
    return "" if ask.is_own(address) else f"{address} is on none of this machine's network interfaces"


def is_own(address: str) -> bool:
    """Report whether an address is on one of this machine's interfaces."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


def by_name(name: str) -> list[str]:
    """Resolve a name; blocks. Returns [] for an unknown name."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_DGRAM)
    except OSError:
        return []
    return list(dict.fromkeys(str(one[4][0]).partition("%")[0] for one in found))


def by_route(family: int) -> str:
    """Return the source address of the default route, or "" without one."""
    kind, far = _DOCUMENTATION_ADDRESSES[family]
    with contextlib.suppress(OSError), socket.socket(kind, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as probe:
        probe.connect((far, 9))
        return str(probe.getsockname()[0])
    return ""


THIS_MACHINE: Final = Lookups(is_own, by_name, by_route)
