"""Is a field of a disabled feature gate refused by name, and accepted if the gate is on?"""

from typing import Any

import pytest

from worker.poller.manifests.gated_fields import fields_of_gates_off
from worker.settings.kubelet.feature_gates import FeatureGates, gate_warnings, set_gates

FILE = {"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "p", "key": "A"}}}
SPEC: dict[str, Any] = {
    "hostnameOverride": "own.name",
    "initContainers": [{"name": "first"}],
    "containers": [{"name": "web", "lifecycle": {"stopSignal": "SIGINT"}, "env": [{"name": "B"}, FILE]}],
}
STOP = "spec.containers[0].lifecycle.stopSignal: needs the feature gate ContainerStopSignals, which is off"
OVERRIDE = "spec.hostnameOverride: needs the feature gate HostnameOverride, which is off"
FROM_FILE = "spec.containers[0].env[1].valueFrom.fileKeyRef: needs the feature gate EnvFiles, which is off"


@pytest.mark.parametrize(
    ("gates", "refused"),
    [
        pytest.param({}, [STOP], id="defaults-of-1-36"),
        pytest.param({"ContainerStopSignals": True}, [], id="all-on"),
        pytest.param({"ContainerStopSignals": True, "HostnameOverride": False}, [OVERRIDE], id="no-override"),
        pytest.param({"ContainerStopSignals": True, "EnvFiles": False}, [FROM_FILE], id="no-files"),
    ],
)
def test_fields_of_gates_off(gates: dict[str, bool], refused: list[str]) -> None:
    """By the field's path and the gate's name; an operator who switches one of these off is obeyed without a word."""
    assert list(fields_of_gates_off(SPEC, set_gates(gates))) == refused
    assert list(gate_warnings(set_gates(gates))) == []


def test_a_pod_that_asks_for_nothing_of_it_is_taken() -> None:
    """Whatever the gates."""
    off = FeatureGates({"HostnameOverride": False, "EnvFiles": False})
    assert list(fields_of_gates_off({"containers": [{"name": "web"}]}, off)) == []
