"""A node with a CSI driver for the tests of this folder."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from activities.csi.drivers import CsiDrivers
from tests.activities.volumes.csi_node import Node, NodeWithDriver
from tests.csi.orders import Setup


@pytest.fixture
async def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Node]:
    """Give a node with a driver; nothing of it stays mounted."""
    monkeypatch.setattr(CsiDrivers.get, "__defaults__", (timedelta(milliseconds=50),))
    async with NodeWithDriver(tmp_path, Setup()) as made:
        yield made
