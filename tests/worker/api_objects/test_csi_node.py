"""Does the CSINode list this node's drivers, also after its Node was deleted?"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from activities.clients.api_server.api_server import ApiAway, ApiRefused, ApiServer, Content, Json
from activities.clients.csi_drivers import CsiDrivers, Driver
from tests.patience import PATIENCE
from worker.api_objects import csi_node
from worker.api_objects.csi_node import CsiNodeKeeper
from worker.api_objects.csi_node_objects import NODE_ID

DISK = Driver("disk", "sock", node_id="n-1", topology={"rack": "7"})
NODE, CSI_NODE = "/api/v1/nodes/n1", "/apis/storage.k8s.io/v1/csinodes/n1"


class Server(ApiServer):
    """A server with one Node and its CSINode."""

    def __init__(self) -> None:
        self.objects: dict[str, Json] = {}
        self.written = asyncio.Event()
        self.asked: list[str] = []
        self.away = False

    def register(self, uid: str) -> None:
        """Replace the Node by a new one, and drop the rest."""
        self.objects = {NODE: {"metadata": {"name": "n1", "uid": uid}}}
        self.written.clear()

    async def call(self, method: str, path: str, *, content: Content | None = None, **_: Any) -> Json:
        """Answer one call."""
        self.asked.append(f"{method} {path}")
        if self.away:
            raise ApiAway("away")
        body = content.body if content else {}
        if method == "POST":
            self.objects[CSI_NODE] = body
            self.written.set()
        elif path not in self.objects:
            raise ApiRefused(404, "NotFound", path)
        elif method == "PATCH":
            self.objects[path]["metadata"] |= body["metadata"]
        elif method == "PUT":
            self.objects[path] = body
            self.written.set()
        return self.objects[path if method != "POST" else CSI_NODE]


async def while_kept(server: Server, drivers: CsiDrivers, work: Callable[[], Awaitable[None]]) -> None:
    """Run something while the CSINode is kept in sync, within ten seconds."""
    keeping = asyncio.create_task(CsiNodeKeeper(server, "n1", drivers).run())
    try:
        async with asyncio.timeout(PATIENCE):
            await work()
    finally:
        keeping.cancel()
        with suppress(asyncio.CancelledError):
            await keeping


async def test_a_node_that_was_made_anew_has_its_drivers_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """`kubectl delete node` deletes the CSINode too; without it no volume of a driver is attached here."""
    monkeypatch.setattr(csi_node, "LOOK", timedelta(milliseconds=10))
    server, drivers = Server(), CsiDrivers()
    server.register("u1")
    await drivers.add(DISK)

    async def delete() -> None:
        await server.written.wait()
        server.register("u2")
        await server.written.wait()

    await while_kept(server, drivers, delete)
    found = server.objects[CSI_NODE]
    assert found["metadata"]["ownerReferences"][0]["uid"] == "u2"
    assert found["spec"]["drivers"] == [{"name": "disk", "nodeID": "n-1", "topologyKeys": ["rack"]}]
    metadata = server.objects[NODE]["metadata"]
    assert (metadata["annotations"], metadata["labels"]) == ({NODE_ID: '{"disk":"n-1"}'}, {"rack": "7"})


async def test_a_driver_that_registers_again_while_it_is_written_is_no_reason_to_hurry() -> None:
    """A repeated change is written once, and then there are no requests until something changes."""
    server, drivers = Server(), CsiDrivers()
    server.register("u1")
    await drivers.add(DISK)

    async def again() -> None:
        await server.written.wait()
        await drivers.add(DISK)
        for _ in range(100):
            await asyncio.sleep(0)
        asked = len(server.asked)
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(server.asked) == asked

    await while_kept(server, drivers, again)
