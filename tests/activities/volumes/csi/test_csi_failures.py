"""What does a pod see of a CSI driver that fails, refuses or is missing, and what is undone then?

The driver runs in the test's process with folders as volumes; its mounts are real.
"""

import base64
import json
import os
from dataclasses import replace
from datetime import timedelta
from typing import Final

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.volumes.plugin import attaching
from activities.volumes.plugin.volume_type import Step, VolumeFailed
from activities.volumes.pod_volumes import VolumeActivities
from proto.temporal.activities.volumes import MountVolumes
from proto.temporal.pod import PodJson
from tests.activities.volumes.csi.csi_node import CANARY, CLAIM, NAME, PUBLISH, STAGE, UNPUBLISH, UNSTAGE, Node
from tests.csi.orders import Order

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it mounts")

INLINE: Final[PodJson] = {"name": "own", "csi": {"driver": NAME}}


async def test_a_busy_volume_stays_visible_and_is_tried_again(node: Node) -> None:
    """Unmounting fails with the driver's message, step by step, and no record is lost."""
    pod = node.pod("uid-1")
    await node.mount(pod)
    target = node.services.settings.root_dir / "pods/uid-1/volumes/kubernetes.io~csi/pv1/mount"
    with (target / "open").open("w"):
        with pytest.raises(ApplicationError) as busy:
            await node.unmount(pod)
        assert busy.value.type == "FailedUnmount"
        assert busy.value.message == (
            'UnmountVolume.TearDown failed for volume "data" : kubernetes.io/csi: Unmounter.TearDownAt failed: '
            "rpc error: code = Internal desc = unmount failed: Device or resource busy"
        )
        assert node.life() == [STAGE, PUBLISH, UNPUBLISH]
    await node.unmount(pod)
    assert node.left() == []


@pytest.mark.parametrize(
    ("volume", "mode", "used", "step", "doing"),
    [
        pytest.param(
            CLAIM,
            "Filesystem",
            False,
            Step.DEVICE,
            "attacher.MountDevice failed to create newCsiDriverClient",
            id="files-are-staged-first",
        ),
        pytest.param(
            CLAIM,
            "Filesystem",
            True,
            Step.PUBLISH,
            "mounter.SetUpAt failed to get CSI client",
            id="files-that-another-pod-has-are-published-only",
        ),
        pytest.param(
            CLAIM,
            "Block",
            False,
            Step.DEVICE,
            "blockMapper.SetUpDevice failed to get CSI client",
            id="a-device-is-set-up-first",
        ),
        pytest.param(
            CLAIM,
            "Block",
            True,
            Step.PUBLISH,
            "blockMapper.MapPodDevice failed to get CSI client",
            id="a-device-that-another-pod-has-is-mapped-only",
        ),
        pytest.param(
            INLINE,
            "Filesystem",
            False,
            Step.PUBLISH,
            "mounter.SetUpAt failed to get CSI client",
            id="a-pods-own-is-never-staged",
        ),
    ],
)
async def test_the_words_for_a_driver_that_is_not_registered(
    node: Node, volume: PodJson, mode: str, used: bool, step: Step, doing: str
) -> None:
    """The kubelet's: it notices at the first step that the volume still needs (csi_attacher.go, csi_block.go)."""
    node.driver_object(volumeLifecycleModes=["Persistent", "Ephemeral"])
    node.bind(volumeMode=mode)
    if used:
        await node.mount(node.pod("other"))
        node = node.restarted()
    driver = node.services.csi.find(NAME)
    assert driver is not None
    node.services.csi.remove(driver)
    with pytest.raises(VolumeFailed) as missing:
        await node.mount(node.pod("uid-1"), volume)
    told = f"kubernetes.io/csi: {doing}: driver name {NAME} not found in the list of registered CSI drivers"
    assert (missing.value.step, str(missing.value)) == (step, told)


async def test_a_driver_that_is_not_there_yet(node: Node) -> None:
    """The pod gets its volume as soon as the driver registers, and is told who is missing while it is unmounted."""
    driver = node.services.csi.find(NAME)
    assert driver is not None
    node.services.csi.remove(driver)
    with pytest.raises(VolumeFailed, match=f"driver name {NAME} not found in the list of registered CSI drivers"):
        await node.mount(node.pod("uid-1"))
    await node.services.csi.add(driver)
    await node.mount(node.pod("uid-1"))
    node.services.csi.remove(driver)
    with pytest.raises(ApplicationError, match=f"driver name {NAME} not found in the list of registered CSI drivers"):
        await node.unmount(node.pod("uid-1"))
    await node.services.csi.add(driver)
    await node.unmount(node.pod("uid-1"))
    assert node.left() == []


@pytest.mark.parametrize(
    ("call", "code", "left", "undone"),
    [
        pytest.param(STAGE, "NOT_FOUND", False, [], id="refused-to-stage-there-is-nothing-to-undo"),
        pytest.param(STAGE, "ABORTED", True, [UNPUBLISH, UNSTAGE], id="still-at-it-so-it-is-undone"),
        pytest.param(STAGE, "DEADLINE_EXCEEDED", True, [UNPUBLISH, UNSTAGE], id="nobody-knows-so-it-is-undone"),
        pytest.param(PUBLISH, "INVALID_ARGUMENT", True, [UNSTAGE], id="refused-to-publish-only-staging-is-undone"),
        pytest.param(PUBLISH, "UNAVAILABLE", True, [UNPUBLISH, UNSTAGE], id="the-driver-died-so-all-is-undone"),
    ],
)
async def test_what_a_driver_refuses(node: Node, call: str, code: str, left: bool, undone: list[str]) -> None:
    """The failure has its message; what it refused for good is not undone, what may have happened is."""
    node.driver.order(call, Order(times=1, code=code, details="not today"))
    pod = node.pod("uid-1")
    said = code.title().replace("_", "")
    with pytest.raises(VolumeFailed, match=f"^rpc error: code = {said} desc = not today") as refused:
        await node.mount(pod)
    assert refused.value.step is (Step.DEVICE if call == STAGE else Step.PUBLISH)
    assert bool(list(node.services.settings.root_dir.glob("pods/uid-1/volumes/*/*/vol_data.json"))) is left
    node.driver.forget_calls()
    node.driver.order(call, None)
    await node.unmount(pod)
    assert node.life() == undone
    assert node.left() == []


@pytest.mark.parametrize("mode", ["Filesystem", "Block"])
async def test_who_gets_tokens(node: Node, mode: str) -> None:
    """Nobody issues one here, so files cannot be published; the driver of a device gets none, as under a kubelet."""
    node.services = replace(node.services, api=object())  # type: ignore[arg-type]  # only whether there is one is asked
    node.driver_object(tokenRequests=[{"audience": "a"}])
    node.bind(volumeMode=mode)
    if mode == "Filesystem":
        with pytest.raises(VolumeFailed, match="failed to get service account token attributes"):
            await node.mount(node.pod("uid-1"))
    else:
        assert (await node.mount(node.pod("uid-1"))).volume.device
    await node.unmount(node.pod("uid-1"))
    assert node.left() == []


async def test_what_was_refused_once_is_mounted_the_next_time(node: Node) -> None:
    """And undone completely."""
    node.driver.order(PUBLISH, Order(times=1, code="INTERNAL", details="not today"))
    pod = node.pod("uid-1")
    with pytest.raises(VolumeFailed):
        await node.mount(pod)
    await node.mount(pod)
    await node.unmount(pod)
    assert node.life() == [STAGE, PUBLISH, PUBLISH, UNPUBLISH, UNSTAGE]
    assert node.left() == []


async def test_a_secret_goes_to_the_driver_and_nowhere_else(node: Node) -> None:
    """It is not in the driver's error, in whatever form the driver quotes it."""
    node.secret("stage", key=CANARY)
    node.secret("publish", password="ab")
    references = {
        "nodeStageSecretRef": {"namespace": "default", "name": "stage"},
        "nodePublishSecretRef": {"namespace": "default", "name": "publish"},
    }
    node.bind(csi=references)
    pod = node.pod("uid-1")
    await node.mount(pod)
    [staged, published] = node.driver.calls(STAGE, PUBLISH)
    assert staged["secrets"] == {"key": CANARY}
    assert published["secrets"] == {"password": "ab"}
    await node.unmount(pod)
    quoting = f"bad key {CANARY!r}, {json.dumps(CANARY)}, {base64.b64encode(CANARY.encode()).decode()}, canary-Zq7%2Fsecret%20value"
    node.driver.order(STAGE, Order(code="UNAUTHENTICATED", details=quoting))
    with pytest.raises(VolumeFailed) as refused:
        await node.mount(pod)
    said = "code = Unauthenticated desc = bad key '[hidden]', \"[hidden]\", [hidden], [hidden]"
    assert str(refused.value).endswith(said)
    assert "anary" not in repr(refused.value) + repr(refused.value.__cause__) + repr(refused.value.__context__)
    node.driver.order(STAGE, None)
    node.driver.order(PUBLISH, Order(code="UNAUTHENTICATED", details="password ab about"))
    with pytest.raises(VolumeFailed, match=r"desc = password \[hidden\] about"):
        await node.mount(pod)


async def test_a_secret_that_is_missing(node: Node) -> None:
    """The message names it with its namespace."""
    node.bind(csi={"nodeStageSecretRef": {"namespace": "vault", "name": "stage"}})
    with pytest.raises(VolumeFailed) as missing:
        await node.mount(node.pod("uid-1"))
    assert str(missing.value) == (
        "fetching NodeStageSecretRef vault/stage failed: kubernetes.io/csi: failed to find the secret stage in the "
        'namespace vault with error: secret "stage" not found'
    )
    await node.unmount(node.pod("uid-1"))
    assert node.left() == []


async def test_only_one_pod_may_have_a_volume_for_one_pod(node: Node) -> None:
    """ReadWriteOncePod: the second waits for the first."""
    node.bind(accessModes=["ReadWriteOncePod"])
    one, two = node.pod("uid-1"), node.pod("uid-2")
    await node.mount(one)
    with pytest.raises(VolumeFailed, match="ReadWriteOncePod access mode and is already in use by another pod"):
        await node.mount(two)
    await node.unmount(two)
    await node.unmount(one)
    await node.mount(two)
    await node.unmount(two)
    assert node.left() == []


async def test_all_volumes_of_a_pod_by_its_activity(node: Node) -> None:
    """The failure has the PersistentVolume's name and the step, as under a kubelet."""
    node.driver.order(STAGE, Order(times=1, code="INTERNAL", details="no"))
    node.driver.order(PUBLISH, Order(times=1, code="INTERNAL", details="not today"))
    pod = node.pod("uid-1")
    told = {"metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}, "spec": {}}
    mount = VolumeActivities(node.services).mount_volumes
    with pytest.raises(ApplicationError, match=r'MountVolume\.MountDevice failed for volume "pv1" : rpc error: '):
        await ActivityEnvironment().run(mount, MountVolumes(pod, (CLAIM,), told))
    with pytest.raises(ApplicationError) as refused:
        await ActivityEnvironment().run(mount, MountVolumes(pod, (CLAIM,), told))
    assert refused.value.type == "FailedMount"
    assert refused.value.message == (
        'MountVolume.SetUp failed for volume "pv1" : rpc error: code = Internal desc = not today'
    )
    answer = await ActivityEnvironment().run(mount, MountVolumes(pod, (CLAIM,), told))
    assert [one.name for one in answer.volumes] == ["data"]
    await node.unmount(pod)
    assert node.left() == []


async def test_a_pod_whose_volume_has_no_place_here(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its activity fails with the reason of a rejection and the kubelet's message, but not for a volume that it has already."""
    monkeypatch.setattr(attaching, "ATTACHED_WITHIN", timedelta(seconds=0.2))
    node.attaching(nodeAllocatableUpdatePeriodSeconds=60)
    node.attachment(attachError={"message": "no slot", "errorCode": 8})
    node.report_in_use("vol-1")
    other = {"name": "other", "persistentVolumeClaim": {"claimName": "none"}}
    told = {"metadata": {"name": "web", "namespace": "default", "uid": "uid-1"}, "spec": {}}
    request = MountVolumes(node.pod("uid-1"), (other, CLAIM, {"name": "fine", "emptyDir": {}}), told)
    mount = VolumeActivities(node.services).mount_volumes
    with pytest.raises(ApplicationError) as refused:
        await ActivityEnvironment().run(mount, request)
    assert (refused.value.type, refused.value.non_retryable) == ("VolumeAttachmentLimitExceeded", True)
    assert refused.value.message == (
        "Node has reached its volume attachment limit, rejecting pod. unmounted volumes=[data other], "
        "unattached volumes=[data], failed to process volumes=[other]: context deadline exceeded"
    )
    with pytest.raises(ApplicationError) as refreshing:
        await ActivityEnvironment().run(mount, replace(request, refresh={}))
    assert refreshing.value.type == "FailedMount"
    assert "is not attached to node n1 after 0.2 s: kubernetes.io/csi: attacher.WaitForAttach failed: no slot" in str(
        refreshing.value
    )
    assert node.life() == []
