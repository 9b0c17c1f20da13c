"""Is a lost connection to Temporal noticed by a worker that waits, with and without a workflow of its node?"""

import asyncio
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from proto.temporal import names
from proto.temporal.node import NodeStart
from tests.patience import PATIENCE
from tests.worker.processes.poller_node import Line
from worker.host.temporal.lost_connection import until_lost, until_there
from worker.temporal.temporal_client import TemporalSettings, connect, prepare


@pytest.fixture
async def line(temporal_address: str) -> AsyncIterator[Line]:
    """Return a way to Temporal that can be cut."""
    async with Line(temporal_address) as made:
        yield made


@pytest.mark.parametrize("has_workflow", [True, False], ids=["it-waits-for-news", "there-is-nothing-to-wait-for"])
async def test_a_connection_that_breaks_is_noticed(line: Line, settings: TemporalSettings, has_workflow: bool) -> None:
    """And that Temporal answers again."""
    direct = await connect(settings)
    await prepare(direct, settings)
    node = f"n{uuid.uuid4().hex[:8]}"
    if has_workflow:
        workflow = names.node_workflow_id(node)
        await direct.start_workflow(names.NODE_WORKFLOW, NodeStart(node), id=workflow, task_queue=node)
    client = await connect(replace(settings, address=line.address))
    waiting = asyncio.create_task(until_lost(client, node))
    await direct.count_workflows()
    assert not waiting.done()
    await line.cut()
    async with asyncio.timeout(PATIENCE):
        assert await waiting
        back = asyncio.create_task(until_there(client))
        await direct.count_workflows()
        assert not back.done()
        await line.mend()
        await back
    if has_workflow:
        await direct.get_workflow_handle(workflow).terminate()
