"""With which object and addresses does a machine register, and what does it change in an existing object?"""

from pathlib import Path
from typing import Any

import pytest

from worker.machine.addresses import AddressesUnknown, Lookups, by_route, is_own, node_addresses, pod_host_addresses
from worker.machine.machine import read_machine
from worker.node.object.registration import initial_node, reconcile
from worker.poller.cluster.node_object import host_ips
from worker.settings.cluster import ClusterSettings

OURS = {"10.0.0.1", "10.0.0.2", "fd00::1", "127.0.0.1", "::1", "169.254.0.9"}


def settings(**given: Any) -> ClusterSettings:
    """Return settings of a cluster's node."""
    return ClusterSettings(kubeconfig=Path("/kubeconfig"), **given)


def test_the_object_of_a_plain_node() -> None:
    """The default labels, and the annotation without which no controller attaches a volume."""
    assert initial_node("n1", settings(), "arm64") == {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": "n1",
            "labels": {
                "kubernetes.io/hostname": "n1",
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "arm64",
                "beta.kubernetes.io/os": "linux",
                "beta.kubernetes.io/arch": "arm64",
            },
            "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
        },
    }


def test_what_the_operator_gives_is_in_it() -> None:
    """Labels over the default ones, taints, provider id; the taint that a cloud controller removes comes last."""
    taint = {"key": "a", "effect": "NoSchedule"}
    given = settings(
        labels={"kubernetes.io/hostname": "h", "x": "y"}, taints=(taint,), provider_id="p", external_cloud=True
    )
    node = initial_node("n1", given, "amd64")
    assert (node["metadata"]["labels"]["kubernetes.io/hostname"], node["metadata"]["labels"]["x"]) == ("h", "y")
    uninitialized = {"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"}
    assert node["spec"] == {"taints": [taint, uninitialized], "providerID": "p"}


def test_an_object_that_is_there_is_held_to_the_default_labels_only() -> None:
    """--node-labels and taints apply at creation; an empty label is removed."""
    labels = {"x": "y", "topology.kubernetes.io/zone": "z", "node.kubernetes.io/instance-type": ""}
    initial = initial_node("n1", settings(labels=labels, taints=({"key": "a"},)), "amd64")
    existing = {
        "metadata": {
            "name": "n1",
            "labels": {"kubernetes.io/arch": "vax", "node.kubernetes.io/instance-type": "big", "team": "t"},
        },
        "spec": {"unschedulable": True},
    }
    found = reconcile(existing, initial)
    assert found["metadata"]["labels"] == {
        "kubernetes.io/hostname": "n1",
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/zone": "z",
        "team": "t",
    }
    assert found["spec"] == {"unschedulable": True}
    assert found["metadata"]["annotations"] == {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}


@pytest.mark.parametrize(
    ("given", "name", "resolved", "routes", "found"),
    [
        pytest.param(["10.0.0.2"], "n1", [], {}, ("10.0.0.2",), id="given"),
        pytest.param(["fd00::1", "10.0.0.1"], "n1", [], {}, ("fd00::1", "10.0.0.1"), id="given-of-both-families"),
        pytest.param([], "10.0.0.2", [], {}, ("10.0.0.2",), id="the-name-is-an-address"),
        pytest.param([], "n1", ["fd00::1", "10.0.0.1"], {}, ("10.0.0.1",), id="ipv4-first-by-name"),
        pytest.param(["::"], "n1", ["10.0.0.1", "fd00::1"], {}, ("fd00::1",), id="any-ipv6-prefers-that"),
        pytest.param(["0.0.0.0"], "n1", ["fd00::1"], {4: "10.0.0.1"}, ("fd00::1",), id="the-other-family-by-name"),
        pytest.param(
            [], "n1", ["127.0.0.1", "8.8.8.8"], {4: "10.0.0.1"}, ("10.0.0.1",), id="neither-loopback-nor-foreign"
        ),
        pytest.param([], "n1", [], {6: "fd00::1"}, ("fd00::1",), id="the-route-that-there-is"),
    ],
)
def test_which_addresses_are_the_nodes(
    given: list[str], name: str, resolved: list[str], routes: dict[int, str], found: tuple[str, ...]
) -> None:
    """Given, by name, by route; in this order."""
    lookups = Lookups(OURS.__contains__, lambda _: resolved, lambda family: routes.get(family, ""))
    assert node_addresses(given, name, lookups) == found


@pytest.mark.parametrize(
    ("given", "message"),
    [
        pytest.param(["127.0.0.1"], "127.0.0.1 is a loopback address", id="loopback"),
        pytest.param(["224.0.0.1"], "a multicast address", id="multicast"),
        pytest.param(["169.254.0.9"], "a link-local address", id="link-local"),
        pytest.param(["8.8.8.8"], "8.8.8.8 is on none of this machine's network interfaces", id="not-ours"),
        pytest.param(["10.0.0.1", "fe80::1"], "fe80::1 is a link-local", id="the-second-one"),
        pytest.param([], "no address of node n1: give --node-ip", id="none-to-be-found"),
    ],
)
def test_what_cannot_be_the_nodes_address(given: list[str], message: str) -> None:
    """Which address, why, and what to do."""
    with pytest.raises(AddressesUnknown, match=message):
        node_addresses(given, "n1", Lookups(OURS.__contains__, lambda _: [], lambda _: ""))


@pytest.mark.parametrize(
    ("given", "cluster", "told"),
    [
        pytest.param(["10.0.0.2"], True, ("10.0.0.2",), id="given"),
        pytest.param([], True, ("10.0.0.1",), id="in-a-cluster-as-its-object-will-say"),
        pytest.param(["8.8.8.8"], True, ("8.8.8.8",), id="one-that-is-not-ours-yet"),
        pytest.param([], False, ("10.0.0.2", "fd00::1"), id="by-itself-of-both-families"),
        pytest.param(["0.0.0.0"], False, ("10.0.0.2", "fd00::1"), id="any-is-none"),
    ],
)
def test_which_addresses_pods_are_told(given: list[str], cluster: bool, told: tuple[str, ...]) -> None:
    """Before the API has an address."""
    routes = {4: "10.0.0.2", 6: "fd00::1"}
    lookups = Lookups(OURS.__contains__, lambda _: ["10.0.0.1"], routes.__getitem__)
    assert pod_host_addresses(given, "n1", cluster=cluster, lookups=lookups) == told


@pytest.mark.parametrize(
    ("addresses", "found"),
    [
        pytest.param([], (), id="none"),
        pytest.param([("Hostname", "n1")], (), id="a-name-is-none"),
        pytest.param([("ExternalIP", "8.8.8.8"), ("InternalIP", "10.0.0.1")], ("10.0.0.1",), id="internal-first"),
        pytest.param(
            [
                ("InternalIP", "10.0.0.1"),
                ("InternalIP", "10.0.0.2"),
                ("ExternalIP", "2001::1"),
                ("InternalIP", "fd00::1"),
            ],
            ("10.0.0.1", "fd00::1"),
            id="one-of-each-family",
        ),
    ],
)
def test_which_of_a_nodes_addresses_are_its_pods(addresses: list[tuple[str, str]], found: tuple[str, ...]) -> None:
    """status.hostIPs."""
    node = {"status": {"addresses": [{"type": kind, "address": address} for kind, address in addresses]}}
    assert host_ips(node) == found
    assert host_ips({"metadata": {}}) == ()


def test_this_machine_knows_its_own_addresses() -> None:
    """Loopback is, a documentation address is not."""
    assert is_own("127.0.0.1")
    assert not is_own("192.0.2.1")
    assert (route := by_route(4)) == "" or is_own(route)


def test_this_machine_can_be_read() -> None:
    """What every Linux has."""
    machine = read_machine()
    assert len(machine.boot_id) == 36
    assert machine.kernel_version
    assert machine.cpu_milli >= 1000
    assert machine.memory_bytes > 2**28


def test_a_machine_without_names_is_read_all_the_same(tmp_path: Path) -> None:
    """For example a container or a minimal system."""
    assert (read_machine(tmp_path).machine_id, read_machine(tmp_path).os_image) == ("", "Unknown")
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/os-release").write_text('NAME=x\nPRETTY_NAME="Our Linux 7"\n')
    (tmp_path / "etc/machine-id").write_text("abc\n")
    assert (read_machine(tmp_path).machine_id, read_machine(tmp_path).os_image) == ("abc", "Our Linux 7")
