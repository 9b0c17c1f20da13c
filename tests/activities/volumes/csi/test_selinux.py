"""Does a driver get the SELinux label of a pod as a mount option, where SELinux is on?

The driver runs in the test's process; it takes mount options and does nothing with them.
"""

import json
import os
from dataclasses import replace
from typing import Any

import pytest

from activities.files import mounts
from activities.volumes.plugin.volume_type import NotProcessed, VolumeFailed
from tests.activities.volumes.csi.csi_node import PUBLISH, STAGE, Node

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it mounts")
DEFAULT = "system_u:object_r:container_file_t:s0"


def with_selinux(node: Node, *, gate: bool = False) -> None:
    """Have SELinux on."""
    settings = replace(node.services.settings, selinux_file_label=DEFAULT, selinux_mount=gate)
    node.services = replace(node.services, settings=settings)


def labelled(level: str) -> dict[str, Any]:
    """Build a container with a label, which mounts the volume."""
    context = {"seLinuxOptions": {"level": level}}
    return {"name": level, "securityContext": context, "volumeMounts": [{"name": "data", "mountPath": "/d"}]}


async def test_the_label_is_a_mount_option(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Besides the volume's own, quoted; it is recorded as by the kubelet, and the runtime labels nothing."""
    with_selinux(node)
    monkeypatch.setattr(mounts, "labels_files", lambda _: True)
    node.driver_object(seLinuxMount=True)
    node.bind(accessModes=["ReadWriteOncePod"], mountOptions=["noatime"])
    mounted = await node.mount(node.pod("uid-1"), containers=[labelled("s0:c1,c2")])
    assert mounted.volume.selinux_relabel is False
    label = f"{DEFAULT}:c1,c2"
    for call in node.driver.calls(STAGE, PUBLISH):
        assert call["volumeCapability"]["mount"]["mountFlags"] == ["noatime", f'context="{label}"']
    [record] = node.services.settings.root_dir.glob("pods/uid-1/volumes/kubernetes.io~csi/*/vol_data.json")
    assert json.loads(record.read_text())["seLinuxMountContext"] == label
    await node.unmount(node.pod("uid-1"))
    assert node.left() == []


@pytest.mark.parametrize(
    ("on", "driver", "modes"),
    [
        pytest.param(False, True, ["ReadWriteOncePod"], id="selinux-is-off"),
        pytest.param(True, False, ["ReadWriteOncePod"], id="the-driver-cannot"),
        pytest.param(True, True, ["ReadWriteOnce"], id="a-volume-for-several-pods"),
    ],
)
async def test_no_label(node: Node, on: bool, driver: bool, modes: list[str]) -> None:
    """The driver gets the volume's own options alone."""
    if on:
        with_selinux(node)
    node.driver_object(seLinuxMount=driver)
    node.bind(accessModes=modes)
    await node.mount(node.pod("uid-1"), containers=[labelled("s0:c1,c2")])
    assert [one["volumeCapability"]["mount"] for one in node.driver.calls(STAGE, PUBLISH)] == [{}, {}]


async def test_a_pod_with_two_labels(node: Node) -> None:
    """It is refused before its driver is called."""
    with_selinux(node)
    node.bind(accessModes=["ReadWriteOncePod"])
    with pytest.raises(VolumeFailed, match="multiple SELinux labels found"):
        await node.mount(node.pod("uid-1"), containers=[labelled("s0:c1"), labelled("s0:c2")])
    assert node.life() == []
    await node.unmount(node.pod("uid-1"))
    assert node.left() == []


async def test_pods_that_share_a_volume(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the gate the first one's label holds; one with another label waits until it is gone, also after a restart."""
    monkeypatch.setattr(mounts, "labels_files", lambda _: True)
    with_selinux(node, gate=True)
    node.driver_object(seLinuxMount=True)
    first, second = [labelled("s0:c1")], [labelled("s0:c2")]
    await node.mount(node.pod("uid-1"), containers=first)
    there = node.restarted()
    await there.mount(there.pod("uid-2"), containers=first)
    conflict = f'conflicting SELinux labels of volume pv1: "{DEFAULT}:c1" and "{DEFAULT}:c2"'
    with pytest.raises(NotProcessed) as refused:
        await there.mount(there.pod("uid-3"), containers=second)
    assert str(refused.value) == conflict
    await there.unmount(there.pod("uid-1"))
    there.services.terminating.set("uid-2", terminating=True)
    with pytest.raises(VolumeFailed, match=r'waiting for unmount of volume "kubernetes.io/csi/.*\^vol-1", because'):
        await there.mount(there.pod("uid-3"), containers=second)
    await there.unmount(there.pod("uid-2"))
    mounted = await there.mount(there.pod("uid-3"), containers=second)
    assert mounted.volume.selinux_relabel is False
    flags = [one["volumeCapability"]["mount"]["mountFlags"] for one in node.driver.calls(STAGE)]
    assert flags == [[f'context="{DEFAULT}:{one}"'] for one in ("c1", "c1", "c2")]
    await there.unmount(there.pod("uid-3"))
    assert there.left() == []


async def test_a_volume_keeps_its_label_when_the_gate_is_set(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod that runs has what it was mounted with, and is published so again; the next pod begins anew."""
    monkeypatch.setattr(mounts, "labels_files", lambda _: True)
    with_selinux(node)
    node.driver_object(seLinuxMount=True)
    await node.mount(node.pod("uid-1"), containers=[labelled("s0:c1")])
    there = node.restarted()
    with_selinux(there, gate=True)
    mounted = await there.mount(there.pod("uid-1"), containers=[labelled("s0:c1")])
    assert mounted.volume.selinux_relabel is True
    assert [one["volumeCapability"]["mount"] for one in node.driver.calls(STAGE, PUBLISH)] == [{}] * 4
    await there.unmount(there.pod("uid-1"))
    mounted = await there.mount(there.pod("uid-2"), containers=[labelled("s0:c1")])
    assert mounted.volume.selinux_relabel is False


async def test_a_label_that_wants_to_be_more(node: Node) -> None:
    """It is refused: it is the pod's, whose author may not mount as he likes."""
    with_selinux(node)
    node.driver_object(seLinuxMount=True)
    node.bind(accessModes=["ReadWriteOncePod"])
    with pytest.raises(NotProcessed, match="failed to construct SELinux label from context"):
        await node.mount(node.pod("uid-1"), containers=[labelled('s0",exec,dev,x="')])
    assert node.life() == []
