"""Does a pod resolve names as the kubelet would let it?"""

from dataclasses import replace
from typing import Any

import pytest

from activities.network.resolver import NodeDns, Resolver, parse_resolv_conf, pod_resolver

NODE = NodeDns(("10.96.0.10",), "cluster.local", "nameserver 192.0.2.1\nsearch example.com\noptions ndots:2\n")
OF_NODE = Resolver(("192.0.2.1",), ("example.com",), ("ndots:2",))
OF_CLUSTER = Resolver(
    ("10.96.0.10",),
    ("prod.svc.cluster.local", "svc.cluster.local", "cluster.local", "example.com"),
    ("ndots:5",),
)


CONFIG = {
    "nameservers": ["203.0.113.1"],
    "searches": ["own.example", "example.com"],
    "options": [{"name": "ndots", "value": "3"}, {"name": "debug"}, {"name": "timeout", "value": "2"}],
}
OF_CONFIG = Resolver(("203.0.113.1",), ("own.example", "example.com"), ("ndots:3", "debug", "timeout:2"))


def pod(**spec: Any) -> dict[str, Any]:
    """Return a pod with this spec."""
    return {"metadata": {"name": "web", "namespace": "prod"}, "spec": spec}


@pytest.mark.parametrize(
    ("spec", "dns", "expected"),
    [
        pytest.param({"dnsPolicy": "Default"}, NODE, OF_NODE, id="default-is-the-nodes"),
        pytest.param({}, NODE, OF_CLUSTER, id="cluster-first-when-nothing-is-said"),
        pytest.param(
            {"dnsPolicy": "ClusterFirst", "hostNetwork": True}, NODE, OF_NODE, id="cluster-first-on-the-host-network"
        ),
        pytest.param(
            {"dnsPolicy": "ClusterFirstWithHostNet", "hostNetwork": True}, NODE, OF_CLUSTER, id="unless-asked-for"
        ),
        pytest.param({}, NodeDns(resolv_conf=NODE.resolv_conf), OF_NODE, id="no-cluster-dns-falls-back-to-the-nodes"),
        pytest.param({}, NodeDns(), Resolver(("127.0.0.1",), (".",)), id="no-resolv-conf-means-loopback"),
        pytest.param(
            {},
            NodeDns(("10.96.0.10",), "", None),
            Resolver(("10.96.0.10",), (), ("ndots:5",)),
            id="cluster-dns-without-domain-or-resolv-conf",
        ),
        pytest.param({"dnsPolicy": "None"}, NODE, Resolver(), id="none-is-empty"),
        pytest.param({"dnsPolicy": "None", "dnsConfig": CONFIG}, NODE, OF_CONFIG, id="none-has-what-it-says-itself"),
        pytest.param(
            {"dnsPolicy": "Default", "dnsConfig": CONFIG},
            NODE,
            Resolver(("192.0.2.1", "203.0.113.1"), ("example.com", "own.example"), ("ndots:3", "debug", "timeout:2")),
            id="what-a-pod-says-stands-behind-and-replaces-options",
        ),
        pytest.param(
            {"dnsConfig": {"nameservers": ["10.96.0.10"], "options": [{"name": "ndots"}]}},
            NODE,
            Resolver(OF_CLUSTER.servers, OF_CLUSTER.searches, ("ndots",)),
            id="nothing-stands-twice-and-an-option-may-have-no-value",
        ),
        pytest.param(
            {"dnsPolicy": "Default"},
            NodeDns(resolv_conf="".join(f"nameserver 192.0.2.{n}\n" for n in range(5))),
            Resolver(("192.0.2.0", "192.0.2.1", "192.0.2.2")),
            id="three-nameservers-at-most",
        ),
        pytest.param(
            {"dnsPolicy": "Default"},
            NodeDns(resolv_conf="search " + " ".join(f"d{n}" for n in range(40))),
            Resolver((), tuple(f"d{n}" for n in range(32))),
            id="32-search-domains-at-most",
        ),
        pytest.param(
            {"dnsPolicy": "Default"},
            NodeDns(resolv_conf=f"search a {'x' * 254} b"),
            Resolver((), ("a", "b")),
            id="a-domain-that-breaks-resolvers-is-left-out",
        ),
        pytest.param(
            {"dnsPolicy": "Default"},
            NodeDns(resolv_conf="search " + " ".join(f"{n}{'x' * 200}" for n in range(12))),
            Resolver((), tuple(f"{n}{'x' * 200}" for n in range(10))),
            id="2048-characters-of-search-at-most",
        ),
    ],
)
def test_resolver(spec: dict[str, Any], dns: NodeDns, expected: Resolver) -> None:
    """The dnsPolicy decides, limits of resolvers hold."""
    assert replace(pod_resolver(pod(**spec), dns), notices=()) == expected


def test_resolv_conf_is_read_as_the_kubelet_reads_it() -> None:
    """Servers add up, the last search counts, an option given twice is the last one, comments are none."""
    text = """
# nameserver 203.0.113.9
nameserver 192.0.2.1
nameserver
search old.example
search new.example. .
options ndots:2 rotate
options ndots:5
sortlist 192.0.2.0
"""
    assert parse_resolv_conf(text) == Resolver(("192.0.2.1",), ("new.example",), ("ndots:5", "rotate"))


@pytest.mark.parametrize(
    ("resolv_conf", "notices"),
    [
        pytest.param("nameserver a\nsearch b\n", (), id="all-fits"),
        pytest.param(
            "".join(f"nameserver {n}\n" for n in range(5)),
            (
                (
                    "DNSConfigForming: Nameserver limits were exceeded, some nameservers have been omitted, the applied"
                    " nameserver line is: 0 1 2"
                ),
            ),
            id="nameservers",
        ),
        pytest.param(
            f"search a {'x' * 254} b",
            (
                (
                    "DNSConfigForming: Search Line limits were exceeded, some search paths have been omitted, the applied"
                    " search line is: a b"
                ),
            ),
            id="searches",
        ),
    ],
)
def test_what_is_left_out_is_told(resolv_conf: str, notices: tuple[str, ...]) -> None:
    """In the words of the kubelet's event."""
    assert pod_resolver(pod(dnsPolicy="Default"), NodeDns(resolv_conf=resolv_conf)).notices == notices
