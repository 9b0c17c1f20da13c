"""Are volumes that pods use expanded when their claims grow, without a request too many, and whatever a driver does?"""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from activities.clients.csi_drivers import Driver
from activities.objects.objects import ObjectKind
from tests.activities.volumes.csi.csi_node import CLAIM, NAME, NodeWithDriver
from tests.activities.volumes.csi.expansion.grown_claim import EXPAND, EXPANDS, GrownClaim
from tests.csi.orders import Order, Setup
from tests.csi.serving import serving
from worker.host.csi import volume_expansion
from worker.host.csi.volume_expansion import VolumeExpansion, used_claims

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it mounts")
OTHER = {"name": "data", "persistentVolumeClaim": {"claimName": "other"}}
READS = {"name": "data", "persistentVolumeClaim": {"claimName": "mine", "readOnly": True}}


@pytest.fixture
async def grown(tmp_path: Path) -> AsyncIterator[GrownClaim]:
    """Return a node whose pod uses a claim of 1Gi."""
    async with NodeWithDriver(tmp_path, Setup(capabilities=EXPANDS)) as node:
        made = GrownClaim(node)
        made.grow(to="1Gi")
        await use(made, "u1")
        yield made


async def use(grown: GrownClaim, uid: str, volume: dict[str, Any] = CLAIM) -> None:
    """Let a pod mount the claim."""
    pod = grown.node.pod(uid)
    await grown.node.mount(pod, volume)
    metadata = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
    file = grown.node.services.settings.root_dir / "pods" / uid / "pod.json"
    user = {"name": "main", "volumeMounts": [{"name": volume["name"], "mountPath": "/data"}]}
    file.write_text(json.dumps({"metadata": metadata, "spec": {"volumes": [volume], "containers": [user]}}))


async def look(expansion: VolumeExpansion) -> None:
    """Look once, and wait for what that begins."""
    await expansion.look()
    await expansion.settled()


async def test_a_used_volume_grows_with_its_claim(grown: GrownClaim) -> None:
    """Once; its claim has the new size then."""
    expansion = VolumeExpansion(grown.node.services)
    await look(expansion)
    assert grown.node.driver.calls(EXPAND) == []
    grown.grow()
    await look(expansion)
    await look(expansion)
    assert grown.node.driver.count(EXPAND) == 1
    assert grown.status["capacity"] == {"storage": "2Gi"}
    assert grown.reasons == [("FileSystemResizeSuccessful", True)]


@pytest.mark.parametrize("mode", ["Filesystem", "Block"])
async def test_a_driver_that_does_not_stage(tmp_path: Path, mode: str) -> None:
    """It is told the staging path of a used volume nevertheless, as by a kubelet (GenerateExpandInUseVolumeFunc)."""
    async with NodeWithDriver(tmp_path, Setup(capabilities=EXPANDS[1:])) as node:
        grown = GrownClaim(node)
        grown.grow(to="1Gi", volumeMode=mode)
        await use(grown, "u1")
        expansion = VolumeExpansion(node.services)
        await look(expansion)
        grown.grow(volumeMode=mode)
        await look(expansion)
        [asked] = node.driver.calls(EXPAND)
        assert "/plugins/kubernetes.io/csi/" in asked["stagingTargetPath"]


async def test_a_claim_that_has_not_grown_costs_one_request(grown: GrownClaim) -> None:
    """Its volume is not read."""
    expansion = VolumeExpansion(grown.node.services)
    grown.grow(has="1Gi", to="1Gi", status=False)
    json_ = grown.node.objects.kept[ObjectKind.PERSISTENT_VOLUME_CLAIMS, "default", "mine"].json
    del json_["status"]["conditions"]
    grown.node.objects.reads.clear()
    await look(expansion)
    assert grown.node.objects.reads == [(ObjectKind.PERSISTENT_VOLUME_CLAIMS, "default", "mine")]


async def test_a_volume_of_several_pods_is_expanded_once(grown: GrownClaim) -> None:
    """And one of a pod that only reads, never."""
    await use(grown, "u2")
    await use(grown, "u3", READS)
    found = list(used_claims(grown.node.services, VolumeExpansion(grown.node.services)._pods.all()))
    assert sorted(one.pod.uid for one in found) == ["u1", "u2"]
    grown.grow()
    await look(VolumeExpansion(grown.node.services))
    assert grown.node.driver.count(EXPAND) == 1


async def test_an_expansion_elsewhere_is_repeated_here(grown: GrownClaim) -> None:
    """A volume of many nodes has to be expanded on each of them."""
    grown.grow(to="1Gi", accessModes=["ReadWriteMany"])
    expansion = VolumeExpansion(grown.node.services)
    await look(expansion)
    grown.grow(has="2Gi", to="2Gi", accessModes=["ReadWriteMany"])
    grown.status["allocatedResourceStatuses"].clear()
    await look(expansion)
    await look(expansion)
    assert grown.node.driver.count(EXPAND) == 1
    assert grown.patches == []


async def test_a_failure_is_told_and_tried_again(grown: GrownClaim) -> None:
    """The pod runs on."""
    expansion = VolumeExpansion(grown.node.services)
    grown.grow()
    grown.node.driver.order(EXPAND, Order(times=1, code="INTERNAL", details="no space"))
    await look(expansion)
    [told] = grown.told
    assert (told.reason, told.claim, told.is_warning) == ("VolumeResizeFailed", None, True)
    assert told.message.startswith(
        'NodeExpandVolume.NodeExpandVolume failed for volume "pv1" : Expander.NodeExpand failed'
    )
    await look(expansion)
    assert grown.status["capacity"] == {"storage": "2Gi"}


async def test_what_cannot_grow_while_it_is_used_is_asked_once(grown: GrownClaim) -> None:
    """Until it is mounted again."""
    expansion = VolumeExpansion(grown.node.services)
    grown.grow()
    grown.node.driver.order(EXPAND, Order(code="FAILED_PRECONDITION"))
    for _ in range(3):
        await look(expansion)
    assert grown.node.driver.count(EXPAND) == 1


async def test_a_driver_that_hangs_delays_no_other(grown: GrownClaim, tmp_path: Path) -> None:
    """And is asked once, however often the loop looks."""
    other = Setup(name="other.test", capabilities=EXPANDS)
    async with serving(tmp_path / "other", tmp_path / "other.sock", other):
        await grown.node.services.csi.add(Driver("other.test", str(tmp_path / "other/csi.sock")))
        grown.grow()
        grown.node.driver.order(EXPAND, Order(until=str(tmp_path / "never")))
        expansion = VolumeExpansion(grown.node.services)
        await expansion.look()
        await asyncio.wait_for(grown.node.driver.called[EXPAND].wait(), 30)
        for _ in range(3):
            await expansion.look()
        assert grown.node.driver.count(EXPAND) == 1
        (tmp_path / "never").touch()
        await expansion.settled()
        assert grown.status["capacity"] == {"storage": "2Gi"}


@pytest.mark.parametrize(
    ("at_once", "begun"),
    [pytest.param(16, 2, id="both-begin"), pytest.param(1, 1, id="unless-there-are-too-many")],
)
async def test_a_volume_that_hangs_delays_no_other(
    grown: GrownClaim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int, begun: int
) -> None:
    """Of the same driver, in the same round; and is asked once."""
    monkeypatch.setattr(volume_expansion, "AT_ONCE", at_once)
    grown.grow_other()
    await use(grown, "u2", OTHER)
    grown.grow()
    grown.grow_other()
    grown.node.objects.reads.clear()
    grown.node.driver.order(EXPAND, Order(times=1, until=str(tmp_path / "never")))
    expansion = VolumeExpansion(grown.node.services)
    await expansion.look()
    await asyncio.wait_for(grown.node.driver.called[EXPAND].wait(), 30)
    if begun > 1:
        await asyncio.wait(expansion._working.values(), timeout=30, return_when=asyncio.FIRST_COMPLETED)
    await expansion.look()
    reads = {name for kind, _, name in grown.node.objects.reads if kind is ObjectKind.PERSISTENT_VOLUME_CLAIMS}
    assert (len(reads), sorted(grown.sizes)) == (begun, ["1Gi", "2Gi" if begun > 1 else "1Gi"])
    (tmp_path / "never").touch()
    await expansion.settled()
    assert (grown.sizes, grown.node.driver.count(EXPAND)) == (["2Gi", "2Gi"], 2)


@pytest.mark.parametrize(
    ("status", "state", "told"),
    [
        pytest.param(True, {"storage": "NodeResizeInProgress"}, ["VolumeResizeFailed"], id="the-controller-waits"),
        pytest.param(False, None, [], id="an-old-controller"),
    ],
)
async def test_a_driver_that_does_not_expand(
    tmp_path: Path, status: bool, state: dict[str, str] | None, told: list[str]
) -> None:
    """Is not asked; the claim says so where its controller waits for the node, and the pod has the kubelet's event."""
    async with NodeWithDriver(tmp_path, Setup()) as node:
        grown = GrownClaim(node)
        grown.grow(to="1Gi")
        await use(grown, "u1")
        grown.grow(status=status)
        await look(VolumeExpansion(node.services))
        failed = [one["message"] for one in grown.status["conditions"] if one["type"] == "NodeResizeError"]
        why = f"NodeExpand is not supported by the CSI driver {NAME}"
        assert node.driver.calls(EXPAND) == []
        assert grown.status.get("allocatedResourceStatuses") == state
        assert failed == [f"failed to expand pvc with {why}" for _ in told]
        assert [one.reason for one in grown.told] == told
        doing = 'NodeExpandVolume.NodeExpandVolume failed for volume "pv1"'
        assert [one.message for one in grown.told] == [f"{doing} : {why}" for _ in told]


async def test_a_size_that_nobody_wants_any_more(tmp_path: Path) -> None:
    """Is given up after a driver that does not expand has failed twice, so that the controller takes up the new one."""
    async with NodeWithDriver(tmp_path, Setup()) as node:
        grown = GrownClaim(node)
        grown.grow(to="1Gi")
        await use(grown, "u1")
        grown.grow()
        expansion = VolumeExpansion(node.services)
        await look(expansion)
        claim = node.objects.kept[ObjectKind.PERSISTENT_VOLUME_CLAIMS, "default", "mine"].json
        claim["spec"]["resources"]["requests"]["storage"] = "1536Mi"
        await look(expansion)
        assert grown.status["allocatedResourceStatuses"] == {"storage": "NodeResizeInfeasible"}


@pytest.mark.parametrize(
    ("kind", "name", "content"),
    [
        pytest.param(ObjectKind.PERSISTENT_VOLUME_CLAIMS, "mine", {}, id="an-empty-claim"),
        pytest.param(
            ObjectKind.PERSISTENT_VOLUME_CLAIMS, "mine", {"spec": {"volumeName": "other"}}, id="another-volume"
        ),
        pytest.param(ObjectKind.PERSISTENT_VOLUMES, "pv1", {"spec": {}}, id="an-empty-volume"),
        pytest.param(
            ObjectKind.PERSISTENT_VOLUMES,
            "pv1",
            {
                "spec": {
                    "csi": {"driver": "dir.csi.tempolet.test", "volumeHandle": "vol-2"},
                    "capacity": {"storage": "9Gi"},
                    "accessModes": ["ReadWriteOnce"],
                    "claimRef": {"namespace": "default", "name": "mine"},
                }
            },
            id="another-disk",
        ),
    ],
)
async def test_objects_that_do_not_fit_expand_nothing(
    grown: GrownClaim, kind: ObjectKind, name: str, content: dict[str, Any]
) -> None:
    """They may have been created again with other content."""
    grown.grow()
    grown.node.objects.put(kind, name, content)
    await look(VolumeExpansion(grown.node.services))
    assert grown.node.driver.calls(EXPAND) == []


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"type": "csi", "name": "../../x", "block": false}'])
async def test_a_damaged_record_hides_only_its_volume(grown: GrownClaim, content: str) -> None:
    """It is not expanded."""
    root = grown.node.services.settings.root_dir
    (root / "pods/u1/plugins/tempolet.dev~claims/data").write_text(content)
    grown.grow()
    await look(VolumeExpansion(grown.node.services))
    assert grown.node.driver.calls(EXPAND) == []
