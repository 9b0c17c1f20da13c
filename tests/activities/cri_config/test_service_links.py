"""Does a container find the Services of its namespace by its variables? (pkg/kubelet/envvars/envvars_test.go, kubelet_pods_test.go)"""

from typing import Any

import pytest

from activities.cri_config.service_links import service_fields, service_variables


def service(name: str, address: str | None, *ports: dict[str, Any], namespace: str = "shop") -> dict[str, Any]:
    """Build a Service as the API has it."""
    spec: dict[str, Any] = {"ports": [{"protocol": "TCP", **port} for port in ports]}
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec | ({"clusterIP": address} if address else {}),
    }


MASTER = service("kubernetes", "10.96.0.1", {"port": 443, "name": "https"}, namespace="default")
MASTERS = {
    "KUBERNETES_SERVICE_HOST": "10.96.0.1",
    "KUBERNETES_SERVICE_PORT": "443",
    "KUBERNETES_PORT": "tcp://10.96.0.1:443",
    "KUBERNETES_SERVICE_PORT_HTTPS": "443",
    "KUBERNETES_PORT_443_TCP": "tcp://10.96.0.1:443",
    "KUBERNETES_PORT_443_TCP_PROTO": "tcp",
    "KUBERNETES_PORT_443_TCP_PORT": "443",
    "KUBERNETES_PORT_443_TCP_ADDR": "10.96.0.1",
}


def test_every_variable_of_a_service() -> None:
    """Two ports, of which the second has a name; dashes become underlines."""
    services = [service("foo-bar", "1.2.3.4", {"port": 8080}, {"port": 8081, "protocol": "UDP", "name": "u-d-p"})]
    assert service_variables(services, "shop", links=True) == {
        "FOO_BAR_SERVICE_HOST": "1.2.3.4",
        "FOO_BAR_SERVICE_PORT": "8080",
        "FOO_BAR_PORT": "tcp://1.2.3.4:8080",
        "FOO_BAR_PORT_8080_TCP": "tcp://1.2.3.4:8080",
        "FOO_BAR_PORT_8080_TCP_PROTO": "tcp",
        "FOO_BAR_PORT_8080_TCP_PORT": "8080",
        "FOO_BAR_PORT_8080_TCP_ADDR": "1.2.3.4",
        "FOO_BAR_SERVICE_PORT_U_D_P": "8081",
        "FOO_BAR_PORT_8081_UDP": "udp://1.2.3.4:8081",
        "FOO_BAR_PORT_8081_UDP_PROTO": "udp",
        "FOO_BAR_PORT_8081_UDP_PORT": "8081",
        "FOO_BAR_PORT_8081_UDP_ADDR": "1.2.3.4",
    }


@pytest.mark.parametrize(
    ("services", "links", "names"),
    [
        pytest.param([MASTER], True, set(MASTERS), id="the-api-servers-is-everybodys"),
        pytest.param([MASTER], False, set(MASTERS), id="also-without-links"),
        pytest.param([service("web", "1.2.3.4", {"port": 1})], False, set(), id="others-only-with-links"),
        pytest.param(
            [service("web", "1.2.3.4", {"port": 1}, namespace="other")], True, set(), id="not-another-namespaces"
        ),
        pytest.param([service("web", "None", {"port": 1})], True, set(), id="not-a-headless-one"),
        pytest.param([service("web", None, {"port": 1})], True, set(), id="not-one-without-an-address"),
        pytest.param([service("web", "1.2.3.4")], True, set(), id="not-one-without-ports"),
    ],
)
def test_which_services(services: list[dict[str, Any]], links: bool, names: set[str]) -> None:
    """As getServiceEnvVarMap chooses; what is kept of a Service is enough for that."""
    found = service_variables(services, "shop", links=links)
    assert set(found) == names
    assert service_variables(map(service_fields, services), "shop", links=links) == found


def test_a_service_of_the_namespace_goes_before_the_api_servers() -> None:
    """In whatever order they are listed."""
    own = service("kubernetes", "1.2.3.4", {"port": 443})
    for listed in ([own, MASTER], [MASTER, own]):
        assert service_variables(listed, "shop", links=True)["KUBERNETES_SERVICE_HOST"] == "1.2.3.4"


def test_what_is_kept_of_a_service() -> None:
    """The rest is most of it: a cluster of ten thousand would take 70 MiB of each node's worker."""
    whole = service("web", "1.2.3.4", {"port": 80, "name": "http", "targetPort": 8080})
    whole["metadata"] |= {"annotations": {"last-applied": "x" * 1000}, "resourceVersion": "7"}
    whole["spec"] |= {"selector": {"app": "web"}}
    ports = [{"name": "http", "port": 80, "protocol": "TCP"}]
    assert service_fields(whole) == {
        "metadata": {"namespace": "shop", "name": "web", "resourceVersion": "7"},
        "spec": {"clusterIP": "1.2.3.4", "ports": ports},
    }
    assert service_fields(service("web", "None", {"port": 80})) == {"metadata": {"namespace": "shop", "name": "web"}}


def test_an_address_of_six_stands_in_brackets() -> None:
    """Where a port follows it."""
    found = service_variables([service("web", "fd00::1", {"port": 80})], "shop", links=True)
    assert (found["WEB_SERVICE_HOST"], found["WEB_PORT"]) == ("fd00::1", "tcp://[fd00::1]:80")
