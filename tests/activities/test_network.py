"""Does a pod see the hosts file, resolver, host name and ports that the kubelet would give it?"""

from typing import Any

import pytest

from activities.network import (
    NodeDns,
    Resolver,
    hosts_file,
    parse_resolv_conf,
    pod_hostname,
    pod_resolver,
    port_mappings,
)

NODE = NodeDns(("10.96.0.10",), "cluster.local", "nameserver 192.0.2.1\nsearch example.com\noptions ndots:2\n")
OF_NODE = Resolver(("192.0.2.1",), ("example.com",), ("ndots:2",))
OF_CLUSTER = Resolver(
    ("10.96.0.10",),
    ("prod.svc.cluster.local", "svc.cluster.local", "cluster.local", "example.com"),
    ("ndots:5",),
)


def pod(**spec: Any) -> dict[str, Any]:
    """Give a pod with this spec."""
    return {"metadata": {"name": "web", "namespace": "prod"}, "spec": spec}


def test_managed_hosts_file() -> None:
    """Header, local names, then each address of the pod."""
    assert hosts_file(pod(), ("10.0.0.5", "fd00::5"), "ignored\n") == (
        "# Kubernetes-managed hosts file.\n"
        "127.0.0.1\tlocalhost\n"
        "::1\tlocalhost ip6-localhost ip6-loopback\n"
        "fe00::0\tip6-localnet\n"
        "fe00::0\tip6-mcastprefix\n"
        "fe00::1\tip6-allnodes\n"
        "fe00::2\tip6-allrouters\n"
        "10.0.0.5\tweb\n"
        "fd00::5\tweb\n"
    )


def test_hosts_file_on_the_host_network_is_the_nodes() -> None:
    """With a header that says so."""
    written = hosts_file(pod(hostNetwork=True), (), "127.0.0.1 localhost\n")
    assert written == "# Kubernetes-managed hosts file (host network).\n127.0.0.1 localhost\n"


def test_no_hosts_file_without_an_address() -> None:
    """The image's own stays until the pod has one."""
    assert hosts_file(pod(), (), "127.0.0.1 localhost\n") is None


@pytest.mark.parametrize(
    ("name", "hostname", "expected"),
    [
        pytest.param("web", None, "web", id="the-pods-name"),
        pytest.param("web", "shop", "shop", id="spec-hostname-goes-first"),
        pytest.param("a" * 63, None, "a" * 63, id="63-characters-fit"),
        pytest.param("a" * 70, None, "a" * 63, id="longer-is-cut"),
        pytest.param("a" * 61 + ".-b", None, "a" * 61, id="a-cut-name-does-not-end-in-a-mark"),
    ],
)
def test_hostname(name: str, hostname: str | None, expected: str) -> None:
    """The kernel takes 63 characters."""
    assert pod_hostname({"metadata": {"name": name}, "spec": {"hostname": hostname}}) == expected


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
    assert pod_resolver(pod(**spec), dns) == expected


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
    ("ports", "expected"),
    [
        pytest.param([{"containerPort": 80}], [("TCP", 80, 0, "")], id="tcp-without-host-port"),
        pytest.param(
            [{"containerPort": 53, "protocol": "UDP", "hostPort": 5353, "hostIP": "127.0.0.1"}],
            [("UDP", 53, 5353, "127.0.0.1")],
            id="all-fields",
        ),
        pytest.param(
            [{"name": "web", "containerPort": 80}, {"name": "web", "containerPort": 81}],
            [("TCP", 80, 0, "")],
            id="of-one-name-the-first-counts",
        ),
        pytest.param(
            [{"containerPort": 80}, {"containerPort": 80, "protocol": "TCP"}], [("TCP", 80, 0, "")], id="twice-is-once"
        ),
        pytest.param(
            [{"containerPort": 80, "hostPort": 1, "hostIP": ip} for ip in ("0.0.0.0", "::")],
            [("TCP", 80, 1, "0.0.0.0"), ("TCP", 80, 1, "::")],
            id="both-address-families",
        ),
    ],
)
def test_port_mappings(ports: list[dict[str, Any]], expected: list[tuple[str, int, int, str]]) -> None:
    """One mapping a port, in the pod's order."""
    found = port_mappings([{"name": "a", "ports": ports}, {"name": "b"}])
    protocols = {0: "TCP", 1: "UDP", 2: "SCTP"}
    assert [(protocols[one.protocol], one.container_port, one.host_port, one.host_ip) for one in found] == expected
