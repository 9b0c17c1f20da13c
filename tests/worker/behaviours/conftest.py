"""Selects the event loop of a test: the normal one, or with the mark `jumping_clock` one in which waiting takes no time."""

from tests.activities.conftest import pytest_asyncio_loop_factories

__all__ = ["pytest_asyncio_loop_factories"]
