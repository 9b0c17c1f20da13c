"""Is a grown volume expanded before a pod starts, whatever its driver and the API server do meanwhile?"""

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from activities.volumes.plugin.volume_type import VolumeFailed
from tests.activities.volumes.csi.csi_node import CANARY, CLAIM, NodeWithDriver
from tests.activities.volumes.csi.expansion.grown_claim import EXPAND, EXPANDS, GI, GrownClaim
from tests.csi.orders import Order, Setup

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it mounts")
DONE: dict[str, Any] = {
    "phase": "Bound",
    "capacity": {"storage": "2Gi"},
    "allocatedResources": {"storage": "2Gi"},
    "allocatedResourceStatuses": {},
    "conditions": [],
}
SUCCEEDED = ("FileSystemResizeSuccessful", True)


@pytest.fixture
async def grown(tmp_path: Path) -> AsyncIterator[GrownClaim]:
    """Return a node whose claim has grown, and a driver that expands."""
    async with NodeWithDriver(tmp_path, Setup(capabilities=EXPANDS)) as node:
        made = GrownClaim(node)
        made.grow()
        yield made


async def test_before_a_pod_starts(grown: GrownClaim) -> None:
    """After it was published, with its paths; the status follows, and both pod and claim have the kubelet's event."""
    node = grown.node
    node.secret("expand", key=CANARY)
    grown.grow(csi={"fsType": "ext4", "nodeExpandSecretRef": {"namespace": "default", "name": "expand"}})
    mounted = await node.mount(node.pod("u1"))
    [asked] = node.driver.calls(EXPAND)
    [staged] = node.driver.calls("NodeStageVolume")
    assert asked == {
        "call": EXPAND,
        "volumeId": "vol-1",
        "volumePath": mounted.volume.path,
        "stagingTargetPath": staged["stagingTargetPath"],
        "capacityRange": {"requiredBytes": str(2 * GI)},
        "volumeCapability": {"mount": {"fsType": "ext4"}, "accessMode": {"mode": "SINGLE_NODE_WRITER"}},
        "secrets": {"key": CANARY},
    }
    assert [one.get("allocatedResourceStatuses") for one in grown.patches] == [
        {"storage": "NodeResizeInProgress"},
        {"storage": None},
    ]
    assert grown.status == DONE
    assert grown.reasons == [SUCCEEDED]
    assert grown.told[0].message == 'MountVolume.NodeExpandVolume succeeded for volume "pv1" n1'
    await node.mount(node.pod("u1"))
    assert node.driver.count(EXPAND) == 1


async def test_a_device(grown: GrownClaim) -> None:
    """As a block volume, at its published path."""
    grown.grow(volumeMode="Block")
    await grown.node.mount(grown.node.pod("u1"))
    [asked] = grown.node.driver.calls(EXPAND)
    assert "block" in asked["volumeCapability"]
    assert asked["volumePath"].endswith("volumeDevices/publish/pv1/u1")
    assert grown.status == DONE


@pytest.mark.parametrize(
    ("stages", "mode", "told"),
    [
        pytest.param(True, "Filesystem", True, id="files"),
        pytest.param(False, "Filesystem", True, id="files-of-a-driver-that-does-not-stage"),
        pytest.param(True, "Block", True, id="a-device"),
        pytest.param(False, "Block", False, id="a-device-of-a-driver-that-does-not-stage"),
    ],
)
async def test_the_staging_path_before_a_pod_starts(tmp_path: Path, stages: bool, mode: str, told: bool) -> None:
    """As a kubelet tells it: a device's is what staging it has answered (expandVolumeDuringMount)."""
    async with NodeWithDriver(tmp_path, Setup(capabilities=EXPANDS if stages else EXPANDS[1:])) as node:
        GrownClaim(node).grow(volumeMode=mode)
        await node.mount(node.pod("u1"))
        [asked] = node.driver.calls(EXPAND)
        assert ("stagingTargetPath" in asked) is told


async def test_with_an_old_controller(grown: GrownClaim) -> None:
    """Which keeps no state in the claim: only its end is written."""
    grown.grow(status=False)
    await grown.node.mount(grown.node.pod("u1"))
    assert [sorted(one) for one in grown.patches] == [["allocatedResourceStatuses", "capacity", "conditions"]]
    assert grown.status["capacity"] == {"storage": "2Gi"}


async def test_a_pod_that_only_reads(grown: GrownClaim) -> None:
    """Starts, and is told."""
    reads = {"name": "data", "persistentVolumeClaim": {"claimName": "mine", "readOnly": True}}
    await grown.node.mount(grown.node.pod("u1"), reads)
    assert grown.node.driver.calls(EXPAND) == []
    assert (grown.reasons, grown.patches) == ([("FileSystemResizeFailed", True)], [])
    assert grown.told[0].is_warning


@pytest.mark.parametrize(
    ("code", "state", "condition"),
    [
        pytest.param("INTERNAL", "NodeResizeInProgress", True, id="it-failed"),
        pytest.param("OUT_OF_RANGE", "NodeResizeInfeasible", True, id="it-cannot-succeed"),
        pytest.param("UNAVAILABLE", "NodeResizeInProgress", False, id="its-end-is-unknown"),
    ],
)
async def test_a_failure_keeps_the_pod_from_starting(grown: GrownClaim, code: str, state: str, condition: bool) -> None:
    """The claim says why, without the secret; the next try goes on where that is left open."""
    node = grown.node
    node.secret("expand", key=CANARY)
    grown.grow(csi={"nodeExpandSecretRef": {"namespace": "default", "name": "expand"}})
    node.driver.order(EXPAND, Order(times=1, code=code, details=f"no {CANARY}"))
    with pytest.raises(VolumeFailed, match="failed to expand the volume") as failed:
        await node.mount(node.pod("u1"))
    assert CANARY not in f"{failed.value} {grown.status} {grown.told}"
    assert grown.status["allocatedResourceStatuses"] == {"storage": state}
    assert any(one["type"] == "NodeResizeError" for one in grown.status["conditions"]) is condition
    await node.mount(node.pod("u1"))
    assert node.driver.count(EXPAND) == (1 if state == "NodeResizeInfeasible" else 2)
    assert (grown.status == DONE) is (state != "NodeResizeInfeasible")


async def test_a_volume_that_cannot_be_expanded_while_it_is_used(grown: GrownClaim) -> None:
    """The pod starts with the old size."""
    grown.node.driver.order(EXPAND, Order(code="FAILED_PRECONDITION", details="it is used"))
    await grown.node.mount(grown.node.pod("u1"))
    assert grown.status["capacity"] == {"storage": "1Gi"}
    assert grown.node.services.csi.sizes.in_use == {("dir.csi.tempolet.test", "vol-1")}
    await grown.node.unmount(grown.node.pod("u1"))
    assert grown.node.services.csi.sizes.in_use == set()


async def test_a_node_killed_after_the_driver_expanded(grown: GrownClaim) -> None:
    """The claim's patch was refused, or never sent: the volume is expanded again, which changes nothing."""
    grown.refuse = True
    with pytest.raises(VolumeFailed, match="patchPVCStatus failed to patch PVC"):
        await grown.node.mount(grown.node.pod("u1"))
    assert grown.node.driver.count(EXPAND) == 0  # it first says that it begins
    grown.refuse = False
    grown.node.driver.order(EXPAND, Order(times=1, code="DEADLINE_EXCEEDED"))
    with pytest.raises(VolumeFailed):
        await grown.node.mount(grown.node.pod("u1"))
    again = GrownClaim(grown.node.restarted())
    await again.node.mount(again.node.pod("u1"))
    assert again.status == DONE


@pytest.mark.parametrize(
    ("status", "fails"),
    [pytest.param(True, True, id="the-controller-waits"), pytest.param(False, False, id="an-old-controller")],
)
async def test_a_driver_that_does_not_expand(status: bool, fails: bool, tmp_path: Path) -> None:
    """Is not asked."""
    async with NodeWithDriver(tmp_path, Setup()) as node:
        grown = GrownClaim(node)
        grown.grow(status=status)
        if fails:
            with pytest.raises(VolumeFailed, match="NodeExpand is not supported by the CSI driver"):
                await node.mount(node.pod("u1"), CLAIM)
        else:
            await node.mount(node.pod("u1"), CLAIM)
        assert node.driver.calls(EXPAND) == []


async def test_a_node_without_a_cluster_expands_nothing(tmp_path: Path) -> None:
    """Its claims have no status."""
    async with NodeWithDriver(tmp_path, Setup(capabilities=EXPANDS)) as node:
        node.bind(capacity={"storage": "2Gi"})
        await node.mount(node.pod("u1"))
        assert node.driver.calls(EXPAND) == []
