"""Which requested resizes does the kubelet count?"""

import pytest

from proto.temporal.pod import PodJson
from workflows.decide.resources.resize_operations import resize_operations

SIDECAR = {"restartPolicy": "Always"}


def pod(requests: PodJson, limits: PodJson | None = None, **more: PodJson) -> PodJson:
    """Return a pod of one container, and of init containers with the same requests."""
    resources = {"requests": requests, **({"limits": limits} if limits else {})}
    inits = [{"name": name, "resources": resources, **fields} for name, fields in more.items()]
    return {"spec": {"containers": [{"name": "main", "resources": resources}], "initContainers": inits}}


@pytest.mark.parametrize(
    ("before", "now", "found"),
    [
        pytest.param(pod({"cpu": "1"}), pod({"cpu": "1000m"}), [], id="the-same-written-otherwise"),
        pytest.param(pod({"cpu": "1"}), pod({"cpu": "2"}), ["cpu requests increase"], id="more"),
        pytest.param(pod({"memory": "2Mi"}), pod({"memory": "1Mi"}), ["memory requests decrease"], id="less"),
        pytest.param(
            pod({"cpu": "1"}, {"cpu": "1"}),
            pod({"memory": "1Mi"}),
            ["memory requests add", "cpu requests remove", "cpu limits remove"],
            id="added-and-removed",
        ),
        pytest.param(pod({"cpu": "0"}), pod({"cpu": "1"}), ["cpu requests add"], id="0-is-none"),
        pytest.param(pod({"example.com/gpu": "1"}), pod({"example.com/gpu": "2"}), [], id="only-cpu-and-memory"),
        pytest.param(
            pod({"cpu": "1"}, side=SIDECAR, init={}),
            pod({"cpu": "2"}, side=SIDECAR, init={}),
            ["cpu requests increase"] * 2,
            id="sidecars-but-no-init-containers",
        ),
        pytest.param(pod({"cpu": "1"}, side=SIDECAR), pod({"cpu": "1"}), [], id="a-container-that-is-gone"),
    ],
)
def test_what_is_counted(before: PodJson, now: PodJson, found: list[str]) -> None:
    """Each resource of each container by itself."""
    assert [" ".join(one) for one in resize_operations(before, now)] == found
