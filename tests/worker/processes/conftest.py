"""A node for each test: a name of its own on the session's Temporal, a fake runtime, a manifest folder."""

import tempfile
import uuid
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
from temporalio.client import Client

from tests.patience import PATIENCE
from tests.worker.poller.runtime.fake_runtime import FakeRuntime
from tests.worker.processes.poller_node import Node, hosted, threads_awaited
from worker.poller.calls.first_decisions import FirstDecisions
from worker.temporal.temporal_client import TemporalSettings, connect, prepare


@pytest.fixture
async def client(settings: TemporalSettings) -> Client:
    """Connect to the session's Temporal, prepared as tempolet lists it."""
    connected = await connect(settings)
    await prepare(connected, settings)
    return connected


@pytest.fixture
async def node(client: Client, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Node]:
    """Make a node; its poller is started by the test.

    A stand-in writes no snapshot, so that the poller lists its pod again ten seconds later: on a slow machine, in the middle of a test.
    """
    monkeypatch.setattr("worker.processes.poller.FirstDecisions", partial(FirstDecisions, first_wait=PATIENCE))
    name = f"n{uuid.uuid4().hex[:8]}"
    with tempfile.TemporaryDirectory(prefix="tpl.") as folder:  # a socket's path is short
        runtime = FakeRuntime(Path(folder) / "cri.sock")
        await runtime.start()
        async with threads_awaited(), hosted(client, name):
            yield Node(client, Path(folder), runtime, name)
        await runtime.stop()
        async for left in client.list_workflows(f"PodNode = '{name}' AND ExecutionStatus = 'Running'"):
            await client.get_workflow_handle(left.id).terminate()
