"""Is what a command line asks for understood as kubeadm would, and refused where it could not be written down?"""

from pathlib import Path

import pytest

from worker.joining.places import Places
from worker.joining.planned import NodeFlags, environment, node_flags, planned_units
from worker.joining.refusal import WrongRequest
from worker.joining.request import JoinRequest, Temporal, server_of
from worker.joining.systemd import UNITS

CHECKOUT = Path(__file__).parents[3]


def asked(**given: object) -> JoinRequest:
    """Build a request."""
    return JoinRequest(**{"server": "https://h:1", "hashes": frozenset(), "temporal": Temporal("t:7233"), **given})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "server"),
    [
        pytest.param("https://10.0.0.1:6443", "https://10.0.0.1:6443", id="a-url"),
        pytest.param("https://10.0.0.1:6443/", "https://10.0.0.1:6443", id="a-slash-at-the-end"),
        pytest.param("10.0.0.1:6443", "https://10.0.0.1:6443", id="as-kubeadm-takes-it"),
        pytest.param("api.example", "https://api.example:6443", id="without-a-port"),
        pytest.param("https://[fd00::1]:443", "https://[fd00::1]:443", id="ipv6"),
    ],
)
def test_the_servers_address(given: str, server: str) -> None:
    """With https and a port."""
    assert server_of(given) == server


@pytest.mark.parametrize(
    "given",
    [
        pytest.param("", id="nothing"),
        pytest.param("http://10.0.0.1:6443", id="no-tls"),
        pytest.param("https://10.0.0.1:99999", id="no-port-number"),
        pytest.param("https://user@10.0.0.1", id="a-user"),
        pytest.param("https://10.0.0.1/api", id="a-path"),
        pytest.param("https://10.0.0.1?x", id="a-query"),
        pytest.param("https://a b", id="a-space"),
        pytest.param("https://[fd00::1", id="half-an-address"),
    ],
)
def test_what_is_no_address_of_a_server(given: str) -> None:
    """Is refused with an example."""
    with pytest.raises(WrongRequest, match="for example https"):
        server_of(given)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        pytest.param({"node_ip": "10.0.0.300"}, "--node-ip", id="no-ip"),
        pytest.param({"endpoint": "tcp://1.2.3.4"}, "unix:///path", id="no-socket"),
        pytest.param({"endpoint": "unix:///a b"}, "unix:///path", id="a-socket-with-a-space"),
        pytest.param({"temporal": Temporal("temporal")}, "HOST:PORT", id="temporal-without-a-port"),
        pytest.param({"temporal": Temporal("t:1", namespace="a b")}, "--temporal-namespace", id="a-namespace"),
        pytest.param({"temporal": Temporal("t:1", certificate=Path("/c"))}, "give both", id="no-key"),
        pytest.param({"temporal": Temporal("t:1", authority=Path("/a b"))}, "would change", id="a-file-with-a-space"),
        pytest.param({"temporal": Temporal("t:1", api_key='a"b')}, "its value has", id="a-quote-in-a-key"),
        pytest.param({"temporal": Temporal("t:1", api_key="a\nB=c")}, "its value has", id="a-second-line"),
    ],
)
def test_what_cannot_be_meant(given: dict[str, object], why: str) -> None:
    """Is refused by its option; a secret is not repeated."""
    with pytest.raises(WrongRequest, match=why):
        asked(**given).checked("node")


@pytest.mark.parametrize("name", ["a_b", "-a", "a..b", "a" * 254, "ä"])
def test_a_node_name_that_the_api_server_would_refuse(name: str) -> None:
    """Is refused before anything is changed."""
    with pytest.raises(WrongRequest, match="--hostname-override"):
        asked().checked(name)


def test_the_environment_has_everything_and_needs_no_quotes() -> None:
    """What the services get; the name as it counts."""
    temporal = Temporal("t:7233", "mine", Path("/ca"), Path("/c"), Path("/k"), "name", "key")
    request = asked(temporal=temporal, node_ip="10.0.0.7,fd00::7", hostname_override=" A ").checked("a")
    text = environment(request, Places(), NodeFlags("unix:///run/c.sock", "/r")).decode()
    assert text.splitlines() == [
        "# written by `tempolet join`",
        (
            'TEMPOLET_FLAGS="--config /etc/tempolet/kubelet.yaml --kubeconfig /etc/kubernetes/kubelet.conf '
            "--bootstrap-kubeconfig /etc/kubernetes/bootstrap-kubelet.conf --container-runtime-endpoint unix:///run/c.sock "
            '--resolv-conf /r --node-ip 10.0.0.7,fd00::7 --hostname-override a"'
        ),
        "TEMPORAL_ADDRESS=t:7233",
        "TEMPORAL_NAMESPACE=mine",
        "TEMPORAL_TLS_SERVER_CA_CERT_PATH=/ca",
        "TEMPORAL_TLS_CLIENT_CERT_PATH=/c",
        "TEMPORAL_TLS_CLIENT_KEY_PATH=/k",
        "TEMPORAL_TLS_SERVER_NAME=name",
        "TEMPORAL_API_KEY=key",
    ]
    assert "key" not in repr(request).replace("key=PosixPath", "")


@pytest.mark.parametrize(
    ("configuration", "endpoint", "resolved", "flags"),
    [
        pytest.param({}, "", False, NodeFlags("unix:///run/containerd/containerd.sock"), id="kubeadms-configuration"),
        pytest.param({"containerRuntimeEndpoint": "unix:///c"}, "", False, NodeFlags(), id="its-own-endpoint"),
        pytest.param(
            {"containerRuntimeEndpoint": "unix:///c"}, "unix:///d", False, NodeFlags("unix:///d"), id="the-flag"
        ),
        pytest.param(
            {"containerRuntimeEndpoint": "unix:///c"},
            "",
            True,
            NodeFlags("", "/run/systemd/resolve/resolv.conf"),
            id="resolved",
        ),
        pytest.param(
            {"containerRuntimeEndpoint": "unix:///c", "resolvConf": "/r"}, "", True, NodeFlags(), id="its-own-resolver"
        ),
    ],
)
def test_flags_complete_the_configuration(
    configuration: dict[str, str], endpoint: str, resolved: bool, flags: NodeFlags
) -> None:
    """It is passed on as it is, and wins but against what was asked for."""
    assert node_flags(asked(endpoint=endpoint), configuration, resolved_runs=resolved) == flags


def test_the_units_are_those_of_deploy() -> None:
    """One source; the link to it is what makes them package data."""
    assert {str(one.path): one.content for one in planned_units()} == {
        name: (CHECKOUT / "deploy" / "systemd" / name).read_bytes() for name in UNITS
    }
