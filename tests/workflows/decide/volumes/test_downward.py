"""Does a start carry the pod's fields that the container's variables use, and nothing otherwise?"""

import pytest

from tests.workflows.decide.situations import container, pod, situation
from workflows.decide.slices import sandbox_slice
from workflows.decide.steps.containers import start
from workflows.decide.volumes.downward import start_slice


def told(path: str) -> dict[str, object]:
    """Build a fieldRef."""
    return {"name": "F", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}


SPEC = {"nodeName": "node-1", "serviceAccountName": "robot"}


@pytest.mark.parametrize(
    ("path", "brought"),
    [
        pytest.param("metadata.name", {}, id="metadata-is-there-anyway"),
        pytest.param("spec.nodeName", {"nodeName": "node-1"}, id="node"),
        pytest.param("spec.host", {"nodeName": "node-1"}, id="node-by-its-old-name"),
        pytest.param("spec.serviceAccountName", {"serviceAccountName": "robot"}, id="service-account"),
    ],
)
def test_fields_of_the_spec(path: str, brought: dict[str, str]) -> None:
    """Only for the container that uses them."""
    source = pod(containers=[container("web", env=[told(path)]), container("side")], **SPEC)
    sandbox = sandbox_slice(source)
    assert start_slice(source, "side") == sandbox
    assert start_slice(source, "web")["spec"] == sandbox["spec"] | brought


@pytest.mark.parametrize(
    ("env", "ips"),
    [
        pytest.param([told("status.hostIP")], ("192.0.2.1",), id="the-nodes-address"),
        pytest.param([told("status.podIPs")], ("192.0.2.1",), id="the-pods-which-may-be-the-nodes"),
        pytest.param([told("metadata.uid"), {"name": "A", "value": "b"}], (), id="nothing-of-them"),
        pytest.param([], (), id="no-variables"),
    ],
)
def test_the_nodes_addresses(env: list[dict[str, object]], ips: tuple[str, ...]) -> None:
    """A plain start has none."""
    seen = situation(pod(containers=[container("web", env=env)]))
    assert start(seen, seen.containers[0]).host_ips == ips
