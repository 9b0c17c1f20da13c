"""Does a pod get the QoS class that the kubelet gives it?"""

from typing import Any

import pytest

from proto.kubernetes.resources.qos import QosClass, qos_class

Resources = dict[str, dict[str, Any]]
BOTH: Resources = {"requests": {"cpu": "100m", "memory": "100Mi"}, "limits": {"cpu": "100m", "memory": "100Mi"}}


def pod_of(*containers: Resources, init: tuple[Resources, ...] = ()) -> dict[str, Any]:
    """Build a pod with only what determines its class."""
    return {
        "spec": {
            "containers": [{"name": f"c{i}", "resources": one} for i, one in enumerate(containers)],
            "initContainers": [{"name": f"i{i}", "resources": one} for i, one in enumerate(init)],
        }
    }


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param({}, QosClass.BEST_EFFORT, id="nothing-at-all"),
        pytest.param(pod_of({}), QosClass.BEST_EFFORT, id="no-resources"),
        pytest.param(pod_of({"limits": {"cpu": "0", "memory": 0}}), QosClass.BEST_EFFORT, id="zeros-do-not-count"),
        pytest.param(
            pod_of({"requests": {"ephemeral-storage": "1Gi"}}), QosClass.BEST_EFFORT, id="storage-does-not-count"
        ),
        pytest.param(pod_of(BOTH), QosClass.GUARANTEED, id="requests-equal-limits"),
        pytest.param(pod_of(BOTH, BOTH, init=(BOTH,)), QosClass.GUARANTEED, id="every-container-and-init-container"),
        pytest.param(
            pod_of({"requests": {"cpu": "0.1", "memory": 104857600}, "limits": BOTH["limits"]}),
            QosClass.GUARANTEED,
            id="equal-however-written",
        ),
        pytest.param(pod_of({"limits": BOTH["limits"]}), QosClass.BURSTABLE, id="limits-alone-before-defaulting"),
        pytest.param(pod_of(BOTH, {}), QosClass.BURSTABLE, id="one-container-without"),
        pytest.param(pod_of(BOTH, init=({},)), QosClass.BURSTABLE, id="one-init-container-without"),
        pytest.param(pod_of({"requests": {"cpu": "1"}}), QosClass.BURSTABLE, id="a-request-alone"),
        pytest.param(
            pod_of({"requests": {"memory": "1Gi"}, "limits": {"memory": "1Gi"}}), QosClass.BURSTABLE, id="memory-alone"
        ),
        pytest.param(
            pod_of({"requests": {"cpu": "100m", "memory": "50Mi"}, "limits": BOTH["limits"]}),
            QosClass.BURSTABLE,
            id="request-below-limit",
        ),
        pytest.param(
            pod_of({}) | {"status": {"qosClass": "Guaranteed"}}, QosClass.GUARANTEED, id="a-class-once-given-stays"
        ),
    ],
)
def test_class(pod: dict[str, Any], expected: QosClass) -> None:
    """The rows of pkg/apis/core/v1/helper/qos/qos_test.go without pod-level resources, and their edge cases."""
    assert qos_class(pod) is expected
