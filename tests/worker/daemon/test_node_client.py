"""Is the identity of a process its own, and does its client wait for Temporal, telling what it waits for?"""

import asyncio
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.patience import PATIENCE
from tests.worker.processes.poller_node import Line, eventually
from worker.daemon import node_client
from worker.daemon.config import NodeConfig
from worker.daemon.node_client import NodeClient, identity
from worker.daemon.service import Service
from worker.daemon.troubles import Troubles
from worker.settings.tempolet_configuration import tempolet_configuration
from worker.temporal.namespace import TemporalNotPrepared


def test_a_reboot_gives_another_identity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process can start at the same clock tick after each boot, and would not take over its own attempts."""
    before = identity("worker", "n1")
    assert before == identity("worker", "n1")
    assert before.startswith("worker/n1/")
    other = tmp_path / "boot_id"
    other.write_text("00000000-1111-2222-3333-444444444444\n")
    monkeypatch.setattr(node_client, "BOOT_ID", other)
    after = identity("worker", "n1")
    assert after.rpartition("/")[2].split("-")[1] == "00000000"
    assert after != before


class Noted(Service):
    """A service that keeps its notes."""

    def __init__(self) -> None:
        super().__init__(lambda: "", {})
        self.notes: list[str] = []
        self.noted = asyncio.Event()

    def note(self, text: str, about: str = "") -> None:  # noqa: ARG002 - the service's signature
        """Keep it."""
        self.notes.append(text)
        self.noted.set()


@pytest.fixture
def troubles(monkeypatch: pytest.MonkeyPatch) -> Troubles:
    """Return a record of troubles of this test's own."""
    own = Troubles()
    monkeypatch.setattr(node_client, "TROUBLES", own)
    return own


def configuration(folder: Path, address: str, **keys: str) -> NodeConfig:
    """Return the configuration of a node."""
    own = tempolet_configuration({"temporal": {"address": address, **keys}})
    return NodeConfig("node-1", root_dir=folder, tempolet=own)


async def test_a_temporal_that_comes_late_is_told_once_and_is_no_trouble(
    tmp_path: Path, temporal_address: str, troubles: Troubles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node is healthy without it."""
    logged: list[str] = []
    monkeypatch.setattr(
        node_client, "_log", SimpleNamespace(warning=logged.append, error=logged.append, info=logged.append)
    )
    async with asyncio.timeout(PATIENCE), Line(temporal_address) as line:
        await (await node_client.node_client(configuration(tmp_path, line.address), Noted(), role="poller")).reach()
        logged.clear()
        await line.cut()
        service = Noted()
        node = await node_client.node_client(configuration(tmp_path, line.address), service, role="poller")
        reaching = asyncio.create_task(node.reach())
        await node.tried()
        while len(service.notes) < 3:
            service.noted.clear()
            await service.noted.wait()
        waits = f"waiting for Temporal at {line.address}: Connection refused"
        assert set(service.notes) == {waits}
        assert troubles.lines() == ()
        await line.mend()
        await reaching
        assert service.notes[-1] == ""
        assert logged == [waits, "Temporal answers"]
        assert await node.client.service_client.check_health()


async def test_a_refusal_is_a_trouble_until_temporal_lets_us(
    tmp_path: Path, temporal_address: str, troubles: Troubles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An administrator repairs it there, and the process needs no other start."""
    refused = asyncio.Event()

    async def refuse(*_: object, **__: object) -> None:
        refused.set()
        raise TemporalNotPrepared("let an administrator run this")

    async with asyncio.timeout(PATIENCE):
        with monkeypatch.context() as patch:
            patch.setattr(node_client, "prepare", refuse)
            node = await node_client.node_client(configuration(tmp_path, temporal_address), Noted(), role="poller")
            reaching = asyncio.create_task(node.reach())
            await node.tried()
        assert ["let an administrator run this" in line for line in troubles.lines()] == [True]
        await reaching
    assert troubles.lines() == ()


async def test_a_namespace_that_is_gone_is_made_again(tmp_path: Path, temporal_address: str) -> None:
    """Calls fail meanwhile, and none says that its workflow does not exist."""
    async with asyncio.timeout(PATIENCE):
        config = configuration(tmp_path, temporal_address, namespace="comes-back")
        node = await node_client.node_client(config, Noted(), role="poller")
        await node.reach()
        node.namespace_gone.set()
        staying = asyncio.create_task(node.stay())
        await eventually(partial(_is_back, node))
        staying.cancel()
        assert await node.client.service_client.check_health()


async def _is_back(node: NodeClient) -> bool:
    return not node.namespace_gone.is_set()
