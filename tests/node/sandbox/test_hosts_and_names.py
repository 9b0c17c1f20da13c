"""Does a pod get the kubelet's host name, /etc/hosts and resolv.conf?"""

from collections.abc import Iterator

import pytest

from tests.node.operating import history
from tests.node.pod_story import log_path, until_logged
from tests.node.tempolet_node import TempoletNode, pod_manifest, tempolet_node
from worker.standalone.containerd import Containerd
from worker.standalone.temporal_server import TemporalServer

SHOW = "hostname; cat /etc/hosts; echo ---; cat /etc/resolv.conf; echo end; sleep 3600"


@pytest.fixture(scope="module")
def named(
    tmp_path_factory: pytest.TempPathFactory, containerd: Containerd, temporal: TemporalServer
) -> Iterator[TempoletNode]:
    """Run a node with cluster DNS."""
    directory = tmp_path_factory.mktemp("named")
    (directory / "resolv.conf").write_text("nameserver 192.0.2.1\nsearch example.com\noptions ndots:2\n")
    keys = {
        "clusterDNS": ["10.96.0.10"],
        "clusterDomain": "cluster.local",
        "resolvConf": str(directory / "resolv.conf"),
    }
    with tempolet_node(directory, containerd, temporal, keys=keys) as made:
        yield made


def shown(node: TempoletNode, name: str) -> tuple[str, list[str], list[str]]:
    """Read the host name, /etc/hosts and resolv.conf as the container has printed them."""
    lines = until_logged(node, log_path(node, node.until_running(name)), "end")
    middle = lines.index("---")
    return lines[0], lines[1:middle], lines[middle + 1 : lines.index("end")]


def test_a_host_in_its_domain_with_aliases(named: TempoletNode) -> None:
    """With setHostnameAsFQDN the kernel gets the FQDN; /etc/hosts has it, and the aliases at its end."""
    aliases = [{"ip": "10.1.2.3", "hostnames": ["foo.local", "bar.local"]}]
    spec = {"hostname": "db-0", "subdomain": "db", "setHostnameAsFQDN": True, "hostAliases": aliases}
    named.apply(pod_manifest("domain", SHOW, **spec))
    host, hosts, resolver = shown(named, "domain")
    full = "db-0.db.default.svc.cluster.local"
    snapshot = named.until_running("domain")
    assert host == full
    assert hosts[0] == "# Kubernetes-managed hosts file."
    assert f"{snapshot.status['podIP']}\t{full}\tdb-0" in hosts
    assert hosts[-3:] == ["", "# Entries added by HostAliases.", "10.1.2.3\tfoo.local\tbar.local"]
    assert "nameserver 10.96.0.10" in resolver
    assert "search default.svc.cluster.local svc.cluster.local cluster.local example.com" in resolver
    assert "options ndots:5" in resolver
    named.remove("domain")


def test_a_name_that_the_kernel_does_not_take_holds_the_pod(named: TempoletNode) -> None:
    """With the kubelet's message, also in the history."""
    named.apply(pod_manifest("too-long", hostname="a" * 40, subdomain="db", setHostnameAsFQDN=True))
    words = "is too long (64 characters is the max, 69 characters requested)"
    snapshot = named.until_pod("too-long", lambda one: words in one.message, "held by its name")
    assert words in history(named, snapshot)
    named.remove("too-long")


def test_an_override_goes_before_everything(named: TempoletNode) -> None:
    """It replaces hostname and subdomain."""
    named.apply(pod_manifest("override", SHOW, hostname="db-0", subdomain="db", hostnameOverride="own.name"))
    host, hosts, _ = shown(named, "override")
    ip = named.until_running("override").status["podIP"]
    assert (host, hosts[-1]) == ("own.name", f"{ip}\town.name")
    named.remove("override")


def test_a_pod_brings_its_own_resolver(named: TempoletNode) -> None:
    """With dnsPolicy None nothing of the node's is used; entries above the limits are left out, and the history says so."""
    own = {"nameservers": ["203.0.113.1"], "searches": ["own.example"], "options": [{"name": "timeout", "value": "2"}]}
    named.apply(pod_manifest("own-dns", SHOW, dnsPolicy="None", dnsConfig=own))
    _, _, resolver = shown(named, "own-dns")
    assert resolver == ["search own.example", "nameserver 203.0.113.1", "options timeout:2"]
    many = {"nameservers": ["203.0.113.1", "203.0.113.2", "203.0.113.3"]}
    named.apply(pod_manifest("many-dns", SHOW, dnsConfig=many))
    _, _, resolver = shown(named, "many-dns")
    assert [line for line in resolver if line.startswith("nameserver")] == [
        "nameserver 10.96.0.10",
        "nameserver 203.0.113.1",
        "nameserver 203.0.113.2",
    ]
    told = history(named, named.until_running("many-dns"))
    assert "DNSConfigForming: Nameserver limits were exceeded" in told
    for name in ("own-dns", "many-dns"):
        named.remove(name)


def test_the_host_network_has_the_nodes_names_and_the_pods_aliases(named: TempoletNode) -> None:
    """ClusterFirst falls back to the node's resolver; ClusterFirstWithHostNet does not."""
    aliases = [{"ip": "10.1.2.3", "hostnames": ["foo.local"]}]
    named.apply(pod_manifest("host-net", SHOW, hostNetwork=True, hostAliases=aliases))
    _, hosts, resolver = shown(named, "host-net")
    assert hosts[0] == "# Kubernetes-managed hosts file (host network)."
    assert hosts[-1] == "10.1.2.3\tfoo.local"
    assert "nameserver 192.0.2.1" in resolver
    named.remove("host-net")
