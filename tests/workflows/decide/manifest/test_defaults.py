"""Does a pod get the same defaults as in Kubernetes?

The rows were compared with SetObjectDefaults_Pod of 1.36.3, together with twenty thousand random pods.
"""

import copy
from typing import Any

import pytest

from workflows.decide.manifest.defaults.defaults import default_pod, pull_policy_of

DIGEST = f"sha256:{'0' * 64}"


def pod_of(container: Any = None, **spec: Any) -> dict[str, Any]:
    """Build a pod with one container."""
    return {"metadata": {"name": "p"}, "spec": {"containers": [container or {}]} | spec}


def container_of(container: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Return the defaulted container."""
    (filled,) = default_pod(pod_of(container, **spec))["spec"]["containers"]
    assert isinstance(filled, dict)
    return filled


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        pytest.param("busybox", "Always", id="no-tag-means-latest"),
        pytest.param("busybox:latest", "Always", id="latest-written-out"),
        pytest.param("busybox:1", "IfNotPresent", id="a-tag"),
        pytest.param("registry:5000/busybox", "Always", id="a-port-is-no-tag"),
        pytest.param("registry:5000/busybox:1", "IfNotPresent", id="port-and-tag"),
        pytest.param("[::1]:5000/a", "Always", id="ipv6-registry"),
        pytest.param("docker.io/library/a-b.c_d__e:1_2-3.4", "IfNotPresent", id="separators"),
        pytest.param(f"busybox@{DIGEST}", "IfNotPresent", id="digest-without-tag"),
        pytest.param(f"busybox:1@{DIGEST}", "IfNotPresent", id="tag-and-digest"),
        pytest.param(f"busybox:latest@{DIGEST}", "Always", id="latest-and-digest"),
        pytest.param("Busybox", "IfNotPresent", id="capitals-are-no-reference"),
        pytest.param("REGISTRY/busybox", "Always", id="capitals-in-a-registry"),
        pytest.param("0" * 64, "IfNotPresent", id="an-image-id"),
        pytest.param("a___b", "IfNotPresent", id="three-underscores"),
        pytest.param(f"a:{'t' * 129}", "IfNotPresent", id="tag-too-long"),
        pytest.param("a@sha256:00", "IfNotPresent", id="digest-too-short"),
        pytest.param("", "IfNotPresent", id="no-image"),
        pytest.param("a/" * 100_000, "IfNotPresent", id="endless"),
    ],
)
def test_pull_policy(image: str, policy: str) -> None:
    """The tag latest is always pulled, any other only if missing."""
    assert pull_policy_of(image) == policy


@pytest.mark.parametrize(
    ("field", "value"),
    [
        pytest.param("restartPolicy", "Always", id="restartPolicy"),
        pytest.param("dnsPolicy", "ClusterFirst", id="dnsPolicy"),
        pytest.param("schedulerName", "default-scheduler", id="schedulerName"),
        pytest.param("terminationGracePeriodSeconds", 30, id="terminationGracePeriodSeconds"),
        pytest.param("securityContext", {}, id="securityContext"),
        pytest.param("enableServiceLinks", True, id="enableServiceLinks"),
    ],
)
def test_pod_defaults(field: str, value: object) -> None:
    """Only absent fields are set; zero and false are kept."""
    assert default_pod(pod_of())["spec"][field] == value
    said: Any = {str: "said", int: 0, bool: False, dict: {}}[type(value)]
    assert default_pod(pod_of(**{field: said}))["spec"][field] == said


@pytest.mark.parametrize("field", ["restartPolicy", "dnsPolicy", "schedulerName"])
def test_empty_text_is_unset(field: str) -> None:
    """Go's string fields cannot distinguish empty from absent."""
    assert default_pod(pod_of(**{field: ""}))["spec"] == default_pod(pod_of())["spec"]


def test_container_defaults() -> None:
    """A container gets its termination message path and its policies; init containers too."""
    filled = container_of({"image": "a:1"})
    assert filled == {
        "image": "a:1",
        "imagePullPolicy": "IfNotPresent",
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "resources": {},
    }
    spec = default_pod(pod_of(initContainers=[{"image": "a:1"}]))["spec"]
    assert spec["initContainers"] == [filled]
    assert "initContainers" not in default_pod(pod_of())["spec"]


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        pytest.param(
            {"limits": {"cpu": "1", "memory": "1Gi"}},
            {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}},
            id="requests-follow-limits",
        ),
        pytest.param(
            {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "0"}},
            {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "0", "memory": "1Gi"}},
            id="a-request-of-zero-is-a-request",
        ),
        pytest.param({"requests": {"cpu": "1"}}, {"requests": {"cpu": "1"}}, id="limits-do-not-follow-requests"),
        pytest.param(
            {"limits": {"cpu": "100u"}},
            {"limits": {"cpu": "1m"}, "requests": {"cpu": "1m"}},
            id="finer-than-a-thousandth-is-rounded-up",
        ),
    ],
)
def test_resources(resources: dict[str, Any], expected: dict[str, Any]) -> None:
    """Requests default to the limits."""
    assert container_of({"resources": resources})["resources"] == expected


@pytest.mark.parametrize(
    ("port", "spec", "expected"),
    [
        pytest.param({"containerPort": 80}, {}, {"containerPort": 80, "protocol": "TCP"}, id="tcp"),
        pytest.param({"protocol": ""}, {}, {"protocol": "TCP"}, id="empty-protocol"),
        pytest.param({"protocol": "UDP"}, {}, {"protocol": "UDP"}, id="udp-stays"),
        pytest.param(
            {"containerPort": 80},
            {"hostNetwork": True},
            {"containerPort": 80, "hostPort": 80, "protocol": "TCP"},
            id="on-the-host-network-the-port-is-the-host's",
        ),
        pytest.param(
            {"containerPort": 80, "hostPort": 81},
            {"hostNetwork": True},
            {"containerPort": 80, "hostPort": 81, "protocol": "TCP"},
            id="a-host-port-that-is-said-stays",
        ),
    ],
)
def test_ports(port: dict[str, Any], spec: dict[str, Any], expected: dict[str, Any]) -> None:
    """A port's protocol, and its hostPort on the host network."""
    assert container_of({"ports": [port]}, **spec)["ports"] == [expected]


def test_the_given_pod_stays_as_it_is() -> None:
    """With YAML aliases one mapping appears in several places: none may be changed."""
    shared = {"limits": {"cpu": "1"}}
    pod = pod_of({"resources": shared, "ports": [{"containerPort": 1}]}, hostNetwork=True)
    before = copy.deepcopy(pod)
    first = default_pod(pod)
    assert pod == before
    assert default_pod(first) == first
