"""Which volumes of a pod does a container use? The rows of TestGetPodVolumeNames (pkg/volume/util/util_test.go)."""

from typing import Any

import pytest

from proto.kubernetes.pod_containers import used_volumes

MOUNTS: dict[str, Any] = {"volumeMounts": [{"name": "mounted", "mountPath": "/a"}]}
DEVICES: dict[str, Any] = {"volumeDevices": [{"name": "device", "devicePath": "/dev/a"}]}
READS: dict[str, Any] = {
    "env": [{"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": "file", "path": "a", "key": "A"}}}]
}


@pytest.mark.parametrize(
    ("spec", "used"),
    [
        pytest.param({}, set(), id="no-container"),
        pytest.param({"containers": [{}], "initContainers": None}, set(), id="containers-without-volumes"),
        pytest.param({"containers": [MOUNTS]}, {"mounted"}, id="a-mount"),
        pytest.param({"containers": [DEVICES]}, {"device"}, id="a-device"),
        pytest.param({"containers": [MOUNTS | DEVICES]}, {"mounted", "device"}, id="both-of-one-container"),
        pytest.param({"initContainers": [MOUNTS], "containers": [{}]}, {"mounted"}, id="of-an-init-container"),
        pytest.param({"initContainers": [MOUNTS | {"restartPolicy": "Always"}]}, {"mounted"}, id="of-a-sidecar"),
        pytest.param(
            {"containers": [{}], "ephemeralContainers": [DEVICES]}, {"device"}, id="of-an-ephemeral-container"
        ),
        pytest.param({"containers": [MOUNTS, MOUNTS, DEVICES]}, {"mounted", "device"}, id="of-several-containers"),
        pytest.param({"containers": [READS]}, set(), id="a-variable-from-a-file-mounts-nothing"),
        pytest.param({"containers": [{"volumeMounts": None, "volumeDevices": None}]}, set(), id="nulls"),
    ],
)
def test_used_volumes(spec: dict[str, Any], used: set[str]) -> None:
    """Mounts and devices of containers of every kind."""
    assert used_volumes(spec) == used
