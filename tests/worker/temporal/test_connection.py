"""Does a client work before, after and again after it is connected, and is a missing namespace no missing workflow?"""

import asyncio
from dataclasses import replace

import pytest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from tests.patience import PATIENCE
from worker.temporal.connection import connection_of, pause
from worker.temporal.temporal_client import TemporalSettings, client_opened_later


async def made(settings: TemporalSettings, namespace: str = "default") -> Client:
    """Make a client that is not connected yet."""
    return await client_opened_later(replace(settings, namespace=namespace), identity="worker/n1")


async def status_of(client: Client) -> RPCStatusCode:
    """Return how a call for a workflow that does not exist is answered."""
    with pytest.raises(RPCError) as told:
        await client.get_workflow_handle("pod/nobody").describe()
    return told.value.status


async def test_calls_fail_at_once_until_a_connection_is_in_use(settings: TemporalSettings) -> None:
    """As they do whenever Temporal is away; then the same client works."""
    client = await made(settings)
    connection = connection_of(client)
    assert await status_of(client) is RPCStatusCode.UNAVAILABLE
    with pytest.raises(RuntimeError, match="not connected"):
        _ = connection.worker_service_client
    opened = await connection.connect_once()
    assert await status_of(client) is RPCStatusCode.UNAVAILABLE
    connection.use(opened)
    assert await status_of(client) is RPCStatusCode.NOT_FOUND
    assert connection.worker_service_client is opened


async def test_a_namespace_that_is_gone_is_no_workflow_that_is_gone(settings: TemporalSettings) -> None:
    """Callers would remove the pod of a workflow that is not found."""
    client = await made(settings, "nowhere")
    connection = connection_of(client)
    connection.use(await connection.connect_once())
    assert not connection.namespace_gone.is_set()
    assert await status_of(client) is RPCStatusCode.UNAVAILABLE
    assert connection.namespace_gone.is_set()
    connection.use(await connection.connect_once())
    assert not connection.namespace_gone.is_set()


async def test_a_pause_ends_with_another_connection(settings: TemporalSettings) -> None:
    """What failed while Temporal was away is tried again at once."""
    client = await made(settings)
    connection = connection_of(client)
    for _ in range(2):
        waiting = asyncio.create_task(pause(client, 2 * PATIENCE))
        opened = await connection.connect_once()
        assert not waiting.done()
        connection.use(opened)
        await asyncio.wait_for(waiting, PATIENCE)


async def test_each_connection_has_an_identity_of_its_own(settings: TemporalSettings) -> None:
    """What was started over an earlier one can be told apart, as from another process."""
    client = await made(settings)
    connection = connection_of(client)
    seen = []
    for _ in range(3):
        connection.use(await connection.connect_once())
        seen.append(client.identity)
    assert seen == ["worker/n1", "worker/n1/2", "worker/n1/3"]
    assert connection.worker_service_client.config.identity == "worker/n1/3"
