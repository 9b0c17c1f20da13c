"""Is a volume of a cloud in a pod's spec mounted by its CSI driver, and undone without the spec, whatever its id?

The driver runs in the test's process with folders as volumes; its mounts are real.
"""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.clients.csi_drivers import Driver
from activities.files import mounts
from activities.objects.objects import ObjectKind
from activities.volumes.migration.translation import MIGRATED
from activities.volumes.orphaned_volumes import OrphanedVolume, orphaned_volumes
from activities.volumes.plugin.volume_type import PodVolume
from activities.volumes.pod_volumes import VolumeActivities
from activities.volumes.types.csi import PERSISTENT
from proto.temporal.activities.volumes import MountVolumes
from proto.temporal.pod import PodJson, PodKey
from tests.activities.volumes.csi.csi_node import LIFE, Node, NodeWithDriver
from tests.csi.orders import Setup
from worker.stats.disks.volumes import volumes_of

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it mounts")

URI = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/disks/d"
EBS = {"awsElasticBlockStore": {"volumeID": "aws://us-east-1a/vol-7", "readOnly": True}}
AZURE = {"azureDisk": {"diskName": "d", "diskURI": URI, "kind": "Managed", "cachingMode": "None"}}
SHARE = {"azureFile": {"secretName": "azure-storage-account-acc-secret", "shareName": "files"}}
VSPHERE = {"vsphereVolume": {"volumePath": "[store 1] folder/a disk.vmdk", "storagePolicyName": "gold"}}


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    """Return a node with all drivers of clouds, which are one."""
    async with NodeWithDriver(tmp_path, Setup()) as made:
        for row in MIGRATED.values():
            await made.services.csi.add(Driver(row.driver, str(made.driver.path / "csi.sock")))
            made.objects.put(ObjectKind.CSI_DRIVERS, row.driver, {"spec": {"attachRequired": False}})
        made.secret("azure-storage-account-acc-secret", azurestorageaccountkey="k")
        yield made


@pytest.mark.parametrize(
    ("source", "handle", "folder"),
    [
        pytest.param(EBS, "vol-7", "ebs.csi.aws.com-vol-7", id="ebs"),
        pytest.param(AZURE, URI, URI.replace("/", "~"), id="a-path-as-id"),
        pytest.param(SHARE, "#acc#files#data#default", "#acc#files#data#default", id="azure-file"),
        pytest.param(
            VSPHERE,
            "[store 1] folder/a disk.vmdk",
            "csi.vsphere.vmware.com-[store 1] folder~a disk.vmdk",
            id="brackets-and-blanks",
        ),
        pytest.param({"gcePersistentDisk": {"pdName": "d"}}, None, "pd.csi.storage.gke.io-d", id="gce"),
        pytest.param({"cinder": {"volumeID": "c"}}, "c", "cinder.csi.openstack.org-c", id="cinder"),
        pytest.param({"portworxVolume": {"volumeID": "7"}}, "7", "pxd.portworx.com-7", id="portworx"),
    ],
)
async def test_the_life_of_a_volume(node: Node, source: PodJson, handle: str | None, folder: str) -> None:
    """At the kubelet's place; it is measured where it is mounted, and nothing is left."""
    pod, volume = node.pod("uid-1"), {"name": "data", **source}
    root = node.services.settings.root_dir
    mounted = await node.mount(pod, volume)
    target = root / "pods/uid-1/volumes/kubernetes.io~csi" / folder / "mount"
    assert (mounted.volume.name, mounted.volume.path, mounted.volume.read_only) == ("data", str(target), False)
    assert mounts.is_mount_point(target)
    spec = {"metadata": {"uid": "uid-1", "namespace": "default", "name": "web"}, "spec": {"volumes": [volume]}}
    [measured] = volumes_of(root, spec, mounts.mounts_below(root))
    assert (measured.name, measured.folder) == ("data", target)
    await node.mount(pod, volume)
    await node.restarted().unmount(pod, {"name": "data", next(iter(source)): {}})
    assert len(node.life()) == 4
    assert {one["volumeId"] for one in node.driver.calls(*LIFE)} == {
        handle or "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"
    }
    assert node.left() == []


async def test_what_its_driver_is_told(node: Node) -> None:
    """What the translation says: attributes, the access mode, and the secret of a share."""
    await node.mount(node.pod("uid-1"), {"name": "data", **SHARE})
    await node.mount(node.pod("uid-1"), {"name": "other", "gcePersistentDisk": {"pdName": "d", "readOnly": True}})
    share, disk = node.driver.calls("NodeStageVolume")
    assert share["volumeContext"] == {"sharename": "files"}
    assert share["volumeCapability"]["accessMode"] == {"mode": "MULTI_NODE_MULTI_WRITER"}
    assert "secrets" in share
    assert disk["volumeCapability"]["accessMode"] == {"mode": "MULTI_NODE_READER_ONLY"}


@pytest.mark.parametrize(
    ("source", "words"),
    [
        pytest.param(
            {"azureDisk": {"diskURI": "https://x/d", "kind": "Shared"}},
            r"failed to translate in-tree pv to CSI: kind\(Shared\) is not supported in csi migration",
            id="a-kind-that-has-no-driver",
        ),
        pytest.param({"awsElasticBlockStore": {"volumeID": "aws://z/x"}}, "Invalid format for AWS volume", id="no-id"),
        pytest.param({"cinder": {"volumeID": "x" * 300}}, "cannot be part of a path", id="too-long-for-a-folder"),
        pytest.param({"azureDisk": {"diskURI": ".."}}, "cannot be part of a path", id="the-folder-above"),
        pytest.param({"azureDisk": {"diskURI": "a\0b"}}, "cannot be part of a path", id="a-zero"),
        pytest.param({"azureDisk": {"diskURI": "a\ud800"}}, "is no text", id="no-text"),
        pytest.param({"azureDisk": {"diskURI": ""}}, "cannot be part of a path", id="no-id-at-all"),
    ],
)
async def test_a_volume_that_cannot_be_one(node: Node, source: PodJson, words: str) -> None:
    """It is refused before anything is written down, and its pod can be deleted."""
    pod, volume = node.pod("uid-1"), {"name": "data", **source}
    told = {"metadata": {"name": "web", "namespace": "default", "uid": "uid-1"}, "spec": {}}
    with pytest.raises(ApplicationError, match=words) as failed:
        await ActivityEnvironment().run(
            VolumeActivities(node.services).mount_volumes, MountVolumes(pod, (volume,), told)
        )
    assert failed.value.type == "FailedMount"
    assert (node.life(), node.left()) == ([], [])
    await node.unmount(pod, volume)


async def test_an_orphan_is_undone_as_any_volume_of_its_driver(node: Node) -> None:
    """By what is recorded in its folder."""
    await node.mount(node.pod("uid-1"), {"name": "data", **VSPHERE})
    pod = node.services.settings.root_dir / "pods/uid-1"
    name = "csi.vsphere.vmware.com-[store 1] folder~a disk.vmdk"
    assert orphaned_volumes(pod) == [OrphanedVolume("csi", name)]
    await PERSISTENT.unmount(PodVolume(PodKey("", "", "uid-1"), name, {}, {}, node.services), block=False)
    assert orphaned_volumes(pod) == []
    assert mounts.mounts_below(pod) == []
