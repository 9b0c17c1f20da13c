"""Is an operation on a volume counted with the kubelet's labels, whatever the pod's spec says of the volume?

The driver runs in the test's process with folders as volumes; its mounts are real.
"""

import contextlib
import os
from dataclasses import replace

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.execution.timings import Timings
from activities.volumes.pod_volumes import VolumeActivities
from proto.temporal.activities.volumes import MountVolumes
from proto.temporal.pod import PodJson
from tests.activities.volumes.csi.csi_node import CLAIM, NAME, Node

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it mounts")
OURS = f"kubernetes.io/csi:{NAME}"
AZURE = "kubernetes.io/csi:disk.csi.azure.com"
URI = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/disks/d"
ELSEWHERE = {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}
MOUNTED, UNMOUNTED = ("volume_mount", False), ("volume_unmount", False)
FAILED = ("volume_mount", True)


@pytest.mark.parametrize(
    ("volume", "bound", "plugin", "counted"),
    [
        pytest.param(CLAIM, {}, OURS, [MOUNTED, UNMOUNTED], id="a-claim"),
        pytest.param(
            CLAIM, {"volumeMode": "Block"}, OURS, [("map_volume", False), ("unmap_volume", False)], id="a-device"
        ),
        pytest.param(CLAIM, {"nodeAffinity": ELSEWHERE}, OURS, [FAILED], id="a-claim-of-another-node"),
        pytest.param(
            CLAIM, {"csi": {"driver": "no.test"}}, "kubernetes.io/csi:no.test", [FAILED], id="a-driver-that-is-missing"
        ),
        pytest.param({"name": "data", "persistentVolumeClaim": {"claimName": "none"}}, {}, "", [], id="no-such-claim"),
        pytest.param({"name": "data", "csi": {"driver": NAME}}, {}, OURS, [MOUNTED, UNMOUNTED], id="in-the-pods-spec"),
        pytest.param(
            {"name": "data", "azureDisk": {"diskName": "d", "diskURI": URI, "kind": "Managed"}},
            {},
            AZURE,
            [FAILED],
            id="a-cloud",
        ),
        pytest.param(
            {"name": "data", "hostPath": {"path": "/"}},
            {},
            "kubernetes.io/host-path",
            [MOUNTED, UNMOUNTED],
            id="not-csi",
        ),
    ],
)
async def test_the_labels_of_an_operation(
    node: Node, volume: PodJson, bound: PodJson, plugin: str, counted: list[tuple[str, bool]]
) -> None:
    """CSI's plugin with its driver; what was not mounted is not unmounted, and what is not found is neither."""
    found: list[tuple[str, str, bool]] = []
    node.driver_object(volumeLifecycleModes=["Persistent", "Ephemeral"])
    node.bind(**bound)
    timings = Timings(volume=lambda plugin, operation, _, failed: found.append((plugin, operation, failed)))
    node.services = replace(node.services, timings=timings)
    pod = node.pod("uid-1")
    metadata = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
    request = MountVolumes(pod, (volume,), {"metadata": metadata, "spec": {}})
    with contextlib.suppress(ApplicationError):
        await ActivityEnvironment().run(VolumeActivities(node.services).mount_volumes, request)
    await node.unmount(pod, volume)
    assert found == [(plugin, operation, failed) for operation, failed in counted]
