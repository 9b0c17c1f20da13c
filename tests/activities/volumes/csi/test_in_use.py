"""Is a volume mounted only when the API server knows it to be in use on this node, and when is it listed?

The driver runs in the test's process with folders as volumes; its mounts are real.
"""

import asyncio
import os
from datetime import timedelta

import pytest

from activities.objects.objects import ObjectKind
from activities.volumes.csi.records.in_use import volumes_in_use
from activities.volumes.plugin import attaching
from activities.volumes.plugin.volume_type import NotAttached
from proto.volumes_in_use import write_wanted_volumes
from tests.activities.volumes.csi.csi_node import NAME, Node

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it mounts")
UNIQUE = f"kubernetes.io/csi/{NAME}^vol-1"


async def test_a_volume_is_mounted_when_it_is_known_to_be_in_use(node: Node) -> None:
    """Wanted as long as its pod has it; a pod that has it already waits for nothing."""
    node.attaching()
    node.attachment(attached=True)
    node.report_in_use("other")
    wanted = node.services.csi.wanted
    mounting = asyncio.create_task(node.mount(node.pod("uid-1")))
    await wanted.changed.wait()
    assert wanted.names == {UNIQUE}
    assert node.life() == []
    assert not mounting.done()
    node.report_in_use("other", "vol-1")
    await mounting
    node.report_in_use()
    await node.mount(node.pod("uid-1"))
    assert wanted.names == {UNIQUE}
    wanted.changed.clear()
    await node.unmount(node.pod("uid-1"))
    assert wanted.names == frozenset()
    assert wanted.changed.is_set()
    assert node.left() == []


async def test_a_volume_that_nobody_reports_fails(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a message; it stays wanted for the next try, until its pod goes. Nothing has to be undone by the driver."""
    monkeypatch.setattr(attaching, "ATTACHED_WITHIN", timedelta(seconds=0.2))
    node.attaching()
    node.attachment(attached=True)
    words = "kubernetes.io/csi: volume vol-1 is not marked in-use in the status of node n1 after 0.2 s"
    with pytest.raises(NotAttached) as failed:
        await node.mount(node.pod("uid-1"))
    assert str(failed.value) == words
    assert node.services.csi.wanted.names == {UNIQUE}
    await node.unmount(node.pod("uid-1"))
    assert node.services.csi.wanted.names == frozenset()
    assert (node.life(), node.left()) == ([], [])


async def test_a_volume_that_is_not_attached_is_not_waited_for(node: Node) -> None:
    """Its driver needs no attaching."""
    await node.mount(node.pod("uid-1"))
    assert node.services.csi.wanted.names == frozenset()


async def test_what_is_listed(node: Node) -> None:
    """Volumes that are mounted and those that are waited for, each once; after a restart the records are enough."""
    root = node.services.settings.root_dir
    attached(node)
    await node.mount(node.pod("uid-1"))
    write_wanted_volumes(root, [UNIQUE, "kubernetes.io/csi/another^x"])
    assert volumes_in_use(root) == ["kubernetes.io/csi/another^x", UNIQUE]
    write_wanted_volumes(root, [])
    assert volumes_in_use(root) == [UNIQUE]


def attached(node: Node) -> None:
    """Let the driver's volumes be attached, and this one be."""
    node.attaching()
    node.attachment(attached=True)
    node.report_in_use("vol-1")


@pytest.mark.parametrize("mode", ["Filesystem", "Block"])
@pytest.mark.parametrize(
    ("needs", "listed"),
    [
        pytest.param([False], [], id="not-attached"),
        pytest.param([False, False], [], id="not-attached-for-any-pod"),
        pytest.param([None, False], [UNIQUE], id="mounted-before-its-driver-was-known"),
        pytest.param([True, False], [UNIQUE], id="attached-for-another-pod"),
        pytest.param([False, True], [UNIQUE], id="attached-since"),
    ],
)
async def test_only_attachable_volumes_are_listed(
    node: Node, mode: str, needs: list[bool | None], listed: list[str]
) -> None:
    """By the driver's object when each pod mounted it (PluginIsAttachable), also after the first pod has mounted it again."""
    node.bind(volumeMode=mode)
    for index, one in enumerate(needs):
        attached(node)
        if one is None:
            del node.objects.kept[ObjectKind.CSI_DRIVERS, "", NAME]
        else:
            node.driver_object(attachRequired=one)
        await node.mount(node.pod(f"uid-{index}"))
    if not needs[-1]:
        await node.restarted().mount(node.pod("uid-0"))
    assert volumes_in_use(node.services.settings.root_dir) == listed


async def test_a_volume_whose_driver_attaches_since_is_listed_first(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is recorded at once, and its pod waits until the API server knows it, as at the first time."""
    monkeypatch.setattr(attaching, "ATTACHED_WITHIN", timedelta(seconds=0.2))
    root = node.services.settings.root_dir
    await node.mount(node.pod("uid-1"))
    assert volumes_in_use(root) == []
    node.attaching()
    node.attachment(attached=True)
    with pytest.raises(NotAttached, match="is not marked in-use"):
        await node.mount(node.pod("uid-1"))
    assert (volumes_in_use(root), node.services.csi.wanted.names) == ([UNIQUE], frozenset({UNIQUE}))
