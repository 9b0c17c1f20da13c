"""Does the node process hear which volumes pods wait for, and are those of an earlier worker forgotten?"""

import asyncio
import os
from pathlib import Path

import pytest

from proto.volumes_in_use import in_use_folder, wanted_volumes, write_wanted_volumes
from tests.activities.volumes.csi.csi_node import Node, NodeWithDriver
from tests.csi.orders import Setup
from worker.host.csi.wanted_volumes import recording_wanted

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: the node's fixture can mount")


async def recorded(node: Node, *names: str) -> None:
    """Wait until these are recorded."""
    async with asyncio.timeout(30):
        while wanted_volumes(node.services.settings.root_dir) != set(names):  # noqa: ASYNC110 - a file: there is no event to await
            await asyncio.sleep(0.01)


async def test_each_change_is_recorded(tmp_path: Path) -> None:
    """Two pods may wait for one volume."""
    async with NodeWithDriver(tmp_path, Setup()) as node:
        wanted, root = node.services.csi.wanted, node.services.settings.root_dir
        write_wanted_volumes(root, ["left"])
        async with recording_wanted(node.services):
            await recorded(node)
            wanted.add("/pods/1", "a")
            await recorded(node, "a")
            wanted.add("/pods/2", "a")
            wanted.add("/pods/2", "b")
            wanted.add("/pods/3", "a")
            await recorded(node, "a", "b")
            wanted.discard("/pods/1")
            wanted.discard("/pods/2")
            wanted.discard("/pods/2")
            await recorded(node, "a")


async def test_a_node_without_such_volumes_has_no_file(tmp_path: Path) -> None:
    """Nothing is written for nothing."""
    async with NodeWithDriver(tmp_path, Setup()) as node, recording_wanted(node.services):
        node.services.csi.wanted.changed.set()
        while node.services.csi.wanted.changed.is_set():  # noqa: ASYNC110 - it tells when it is set, not when it is cleared
            await asyncio.sleep(0)
        assert not in_use_folder(node.services.settings.root_dir).exists()
