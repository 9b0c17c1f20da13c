"""The package, built once for all tests of this folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.machine.installed.releases import build_releases
from tests.machine.machine import Parts
from tests.machine.run_folders import run_folder


@pytest.fixture(scope="package")
def packages(machine_parts: Parts) -> Iterator[Path]:  # noqa: ARG001  where there is no guest, nothing is built for it
    """Build two releases; yields their folder."""
    with run_folder() as folder:
        yield build_releases(folder)
