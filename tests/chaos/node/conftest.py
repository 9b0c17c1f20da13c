"""Skips the scenarios where no node can run."""

from pathlib import Path

import pytest

from tests.node.conftest import cannot_run


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every scenario of this folder, and skip it with a reason where it cannot run."""
    ours = [item for item in items if Path(__file__).parent in item.path.parents]
    reason = cannot_run() if ours else ""
    for item in ours:
        item.add_marker("node")
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))
