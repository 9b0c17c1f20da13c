"""Are probes validated as by ValidatePodCreate, with its messages and paths, and its defaults?"""

from typing import Any

import pytest

from tests.workflows.decide.pods import container, pod
from workflows.decide.manifest.defaults.defaults import default_pod
from workflows.decide.manifest.fields.structure import read_structure
from workflows.decide.manifest.fields.supported import POD
from workflows.decide.manifest.validation.pod import validate_pod

HERE = "spec.containers[0]"
TCP = {"tcpSocket": {"port": 80}}
GRACE = "terminationGracePeriodSeconds"


def faults(**fields: Any) -> list[str]:
    """Validate a pod whose container has these fields."""
    structure = read_structure(container(**fields), POD)
    assert structure.not_yet == ()
    return [*structure.faults, *validate_pod(default_pod(structure.content))]


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"livenessProbe": {"exec": {"command": ["true"]}}}, id="exec"),
        pytest.param({"readinessProbe": {"httpGet": {"port": 80}}}, id="http-get"),
        pytest.param(
            {"readinessProbe": {"httpGet": {"port": 80, "scheme": "HTTPS", "httpHeaders": [{"name": "X-A"}]}}},
            id="https-with-a-header",
        ),
        pytest.param({"startupProbe": TCP}, id="tcp-socket"),
        pytest.param({"livenessProbe": {"grpc": {"port": 50051, "service": "x"}}}, id="grpc"),
        pytest.param(
            {"readinessProbe": {"tcpSocket": {"port": "web"}}, "ports": [{"name": "web", "containerPort": 80}]},
            id="a-port-by-name",
        ),
        pytest.param({"readinessProbe": {**TCP, "successThreshold": 3}}, id="readiness-may-need-several"),
        pytest.param({"livenessProbe": {**TCP, "terminationGracePeriodSeconds": 1}}, id="a-grace-of-its-own"),
        pytest.param({"livenessProbe": {**TCP, "periodSeconds": 0, "failureThreshold": 0}}, id="zero-is-unset"),
    ],
)
def test_valid_probes(fields: dict[str, Any]) -> None:
    """They are accepted."""
    assert faults(**fields) == []


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        pytest.param({"livenessProbe": {}}, ".livenessProbe: Required value: must specify a handler type", id="none"),
        pytest.param(
            {"livenessProbe": {**TCP, "exec": {"command": ["true"]}}},
            ".livenessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type",
            id="two-handlers",
        ),
        pytest.param({"livenessProbe": {"exec": {}}}, ".livenessProbe.exec.command: Required value", id="no-command"),
        pytest.param(
            {"readinessProbe": {"httpGet": {}}},
            ".readinessProbe.httpGet.port: Invalid value: 0: must be between 1 and 65535, inclusive",
            id="no-port",
        ),
        pytest.param(
            {"readinessProbe": {"tcpSocket": {"port": 70000}}},
            ".readinessProbe.tcpSocket.port: Invalid value: 70000: must be between 1 and 65535, inclusive",
            id="a-port-that-is-none",
        ),
        pytest.param(
            {"readinessProbe": {"grpc": {}}},
            ".readinessProbe.grpc.port: Invalid value: 0: must be between 1 and 65535, inclusive",
            id="grpc-without-port",
        ),
        pytest.param(
            {"readinessProbe": {"tcpSocket": {"port": "80"}}},
            '.readinessProbe.tcpSocket.port: Invalid value: "80": must contain at least one letter (a-z)',
            id="a-number-as-text",
        ),
        pytest.param(
            {"readinessProbe": {"httpGet": {"port": "web"}}},
            '.readinessProbe.httpGet.port: Invalid value: "web": must be the name of one of the container\'s ports',
            id="an-unknown-port",
        ),
        pytest.param(
            {"readinessProbe": {"httpGet": {"port": 80, "scheme": "http"}}},
            '.readinessProbe.httpGet.scheme: Unsupported value: "http": supported values: "HTTP", "HTTPS"',
            id="a-scheme-in-lower-case",
        ),
        pytest.param(
            {"readinessProbe": {"httpGet": {"port": 80, "httpHeaders": [{"name": "X_A", "value": "1"}]}}},
            '.readinessProbe.httpGet.httpHeaders: Invalid value: "X_A": a valid HTTP header must consist of alphanumeric'
            " characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')",
            id="a-header-that-is-none",
        ),
        *[
            pytest.param({probe: {**TCP, field: value}}, f".{probe}.{field}: Invalid value: {value}: {why}", id=name)
            for probe, field, value, why, name in (
                ("livenessProbe", "successThreshold", 2, "must be 1", "liveness-needs-one-success"),
                ("startupProbe", "successThreshold", 2, "must be 1", "startup-needs-one-success"),
                ("readinessProbe", GRACE, 5, "must not be set for readinessProbes", "readiness-stops-nothing"),
                ("livenessProbe", GRACE, 0, "must be greater than 0", "a-grace-of-nothing"),
            )
        ],
        *[
            pytest.param(
                {"readinessProbe": {**TCP, field: -1}},
                f".readinessProbe.{field}: Invalid value: -1: must be greater than or equal to 0",
                id=f"negative-{field}",
            )
            for field in (
                "initialDelaySeconds",
                "timeoutSeconds",
                "periodSeconds",
                "successThreshold",
                "failureThreshold",
            )
        ],
        pytest.param(
            {"livenessProbe": {"tcpSocket": {"port": True}}},
            ".livenessProbe.tcpSocket.port: must be a 32-bit integer or a string, not a boolean",
            id="a-port-of-another-kind",
        ),
    ],
)
def test_bad_probes(fields: dict[str, Any], fault: str) -> None:
    """Refused with the field's path."""
    assert f"{HERE}{fault}" in faults(**fields)


@pytest.mark.parametrize("field", ["livenessProbe", "readinessProbe", "startupProbe"])
def test_init_containers_have_no_probes(field: str) -> None:
    """They run to completion."""
    source = pod(initContainers=[{"name": "first", "image": "busybox", field: TCP}])
    assert list(validate_pod(default_pod(source))) == [
        f"spec.initContainers[0].{field}: Forbidden: may not be set for init containers without restartPolicy=Always"
    ]


def test_defaults() -> None:
    """The defaults of pkg/apis/core/v1/defaults.go."""
    filled = default_pod(container(livenessProbe={"httpGet": {"port": 80}}, startupProbe={"grpc": {"port": 1}}))
    web = filled["spec"]["containers"][0]
    numbers = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
    assert web["livenessProbe"] == {"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}, **numbers}
    assert web["startupProbe"] == {"grpc": {"port": 1, "service": ""}, **numbers}
