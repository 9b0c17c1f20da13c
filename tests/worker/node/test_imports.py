"""Does the node process stay small: does it load only what it needs?"""

import subprocess
import sys

import pytest

HEAVY = """
import sys
import worker.node.run
print(*sys.modules)
"""


@pytest.fixture(scope="module")
def loaded() -> set[str]:
    """Import the node process's parts in a process of its own."""
    answer = subprocess.run([sys.executable, "-c", HEAVY], check=True, capture_output=True, text=True)
    return set(answer.stdout.split())


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("temporalio", id="it-lives-without-temporal-and-its-client-costs-10-MB"),
        pytest.param("kubernetes", id="the-models-cost-16-MB"),
        pytest.param("pydantic", id="its-tables-cost-9-MB"),
        pytest.param("activities.node_services", id="with-it-comes-the-half-of-a-worker"),
        pytest.param("workflows.pod", id="no-pod-is-led-here"),
        pytest.param("typer", id="a-command-line-is-the-commands"),
    ],
)
def test_what_is_heavy_is_not_loaded(loaded: set[str], name: str) -> None:
    """Worker, poller and node share 330 MB (issue 6)."""
    assert "worker.api.server" in loaded
    assert name not in loaded
