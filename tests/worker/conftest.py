"""Fixtures for several folders: restores the process's logging after a test has changed it."""

import logging
from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture
def logs_restored() -> Iterator[None]:
    """Restore handlers, level and structlog's configuration afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    levels = {name: logging.getLogger(name).level for name in list(root.manager.loggerDict)}
    configuration = structlog.get_config()
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, before in levels.items():
        logging.getLogger(name).setLevel(before)
    structlog.configure(**configuration)
