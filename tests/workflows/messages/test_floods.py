"""Does a pod go on, and is its deletion heard, while strangers signal it without any pause?

On a Temporal with the limits of an embedded one. With Temporal's own, its tasks are broken off, and a run of 10,000 signals
is left that takes no deletion.
"""

import asyncio
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from subprocess import PIPE

import pytest

from proto.temporal import names
from tests.conftest import development_server
from tests.patience import PATIENCE
from tests.workflows.conftest import Node, pod_json
from tests.workflows.pod.test_continuing import GOING, lengths
from tests.workflows.runs import run_of
from worker.delivery.task_timeouts import SHORTEST
from worker.standalone.temporal_server import DYNAMIC_CONFIG
from worker.temporal.temporal_client import TemporalSettings

STRANGERS = 20
LONGEST_RUN = 5_000
"""Events. A run continues as new after 500, and the last task takes what arrives while it waits for its turn."""


@pytest.fixture(scope="module")
def temporal_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a Temporal of its own."""
    with development_server(tmp_path_factory.mktemp("temporal"), *DYNAMIC_CONFIG) as address:
        yield address


@asynccontextmanager
async def flooded(settings: TemporalSettings, node: Node, workflow_id: str) -> AsyncIterator[Counter[str]]:
    """Signal a workflow meanwhile; yields, afterwards, how many signals were taken and refused."""
    arguments = (str(settings.address), node.client.namespace, workflow_id, str(STRANGERS))
    flood = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.workflows.messages.signal_flood", *arguments, stdin=PIPE, stdout=PIPE
    )
    counts: Counter[str] = Counter()
    try:
        yield counts
        said, _ = await flood.communicate(b"")
        counts.update(json.loads(said))
    finally:
        if flood.returncode is None:
            flood.kill()
            await flood.wait()


@pytest.mark.parametrize("runs", [4, pytest.param(30, marks=pytest.mark.stress)])
async def test_signals_without_pause(node: Node, settings: TemporalSettings, runs: int) -> None:
    """Each run stays short, and the deletion ends the pod while the flood goes on."""
    pod = pod_json()
    node.task_timeout = SHORTEST
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    newest = node.newest(pod)
    async with flooded(settings, node, handle.id) as counts:
        seen: set[str] = set()
        async with asyncio.timeout(PATIENCE * runs):
            while len(seen) < runs:
                seen.add(await run_of(newest))
                await asyncio.sleep(0.1)  # another process: there is no event to await
        await newest.signal(names.DELETION_REQUESTED, GOING)
        async with asyncio.timeout(PATIENCE):
            await newest.result()
    found = [length async for length in lengths(node, handle)]
    assert max(found) < LONGEST_RUN
    assert counts["taken"] > runs * 100
    assert counts["RESOURCE_EXHAUSTED RESOURCE_EXHAUSTED_CAUSE_BUSY_WORKFLOW"]
    assert len(node.runtime.named(names.START_CONTAINER)) == 1
