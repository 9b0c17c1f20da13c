"""Is a container refused exactly when the API's ValidatePodCreate refuses it, with the same message?

The rows are the kubelet's cases for the supported fields; every message was compared with that of Kubernetes 1.36.3, as were
those of twenty thousand random pods. Our own wording is marked.
"""

from typing import Any

import pytest

from tests.workflows.decide.pods import LABEL_RULE, Pod, container, pod
from workflows.decide.manifest.defaults.defaults import default_pod
from workflows.decide.manifest.validation.pod import validate_pod

ENV_RULE = "a valid environment variable name must consist only of printable ASCII characters other than '='"
C0 = "spec.containers[0]"


def ports(*numbers: int, **spec: Any) -> Pod:
    """Build two containers with host ports."""
    named = zip("ab", numbers, strict=False)
    return pod(
        containers=[
            {"name": name, "image": "a", "ports": [{"containerPort": 80, "hostPort": number}]} for name, number in named
        ],
        **spec,
    )


CONTAINER_ROWS = [
    pytest.param(pod(containers=[]), ["spec.containers: Required value"], id="empty-containers"),
    pytest.param({"metadata": pod()["metadata"], "spec": {}}, ["spec.containers: Required value"], id="no-containers"),
    pytest.param(
        pod(containers=[{}]), [f"{C0}.name: Required value", f"{C0}.image: Required value"], id="empty-container"
    ),
    pytest.param(
        container(name="a.b"), [f'{C0}.name: Invalid value: "a.b": must not contain dots'], id="dot-in-a-name"
    ),
    pytest.param(
        container(name="A"), [f'{C0}.name: Invalid value: "A": {LABEL_RULE}'], id="capital-in-a-container-name"
    ),
    pytest.param(
        container(name="a" * 64),
        [f'{C0}.name: Invalid value: "{"a" * 64}": must be no more than 63 characters'],
        id="container-name-too-long",
    ),
    pytest.param(
        pod(containers=[{"name": "a", "image": "a"}] * 2),
        ['spec.containers[1].name: Duplicate value: "a"'],
        id="two-containers-of-one-name",
    ),
    pytest.param(
        pod(initContainers=[{"name": "web", "image": "a"}]),
        ['spec.initContainers[0].name: Duplicate value: "web"'],
        id="init-container-of-a-container's-name",
    ),
    pytest.param(
        container(image=" a"),
        [f'{C0}.image: Invalid value: " a": must not have leading or trailing whitespace'],
        id="space-before-the-image",
    ),
    pytest.param(
        container(imagePullPolicy="always"),
        [f'{C0}.imagePullPolicy: Unsupported value: "always": supported values: "Always", "IfNotPresent", "Never"'],
        id="pull-policy",
    ),
    pytest.param(
        container(terminationMessagePolicy="x"),
        [f'{C0}.terminationMessagePolicy: Unsupported value: "x": supported values: "File", "FallbackToLogsOnError"'],
        id="message-policy",
    ),
    pytest.param(container(env=[{"value": "x"}]), [f"{C0}.env[0].name: Required value"], id="env-without-name"),
    pytest.param(
        container(env=[{"name": "a=b"}]),
        [f'{C0}.env[0].name: Invalid value: "a=b": {ENV_RULE}'],
        id="env-name-with-equals",
    ),
    pytest.param(
        container(env=[{"name": "1 a-b."}, {"name": "A"}, {"name": "A"}]), [], id="env-names-are-free-otherwise"
    ),
]
PORT_ROWS = [
    pytest.param(container(ports=[{}]), [f"{C0}.ports[0].containerPort: Required value"], id="port-without-number"),
    pytest.param(
        container(ports=[{"containerPort": 65536, "hostPort": -1}]),
        [
            f"{C0}.ports[0].containerPort: Invalid value: 65536: must be between 1 and 65535, inclusive",
            f"{C0}.ports[0].hostPort: Invalid value: -1: must be between 1 and 65535, inclusive",
        ],
        id="ports-out-of-range",
    ),
    pytest.param(
        container(ports=[{"containerPort": 1, "name": "-A--" + "b" * 12}]),
        [
            f'{C0}.ports[0].name: Invalid value: "-A--{"b" * 12}": must be no more than 15 characters',
            (
                f'{C0}.ports[0].name: Invalid value: "-A--{"b" * 12}": must contain only alpha-numeric characters (a-z, 0-9),'
                " and hyphens (-)"
            ),
            f'{C0}.ports[0].name: Invalid value: "-A--{"b" * 12}": must not contain consecutive hyphens',
            f'{C0}.ports[0].name: Invalid value: "-A--{"b" * 12}": must not begin or end with a hyphen',
        ],
        id="port-name",
    ),
    pytest.param(
        container(ports=[{"containerPort": 1, "name": "80"}]),
        [f'{C0}.ports[0].name: Invalid value: "80": must contain at least one letter (a-z)'],
        id="port-name-of-digits",
    ),
    pytest.param(
        container(ports=[{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}]),
        [f'{C0}.ports[1].name: Duplicate value: "a"'],
        id="two-ports-of-one-name",
    ),
    pytest.param(
        container(ports=[{"containerPort": 1, "protocol": "tcp"}]),
        [f'{C0}.ports[0].protocol: Unsupported value: "tcp": supported values: "SCTP", "TCP", "UDP"'],
        id="protocol",
    ),
    pytest.param(
        ports(8080, 8080),
        ['spec.containers[1].ports[0].hostPort: Duplicate value: "TCP//8080"'],
        id="two-containers-on-one-host-port",
    ),
    pytest.param(ports(8080, 8081), [], id="two-host-ports"),
    pytest.param(
        ports(8080, initContainers=[{"name": "i", "image": "a", "ports": [{"containerPort": 1, "hostPort": 8080}]}]),
        [],
        id="an-init-container-may-have-the-same-host-port",
    ),
    pytest.param(
        ports(8080, hostNetwork=True),
        [f"{C0}.ports[0].hostPort: Invalid value: 8080: must match `containerPort` when `hostNetwork` is true"],
        id="host-network-with-another-host-port",
    ),
]
RESOURCE_ROWS = [
    pytest.param(
        container(resources={"requests": {"cpu": "1500m"}, "limits": {"cpu": "1000m"}}),
        [f'{C0}.resources.requests: Invalid value: "1500m": must be less than or equal to cpu limit of 1'],
        id="request-above-limit",
    ),
    pytest.param(container(resources={"requests": {"cpu": "1"}, "limits": {"cpu": "1000m"}}), [], id="equal-amounts"),
    pytest.param(
        container(resources={"requests": {"memory": "-1"}}),
        [f'{C0}.resources.requests[memory]: Invalid value: "-1": must be greater than or equal to 0'],
        id="negative-request",
    ),
    pytest.param(
        container(resources={"requests": {"cpus": "1"}}),
        [f'{C0}.resources.requests[cpus]: Invalid value: "cpus": must be a standard resource for containers'],
        id="unknown-resource",
    ),
    pytest.param(
        container(resources={"requests": {"storage": "1"}}),
        [f'{C0}.resources.requests[storage]: Invalid value: "storage": must be a standard resource for containers'],
        id="resource-of-claims",
    ),
]


@pytest.mark.parametrize(("given_pod", "faults"), [*CONTAINER_ROWS, *PORT_ROWS, *RESOURCE_ROWS])
def test_rules(given_pod: Pod, faults: list[str]) -> None:
    """Every error, with the API's message, and no other."""
    assert list(validate_pod(default_pod(given_pod))) == faults
