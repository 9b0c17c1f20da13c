"""Does a worker take no task while the secret of an active key is missing, and say so?"""

import asyncio
from pathlib import Path

import pytest
from temporalio.converter import WorkflowSerializationContext

from tests.patience import PATIENCE
from worker.daemon.config import NodeConfig
from worker.daemon.node_client import node_client
from worker.daemon.service import Service
from worker.settings.tempolet_configuration import tempolet_configuration
from worker.temporal.codec import data_converter
from worker.temporal.keys import KeyFile, KeyMissing, add_key, create_key_file

BOUND = WorkflowSerializationContext(namespace="tempolet", workflow_id="pod/n/default/web/u")


class Heard(Service):
    """A service that keeps its status lines."""

    def __init__(self) -> None:
        super().__init__(lambda: "", {})
        self.said: asyncio.Queue[str] = asyncio.Queue()

    def status(self, text: str) -> None:
        """Keep the line."""
        self.said.put_nowait(text)

    def note(self, text: str, about: str = "") -> None:  # noqa: ARG002 - the service's signature
        """Keep what is awaited."""
        if text:
            self.said.put_nowait(text)


def configuration(tmp_path: Path, address: str) -> NodeConfig:
    """Return a node's configuration."""
    return NodeConfig("node-1", root_dir=tmp_path, tempolet=tempolet_configuration({"temporal": {"address": address}}))


def rewrite(path: Path, text: str) -> None:
    """Write the key file as an operator does."""
    path.write_text(text)


@pytest.mark.parametrize("role", ["worker", "poller"])
async def test_only_the_worker_waits(tmp_path: Path, temporal_address: str, role: str) -> None:
    """It is not connected, so it polls nothing; the poller only sends, which needs no earlier key."""
    config = configuration(tmp_path, temporal_address)
    newest = create_key_file(config.payload_key_file).newest
    whole = f"{newest.key_id}-lost\n" + config.payload_key_file.read_text()
    rewrite(config.payload_key_file, whole)
    async with asyncio.timeout(PATIENCE), Heard() as service:
        node = await node_client(config, service, role=role)
        reaching = asyncio.create_task(node.reach())
        if role == "worker":
            assert f"lacks the secret of key {newest.key_id}-lost" in await service.said.get()
            assert not reaching.done()
            rewrite(config.payload_key_file, whole.replace("-lost", "-lost retired", 1))
        await reaching
        assert await node.client.service_client.check_health()


async def test_a_worker_stops_when_it_meets_a_payload_of_that_key(tmp_path: Path, temporal_address: str) -> None:
    """The key was added and lost while it ran. Its service manager starts it again, and then it waits."""
    config = configuration(tmp_path, temporal_address)
    create_key_file(config.payload_key_file)
    async with asyncio.timeout(PATIENCE), Heard() as service:
        node = await node_client(config, service, role="worker")
        await node.reach()
        ring = add_key(config.payload_key_file)
        sealing = data_converter(KeyFile(config.payload_key_file)).with_context(BOUND)
        payloads = await sealing.encode(["x"])
        whole = config.payload_key_file.read_text()
        rewrite(config.payload_key_file, whole.rpartition(f"{ring.newest.key_id} ")[0])
        with pytest.raises(KeyMissing):
            await node.client.data_converter.with_context(BOUND).decode(payloads)
        await service.stop_requested()
        assert f"lacks the secret of key {ring.newest.key_id}" in await service.said.get()
