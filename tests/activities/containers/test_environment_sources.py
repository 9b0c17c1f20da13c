"""Does each variable get the kubelet's value, and each failure the kubelet's message?

The rows are those of its TestMakeEnvironmentVariables (pkg/kubelet/kubelet_pods_test.go), except for those about
services.
"""

import asyncio
from base64 import b64encode
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from activities.containers.environment_sources import container_environment
from activities.cri_config.environment import UnresolvedVariable
from activities.cri_config.service_links import NoServices, ServicesUnknown
from activities.node_services import NodeServices
from activities.objects.objects import ObjectKind
from activities.settings.activity_settings import ActivitySettings
from proto.kubernetes.resources.quantity import parse_quantity
from proto.temporal.activities.requests import StartContainer
from proto.temporal.mounted import MountedVolume
from proto.temporal.pod import PodKey
from tests.activities.stored_objects import ObjectsInMemory

ALLOCATABLE = {name: parse_quantity(text) for name, text in (("cpu", "4"), ("memory", "8Gi"))}


def encoded(text: bytes) -> str:
    """Write a Secret's value."""
    return b64encode(text).decode()


OBJECTS = {
    "conf": {"k1": "v1", "k2": "v2", "EMPTY": "", "not a name": "x"},
    "token": {"password": encoded(b"hunter2"), "binary": encoded(b"\xff\xfe"), "nul": encoded(b"a\0b")},
    "broken": {"k": "no base64"},
}
POD: dict[str, Any] = {
    "metadata": {
        "name": "web",
        "namespace": "shop",
        "uid": "uid-1",
        "labels": {"app": "shop"},
        "annotations": {"a/b": "c"},
    },
    "spec": {
        "nodeName": "node-1",
        "serviceAccountName": "robot",
        "containers": [{"name": "app"}, {"name": "other", "resources": {"limits": {"cpu": "1500m"}}}],
        "initContainers": [{"name": "first"}],
    },
}
REQUEST = StartContainer(
    PodKey("shop", "web", "uid-1"),
    "s",
    0,
    "",
    {"name": "app"},
    POD,
    0,
    ("10.1.0.7", "fd00::7"),
    host_ips=("192.0.2.1",),
)


def kept() -> ObjectsInMemory:
    """Store the objects, and refuse one."""
    objects = ObjectsInMemory()
    for name, data in OBJECTS.items():
        kind = ObjectKind.CONFIG_MAPS if name == "conf" else ObjectKind.SECRETS
        objects.put(kind, name, {"data": data}, namespace="shop")
    objects.refused[ObjectKind.SECRETS, "shop", "refused"] = "refused.yaml: must not be readable by others"
    return objects


class Links:
    """The Services of the namespace, or why they are unknown."""

    def __init__(self, *services: dict[str, Any], away: str = "") -> None:
        self.listed, self.away = services, away

    async def services(self) -> tuple[dict[str, Any], ...]:
        """Return them."""
        if self.away:
            raise ServicesUnknown(self.away)
        return self.listed


def started(request: StartContainer = REQUEST, links: Links | None = None, **container: Any) -> Any:
    """Resolve the environment of a container."""
    objects = kept()
    services = SimpleNamespace(
        settings=ActivitySettings(allocatable=ALLOCATABLE), objects=objects, service_links=links or NoServices()
    )
    request = replace(request, container={"name": "app", **container})
    environment = asyncio.run(container_environment(cast("NodeServices", services), request))
    return environment, [name for _, _, name in objects.reads]


def values(**container: Any) -> dict[str, str]:
    """Return the resolved values."""
    return dict(started(**container)[0].values)


def field(path: str) -> dict[str, Any]:
    """Refer to a field of the pod."""
    return {"name": "F", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}


def key_of(ref: str, name: str, key: str, **more: Any) -> dict[str, Any]:
    """Refer to a key of an object."""
    return {"name": "K", "valueFrom": {ref: {"name": name, "key": key, **more}}}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param("metadata.name", "web", id="name"),
        pytest.param("metadata.namespace", "shop", id="namespace"),
        pytest.param("metadata.uid", "uid-1", id="uid"),
        pytest.param("metadata.labels['app']", "shop", id="label"),
        pytest.param("metadata.annotations['a/b']", "c", id="annotation"),
        pytest.param("metadata.labels['none']", "", id="a-label-that-is-not-there-is-empty"),
        pytest.param("spec.nodeName", "node-1", id="node"),
        pytest.param("spec.serviceAccountName", "robot", id="service-account"),
        pytest.param("status.hostIP", "192.0.2.1", id="host-ip"),
        pytest.param("status.hostIPs", "192.0.2.1", id="host-ips"),
        pytest.param("status.podIP", "10.1.0.7", id="pod-ip"),
        pytest.param("status.podIPs", "10.1.0.7,fd00::7", id="pod-ips"),
    ],
)
def test_fields(path: str, expected: str) -> None:
    """The downward API."""
    assert values(env=[field(path)]) == {"F": expected}


def test_a_node_of_the_other_family_orders_the_pods_addresses() -> None:
    """One of each family, the node's primary family first."""
    request = replace(REQUEST, ips=("10.1.0.7", "fd00::7", "10.1.0.8"), host_ips=("fd00::1", "192.0.2.1"))
    environment, _ = started(request, env=[field("status.podIPs")])
    assert environment.values == {"F": "fd00::7,10.1.0.7"}


def test_a_pod_on_the_host_network_has_the_nodes_addresses() -> None:
    """Its sandbox has none."""
    pod = {**POD, "spec": {**POD["spec"], "hostNetwork": True}}
    environment, _ = started(replace(REQUEST, sandbox_spec=pod, ips=()), env=[field("status.podIP")])
    assert environment.values == {"F": "192.0.2.1"}


def test_a_node_without_address_is_told() -> None:
    """The message says what to do on the node."""
    with pytest.raises(UnresolvedVariable, match="the node has no address"):
        started(replace(REQUEST, host_ips=()), env=[field("status.hostIP")])


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        pytest.param({"resource": "limits.cpu"}, "4", id="the-nodes-cpu-where-there-is-no-limit"),
        pytest.param({"resource": "limits.memory", "divisor": "1Gi"}, "8", id="the-nodes-memory"),
        pytest.param({"resource": "requests.cpu"}, "0", id="no-request"),
        pytest.param({"resource": "limits.cpu", "containerName": "other", "divisor": "1m"}, "1500", id="anothers"),
        pytest.param({"resource": "limits.cpu", "containerName": "app"}, "4", id="own-by-name"),
        pytest.param({"resource": "limits.cpu", "containerName": "first"}, "0", id="init-containers-have-no-default"),
    ],
)
def test_resources(selector: dict[str, str], expected: str) -> None:
    """Requests and limits of a container."""
    assert values(env=[{"name": "R", "valueFrom": {"resourceFieldRef": selector}}]) == {"R": expected}


FROM_CONF = [{"configMapRef": {"name": "conf"}}]
ROWS = [
    pytest.param({"env": [key_of("configMapKeyRef", "conf", "k1")]}, {"K": "v1"}, id="key-of-a-configmap"),
    pytest.param({"env": [key_of("secretKeyRef", "token", "password")]}, {"K": "hunter2"}, id="key-of-a-secret"),
    pytest.param(
        {"env": [key_of("secretKeyRef", "token", "binary")]}, {"K": "\udcff\udcfe"}, id="bytes-that-are-no-text"
    ),
    pytest.param({"env": [key_of("configMapKeyRef", "none", "k", optional=True)]}, {}, id="optional-object-missing"),
    pytest.param({"env": [key_of("configMapKeyRef", "conf", "k", optional=True)]}, {}, id="optional-key-missing"),
    pytest.param({"env": [key_of("secretKeyRef", "token", "k", optional=True)]}, {}, id="optional-secret-key-missing"),
    pytest.param({"envFrom": [{"configMapRef": {"name": "none", "optional": True}}]}, {}, id="optional-source-missing"),
    pytest.param(
        {"envFrom": [{"prefix": "P_", "configMapRef": {"name": "conf"}}]},
        {"P_k1": "v1", "P_k2": "v2", "P_EMPTY": "", "P_not a name": "x"},
        id="all-keys-with-a-prefix",
    ),
    pytest.param(
        {"envFrom": FROM_CONF, "env": [{"name": "k1", "value": "own"}, {"name": "S", "value": "$(k2)"}]},
        {"k1": "own", "k2": "v2", "EMPTY": "", "not a name": "x", "S": "v2"},
        id="env-goes-before-and-refers-to-envfrom",
    ),
    pytest.param(
        {
            "envFrom": [*FROM_CONF, {"secretRef": {"name": "none", "optional": True}}],
            "env": [{"name": "k2", "value": "$$(k1)"}],
        },
        {"k1": "v1", "k2": "$(k1)", "EMPTY": "", "not a name": "x"},
        id="an-escape-is-no-reference",
    ),
    pytest.param(
        {"env": [{"name": "K", "value": "kept"}, key_of("configMapKeyRef", "conf", "k", optional=True)]},
        {"K": "kept"},
        id="an-optional-one-that-is-missing-leaves-the-one-above",
    ),
    pytest.param({"env": [{"name": "V", "value": "", "valueFrom": None}]}, {"V": ""}, id="no-source-at-all"),
]


@pytest.mark.parametrize(("container", "expected"), ROWS)
def test_objects(container: dict[str, Any], expected: dict[str, str]) -> None:
    """Keys of objects."""
    assert values(**container) == expected


@pytest.mark.parametrize(
    ("container", "message"),
    [
        pytest.param(
            {"env": [key_of("configMapKeyRef", "none", "k")]}, 'configmap "none" not found', id="no-configmap"
        ),
        pytest.param({"env": [key_of("secretKeyRef", "none", "k")]}, 'secret "none" not found', id="no-secret"),
        pytest.param({"envFrom": [{"secretRef": {"name": "none"}}]}, 'secret "none" not found', id="no-source"),
        pytest.param(
            {"env": [key_of("configMapKeyRef", "conf", "k")]},
            "couldn't find key k in ConfigMap shop/conf",
            id="no-key-of-a-configmap",
        ),
        pytest.param(
            {"env": [key_of("secretKeyRef", "token", "k")]},
            "couldn't find key k in Secret shop/token",
            id="no-key-of-a-secret",
        ),
        pytest.param(
            {"env": [key_of("secretKeyRef", "refused", "k", optional=True)]},
            "refused.yaml: must not be readable by others",
            id="refused-though-optional",
        ),
        pytest.param(
            {"env": [key_of("secretKeyRef", "broken", "k")]},
            'secret "broken" holds something that is not base64',
            id="no-base64",
        ),
        pytest.param(
            {"env": [key_of("secretKeyRef", "token", "nul")]},
            "env K: its value holds a NUL byte, which no environment can",
            id="a-nul-byte",
        ),
    ],
)
def test_what_is_missing_is_told_in_the_kubelets_words(container: dict[str, Any], message: str) -> None:
    """The message is the kubelet's, and quotes no value of an existing object."""
    with pytest.raises(UnresolvedVariable) as raised:
        started(**container)
    assert str(raised.value) == message


def file_key(key: str, *, path: str = "conf/env", optional: bool = False) -> dict[str, Any]:
    """Refer to a variable in a file."""
    selector = {"volumeName": "v", "path": path, "key": key, "optional": optional}
    return {"name": "F", "valueFrom": {"fileKeyRef": selector}}


def test_files_in_volumes_bring_variables(tmp_path: Path) -> None:
    """An optional variable may be missing, a file may not; values are confidential."""
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/env").write_text("A='one'\nE=''\n")
    request = replace(REQUEST, volumes=(MountedVolume("v", str(tmp_path)),))
    environment, _ = started(request, env=[file_key("A")])
    assert (environment.values, environment.confidential) == ({"F": "one"}, {"F"})
    assert not started(request, env=[file_key("E", optional=True)])[0].values
    for wanted, words in (
        (file_key("E"), r'^environment variable key "E" not found in file "conf/env"$'),
        (file_key("A", path="none", optional=True), r"^couldn't parse env file none of volume v: No such file"),
    ):
        with pytest.raises(UnresolvedVariable, match=words):
            started(request, env=[wanted])
    with pytest.raises(UnresolvedVariable, match=r'^cannot find the volume "v" referenced by FileKeyRef$'):
        started(env=[file_key("A")])


def test_each_object_is_read_once() -> None:
    """In the kubelet's order; an object whose value is overridden is not read."""
    env = [key_of("secretKeyRef", "token", "password"), key_of("configMapKeyRef", "conf", "k1")]
    _, read = started(envFrom=FROM_CONF, env=[*env, {"name": "V", "value": "v"}])
    assert read == ["conf", "token"]


def test_what_came_out_of_an_object_is_confidential() -> None:
    """So is what refers to it; a literal value in its place is not."""
    env = [
        key_of("secretKeyRef", "token", "password"),
        {"name": "URL", "value": "db://$(K)@db"},
        {"name": "PLAIN", "value": "$$(K)"},
        {"name": "k1", "value": "own"},
        field("metadata.name"),
    ]
    environment, _ = started(envFrom=FROM_CONF, env=env)
    assert environment.confidential == {"K", "URL", "k2", "EMPTY", "not a name"}
    assert "hunter2" not in repr(environment)


WEB = {
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {"clusterIP": "1.2.3.4", "ports": [{"port": 80, "protocol": "TCP"}]},
}


def test_services_are_told_beside_a_containers_own_variables() -> None:
    """They may be referred to and are overridden by the container's own; they are not confidential."""
    own = [
        {"name": "URL", "value": "http://$(WEB_SERVICE_HOST):$(WEB_SERVICE_PORT)"},
        {"name": "WEB_PORT", "value": "own"},
    ]
    environment, _ = started(links=Links(WEB), env=own)
    assert environment.values["URL"] == "http://1.2.3.4:80"
    assert environment.values["WEB_PORT"] == "own"
    assert environment.values["WEB_PORT_80_TCP_ADDR"] == "1.2.3.4"
    assert not environment.confidential


def test_services_are_not_told_to_whom_does_not_want_them() -> None:
    """enableServiceLinks: false."""
    pod = {**POD, "spec": {**POD["spec"], "enableServiceLinks": False}}
    assert started(replace(REQUEST, sandbox_spec=pod), Links(WEB))[0].values == {}


def test_services_that_are_not_known_hold_up_pods_of_the_api_only() -> None:
    """A static pod may be the API server itself (pkg/kubelet/kubelet_pods.go makeEnvironmentVariables)."""
    with pytest.raises(UnresolvedVariable, match=r"services have not yet been read at least once.*: no answer"):
        started(links=Links(away="no answer"))
    metadata = {**POD["metadata"], "annotations": {"kubernetes.io/config.source": "file"}}
    static = replace(REQUEST, sandbox_spec={**POD, "metadata": metadata})
    assert started(static, Links(away="no answer"))[0].values == {}
