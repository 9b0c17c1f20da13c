"""Is a changed Node reported, whether it was watched or read?"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from activities.clients.api_server.api_server import ApiServer, Json
from tests.patience import PATIENCE
from worker.daemon.config import NodeConfig
from worker.poller.cluster.node_object import NodeObject


def node(version: int, address: str) -> Json:
    """Write the Node, as the API has it."""
    status = {"addresses": [{"type": "InternalIP", "address": address}]}
    return {"metadata": {"name": "n", "uid": "node-1", "resourceVersion": str(version)}, "status": status}


class Scripted(ApiServer):
    """A server that has one Node, and tells of it what the test tells."""

    def __init__(self) -> None:
        self.node = node(1, "192.0.2.1")
        self.events: asyncio.Queue[Json] = asyncio.Queue()

    async def call(self, method: str, path: str, **_: Any) -> Json:
        """Answer the list, or the Node."""
        assert method == "GET"
        if path == "/api/v1/nodes":
            return {"kind": "NodeList", "apiVersion": "v1", "items": [self.node], "metadata": {"resourceVersion": "1"}}
        return self.node

    async def watch(self, *_: Any, **__: Any) -> AsyncIterator[Json]:
        """Tell."""
        while True:
            yield await self.events.get()
            self.events.task_done()


async def test_an_address_that_was_read_before_the_watch_told_it_is_told(tmp_path: Path) -> None:
    """Admission reads the Node beside the watch, whose event is no news afterwards; new pods would be told the old address."""
    api, told = Scripted(), asyncio.Queue[tuple[str, ...]]()
    known = NodeObject(api, NodeConfig("n", root_dir=tmp_path), lambda: told.put_nowait(known.host_ips))
    following = asyncio.create_task(known.follow())
    async with asyncio.timeout(PATIENCE):
        assert await told.get() == ("192.0.2.1",)
        api.node = node(2, "192.0.2.2")
        await known.read()
        api.events.put_nowait({"type": "MODIFIED", "object": api.node})
        await api.events.join()
    assert told.get_nowait() == ("192.0.2.2",)
    assert told.empty(), "once"
    following.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await following
