"""Which pods need hardware of their own, so that the ledger is asked?"""

from typing import Any

import pytest

from proto.kubernetes.resources.extended import is_extended_resource
from workflows.decide.node.hardware_needs import HardwarePolicies, hardware_slice, needs_hardware

STATIC = HardwarePolicies(cpus=True)
DEVICES = HardwarePolicies(is_device=is_extended_resource)


def pod(cpu: str = "2", memory: str = "1Gi", *, limits: bool = True, **more: str) -> dict[str, Any]:
    """Build a pod with one container."""
    amounts = {"cpu": cpu, "memory": memory} | {name.replace("__", "/"): amount for name, amount in more.items()}
    resources = {"requests": amounts} | ({"limits": amounts} if limits else {})
    container = {"name": "c", "image": "busybox:1", "resources": resources, "env": [{"name": "A", "value": "secret"}]}
    meta = {"namespace": "default", "name": "p", "uid": "u", "labels": {"a": "b"}}
    return {"metadata": meta, "spec": {"containers": [container]}}


@pytest.mark.parametrize(
    ("policies", "one", "needs"),
    [
        pytest.param(HardwarePolicies(), pod(), False, id="a-node-that-gives-none"),
        pytest.param(STATIC, pod(), True, id="whole-cpus-of-a-guaranteed-pod"),
        pytest.param(STATIC, pod("1500m"), False, id="parts-of-cpus"),
        pytest.param(STATIC, pod(limits=False), False, id="a-burstable-pod"),
        pytest.param(HardwarePolicies(memory=True), pod("500m"), True, id="memory-of-a-guaranteed-pod"),
        pytest.param(HardwarePolicies(memory=True), pod(limits=False), False, id="memory-of-a-burstable-pod"),
        pytest.param(DEVICES, pod("500m"), False, id="no-device"),
        pytest.param(DEVICES, pod("500m", example__gpu="1"), True, id="a-device"),
    ],
)
def test_who_needs_hardware(policies: HardwarePolicies, one: dict[str, Any], needs: bool) -> None:
    """An ordinary pod costs no message."""
    assert needs_hardware(one, policies) is needs


def test_the_request_has_no_more_than_is_needed() -> None:
    """No environment, no labels."""
    kept = hardware_slice(pod())
    assert kept["metadata"] == {"namespace": "default", "name": "p", "uid": "u"}
    assert kept["spec"]["containers"][0].keys() == {"name", "resources"}
