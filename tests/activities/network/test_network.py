"""Does a pod see the hosts file and ports that the kubelet would give it?"""

from typing import Any

import pytest

from activities.network.network import hosts_file, port_mappings


def pod(**spec: Any) -> dict[str, Any]:
    """Return a pod with this spec."""
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


def test_a_subdomain_stands_before_the_name() -> None:
    """As the kubelet writes it, for each address of the pod."""
    written = hosts_file(pod(subdomain="db"), ("10.0.0.5", "fd00::5"), "", cluster_domain="cluster.local") or ""
    full = "web.db.prod.svc.cluster.local\tweb"
    assert written.endswith(f"\n10.0.0.5\t{full}\nfd00::5\t{full}\n")


@pytest.mark.parametrize("host_network", [False, True], ids=["managed", "host-network"])
def test_aliases_stand_at_the_end(*, host_network: bool) -> None:
    """One line an address, under a line that says whose they are."""
    aliases = [{"ip": "10.1.2.3", "hostnames": ["foo.local", "bar.local"]}, {"ip": "10.1.2.4"}]
    written = hosts_file(pod(hostAliases=aliases, hostNetwork=host_network), ("10.0.0.5",), "127.0.0.1 localhost\n")
    before = hosts_file(pod(hostNetwork=host_network), ("10.0.0.5",), "127.0.0.1 localhost\n")
    lines = "10.1.2.3\tfoo.local\tbar.local\n10.1.2.4\n"
    assert written == f"{before}\n# Entries added by HostAliases.\n{lines}"


def test_no_hosts_file_without_an_address() -> None:
    """The image's own stays until the pod has one."""
    assert hosts_file(pod(), (), "127.0.0.1 localhost\n") is None


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
