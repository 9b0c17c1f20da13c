"""Options of `make chaos`: which seed, and which scenarios."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    parser.addoption("--chaos-seed", type=int, default=None, help="play each scenario with this seed")
    parser.addoption("--chaos-scenario", default="", help="play only the scenario of this name")
