"""Is a disk mounted only when its cluster lists it as in use and attached, and with the SELinux label of its pods?

The API server is a stand-in that has one Node; iscsiadm and the kernel's files are those of the other tests of disks.
"""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from activities.clients.api_server.errors import ApiAway
from activities.files import mounts
from activities.node_services import NodeServices
from activities.volumes.csi.records.in_use import volumes_in_use
from activities.volumes.disks import attached_disk, mounting
from activities.volumes.disks.attached_disk import AttachedDisk
from activities.volumes.disks.scsi import ScsiTree
from activities.volumes.plugin import attaching
from activities.volumes.plugin.persistent_type import PersistentVolume
from activities.volumes.plugin.selinux import AskedLabel
from activities.volumes.plugin.volume_type import NotAttached, NotProcessed
from activities.volumes.types.fc import FibreChannel
from activities.volumes.types.iscsi import Iscsi
from proto.volumes_in_use import write_reported_volumes
from tests.activities.volumes.stand_ins import StandIns
from tests.activities.volumes.types.disk_node import IQN, SOURCE, called, of_pod

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it mounts")
NAME = f"kubernetes.io/iscsi/192.0.2.1:{IQN}:0"


@dataclass
class NodeStatus:
    """An API server that has one Node."""

    answers: list[dict[str, Any] | Exception] = field(default_factory=list)
    """The last one is repeated."""
    asked: list[str] = field(default_factory=list)

    async def get(self, path: str) -> dict[str, Any]:
        """Return the next answer."""
        self.asked.append(path)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


ATTACHED: dict[str, Any] = {"status": {"volumesAttached": [{"name": "other"}, {"name": NAME}]}}


def in_cluster(services: NodeServices, *answers: dict[str, Any] | Exception) -> tuple[NodeServices, NodeStatus]:
    """Have an API server that answers so."""
    api = NodeStatus(list(answers))
    return replace(services, api=api, settings=replace(services.settings, node_name="n1")), api  # type: ignore[arg-type]  # all that is asked of one


@pytest.mark.parametrize("block", [False, True], ids=["files", "device"])
async def test_a_disk_is_listed_as_in_use_before_it_is_mounted(
    services: NodeServices, tree: ScsiTree, programs: StandIns, monkeypatch: pytest.MonkeyPatch, block: bool
) -> None:
    """Then it waits for the Node's volumesAttached; a pod that has it waits for nothing, and it is listed until it goes."""
    monkeypatch.setattr(attaching, "_LONGEST_PAUSE", 0.01)
    there, api = in_cluster(services, {}, ApiAway("away"), {"status": {"volumesAttached": None}}, ATTACHED)
    root, disk = there.settings.root_dir, AttachedDisk(Iscsi(tree))
    persistent = PersistentVolume(name="pv1", type="iscsi", source=SOURCE, block=block)
    waiting = asyncio.create_task(disk.mount(of_pod(there), persistent))
    await there.csi.wanted.changed.wait()
    assert there.csi.wanted.names == {NAME}
    assert not api.asked
    assert called(programs, "--login") == 0
    write_reported_volumes(root, [NAME])
    await waiting
    assert api.asked == ["/api/v1/nodes/n1"] * 4
    assert volumes_in_use(root) == [NAME]
    write_reported_volumes(root, [])
    await disk.mount(of_pod(there), persistent)
    await disk.unmount(of_pod(there, source={}), block=block)
    assert (there.csi.wanted.names, volumes_in_use(root)) == (frozenset(), [])
    assert mounts.mounts_below(root) == []


async def test_a_disk_that_nobody_lists(
    services: NodeServices, tree: ScsiTree, programs: StandIns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stays wanted for the next try, until its pod goes; there is nothing to undo."""
    monkeypatch.setattr(attaching, "ATTACHED_WITHIN", timedelta(seconds=0.2))
    there, api = in_cluster(services, ATTACHED)
    disk = AttachedDisk(Iscsi(tree))
    with pytest.raises(NotAttached) as failed:
        await disk.mount(of_pod(there))
    assert str(failed.value) == f"volume {NAME} is not marked in-use in the status of node n1 after 0.2 s"
    assert there.csi.wanted.names == {NAME}
    assert not api.asked
    await disk.unmount(of_pod(there, source={}))
    assert (there.csi.wanted.names, called(programs, "--log")) == (frozenset(), 0)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        pytest.param({}, "volume not attached according to node status", id="not-attached"),
        pytest.param(ApiAway("away"), "failed fetching node from API server: away", id="no-answer"),
    ],
)
async def test_a_disk_that_is_not_attached(
    monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any] | Exception, why: str
) -> None:
    """The message has what was seen last."""
    monkeypatch.setattr(attaching, "ATTACHED_WITHIN", timedelta(seconds=0.2))
    api: Any = NodeStatus([answer])
    with pytest.raises(NotAttached) as failed:
        await attaching.wait_in_node_status(api, NAME, "n1", shown="volume v")
    assert str(failed.value) == f"volume v is not attached to node n1 after 0.2 s: {why}"


@pytest.mark.parametrize(
    "content", ["{", "[]", "{}", '{"uniqueName": 3}'], ids=["no-json", "a-list", "of-before", "no-text"]
)
def test_a_record_without_a_name(services: NodeServices, content: str) -> None:
    """It is skipped, as one that an earlier version has written."""
    folder = services.settings.root_dir / "pods/uid-1/plugins/kubernetes.io~fc"
    folder.mkdir(parents=True)
    (folder / "data.json").write_text(content)
    assert volumes_in_use(services.settings.root_dir) == []


@pytest.mark.parametrize(
    ("kind", "source", "name"),
    [
        pytest.param(Iscsi(), SOURCE, f"192.0.2.1:{IQN}:0", id="iscsi"),
        pytest.param(
            Iscsi(),
            {"targetPortal": "[2001:db8::1]:3261", "iqn": IQN, "lun": 4},
            f"[2001:db8::1]:3261:{IQN}:4",
            id="iscsi-with-a-port",
        ),
        pytest.param(FibreChannel(), {"targetWWNs": ["a", "b"], "lun": 3}, "[a b]:3", id="fc"),
        pytest.param(FibreChannel(), {"wwids": ["3600 508"]}, "[3600 508]", id="fc-by-wwid"),
    ],
)
def test_the_name_of_a_volume(kind: Iscsi | FibreChannel, source: dict[str, Any], name: str) -> None:
    """iscsi.go, fc.go GetVolumeName: the controller has to make the same."""
    assert kind.volume_name(source) == name


LABEL = "system_u:object_r:container_file_t:s0:c1,c2"


async def test_a_disk_is_mounted_with_the_label_of_its_pods(
    services: NodeServices, tree: ScsiTree, programs: StandIns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mounted once: a pod with another one waits until they are gone; a pod that runs keeps the label that its disk was mounted with."""
    options: list[Sequence[str]] = []

    async def mount(device: Path, target: Path, kind: str, given: Sequence[str]) -> None:
        options.append(given)
        await mounting.mount_disk(device, target, kind, [one for one in given if not one.startswith("context=")])

    monkeypatch.setattr(attached_disk, "mount_disk", mount)
    disk = AttachedDisk(Iscsi(tree))

    def persistent(label: str, *, mounts: bool = True) -> PersistentVolume:
        return PersistentVolume(name="pv1", type="iscsi", source=SOURCE, label=AskedLabel(label, "RWO", mounts))

    for uid, asked in (("uid-1", LABEL), ("uid-2", LABEL), ("uid-1", "other")):
        mounted = await disk.mount(of_pod(services, uid), persistent(asked))
        assert mounted.volume.selinux_relabel is False
    assert options == [[f'context="{LABEL}"']]
    assert called(programs, "--login") == 1
    with pytest.raises(NotProcessed, match=f'^conflicting SELinux labels of volume pv1: "{LABEL}" and "other"$'):
        await disk.mount(of_pod(services, "uid-3"), persistent("other"))
    for uid in ("uid-1", "uid-2"):
        await disk.unmount(of_pod(services, uid, source={}))
    mounted = await disk.mount(of_pod(services, "uid-3"), persistent("other", mounts=False))
    assert mounted.volume.selinux_relabel is True
    assert options[1:] == [[]]
    await disk.unmount(of_pod(services, "uid-3", source={}))
    assert mounts.mounts_below(services.settings.root_dir) == []
