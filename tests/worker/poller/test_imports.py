"""Does the poller stay small: does it load only what it needs?"""

import subprocess
import sys

import pytest

HEAVY = """
import sys
import worker.node_client, worker.poller.run, worker.telemetry.process
print(*sys.modules)
"""


@pytest.fixture(scope="module")
def loaded() -> set[str]:
    """Import the poller in a process of its own."""
    answer = subprocess.run([sys.executable, "-c", HEAVY], check=True, capture_output=True, text=True)
    return set(answer.stdout.split())


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("kubernetes", id="the-models-cost-16-MB"),
        pytest.param("temporalio.worker", id="temporals-worker-with-multiprocessing-costs-4-MB"),
        pytest.param("pydantic", id="its-tables-cost-9-MB"),
        pytest.param("aiohttp", id="a-web-server-costs-25-MB"),
        pytest.param("activities.node_services", id="with-it-comes-the-half-of-a-worker"),
        pytest.param("typer", id="a-command-line-is-the-commands"),
    ],
)
def test_what_is_heavy_is_not_loaded(loaded: set[str], name: str) -> None:
    """Worker and poller share 230 MB (issue 3): a careless import costs a tenth of it."""
    assert "temporalio" in loaded
    assert name not in loaded
