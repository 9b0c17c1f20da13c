"""A node, one with a CSI driver, and a block device (a file behind a loop device), for the tests of this folder."""

import subprocess
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from activities import mounts
from activities.csi.drivers import CsiDrivers
from activities.node_services import NodeServices
from tests.activities.volume_node import volume_services
from tests.activities.volumes.csi_node import Node, NodeWithDriver
from tests.csi.orders import Setup


@pytest.fixture
async def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Node]:
    """Give a node with a driver; nothing of it stays mounted."""
    monkeypatch.setattr(CsiDrivers.get, "__defaults__", (timedelta(milliseconds=50),))
    async with NodeWithDriver(tmp_path, Setup()) as made:
        yield made


@pytest.fixture
async def services(tmp_path: Path) -> AsyncIterator[NodeServices]:
    """Give a node; whatever is left mounted is undone."""
    async with volume_services(tmp_path) as made:
        yield made
    for point in mounts.mounts_below(tmp_path):
        mounts.unmount(Path(point), detach=True)


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Path]:
    """Give an empty block device of 16 MiB."""
    file = tmp_path / "disk"
    with file.open("wb") as disk:
        disk.truncate(16 << 20)
    made = subprocess.run(["losetup", "-f", "--show", str(file)], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        pytest.skip(f"this machine has no loop devices: {made.stderr}")
    yield Path(made.stdout.strip())
    for point in mounts.mounts_below(tmp_path):
        mounts.unmount(Path(point))
    subprocess.run(["losetup", "-d", made.stdout.strip()], check=True)
