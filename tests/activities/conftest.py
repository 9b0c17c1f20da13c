"""Selects the event loop of a test: the normal one, or with the mark `jumping_clock` one in which waiting takes no time."""

import asyncio
from collections.abc import Callable, Mapping

import pytest

from tests.activities.jumping_clock import JumpingClock


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Choose by the test's mark."""
    return {"loop": JumpingClock if item.get_closest_marker("jumping_clock") else asyncio.new_event_loop}
