"""Does each process load only the modules that it needs?"""

import functools
import subprocess
import sys

import pytest

PARTS = {
    "poller": ("worker.daemon.node_client", "worker.processes.poller", "worker.telemetry.process"),
    "node": ("worker.processes.node",),
}
NEEDED = {"poller": "temporalio", "node": "worker.api.server"}


@functools.cache
def loaded(process: str) -> set[str]:
    """Import a process's parts in a process of its own."""
    program = f"import sys, {', '.join(PARTS[process])}; print(*sys.modules)"
    answer = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    return set(answer.stdout.split())


@pytest.mark.parametrize("process", PARTS)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("kubernetes", id="the-models-cost-16-MB"),
        pytest.param("pydantic", id="its-tables-cost-9-MB"),
        pytest.param("activities.node_services", id="with-it-comes-the-half-of-a-worker"),
        pytest.param("typer", id="a-command-line-is-the-commands"),
    ],
)
def test_what_is_heavy_is_not_loaded(process: str, name: str) -> None:
    """Worker, poller and node share 330 MB (issue 6), the first two 230 (issue 3): a careless import costs a tenth of it."""
    assert NEEDED[process] in loaded(process)
    assert name not in loaded(process)


@pytest.mark.parametrize(
    ("process", "name"),
    [
        pytest.param("poller", "temporalio.worker", id="temporals-worker-with-multiprocessing-costs-4-MB"),
        pytest.param("poller", "aiohttp", id="a-web-server-costs-25-MB"),
        pytest.param("node", "temporalio", id="it-lives-without-temporal-and-its-client-costs-10-MB"),
        pytest.param("node", "workflows.pod", id="no-pod-is-led-here"),
    ],
)
def test_what_one_of_them_has_no_use_for_is_not_loaded(process: str, name: str) -> None:
    """The other one may need it."""
    assert name not in loaded(process)
