"""A served lead of one pod."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from tests.worker.delivery.served_lead import Served, serving
from worker.delivery.server import Limits


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    """Serve a lead of one pod, patiently."""
    async with serving(tmp_path, Limits(patience=PATIENCE)) as served:
        yield served
