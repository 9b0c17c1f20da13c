"""What does a process hold and do while it waits for changes of a collection? Uses the server of `test_reflector`."""

import asyncio
import gc
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

from activities.clients.api_server.reflector import Changed, Listed
from tests.activities.clients.test_reflector import following, listed, pod, rests, said

ESTABLISHED, KEEPALIVE_TIMER = "01", "02"
"""As in /proc/net/tcp."""


@asynccontextmanager
async def still_following(changes: AsyncIterator[Listed | Changed]) -> AsyncIterator[None]:
    """Wait for the next change while the block runs."""

    async def wait() -> None:
        await anext(changes)

    waiting = asyncio.create_task(wait())
    try:
        yield
    finally:
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


def timers_towards(port: int) -> set[str]:
    """Return the kernel's timers of all connections to a local port."""
    rows = [line.split() for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
    return {row[5].split(":")[0] for row in rows if row[2].endswith(f":{port:04X}") and row[3] == ESTABLISHED}


async def test_what_was_listed_is_let_go_of() -> None:
    """The list is the whole collection, with managed fields; the caller keeps the part that it needs."""
    async with following(listed("a", version=5)) as (server, changes):
        told = await anext(changes)
        assert isinstance(told, Listed)
        found = told.items[0]
        del told
        async with still_following(changes):
            await server.done.wait()
            assert [one for one in gc.get_referrers(found) if isinstance(one, list | tuple | Listed)] == []


async def test_a_watch_that_only_listens_asks_whether_its_server_is_there() -> None:
    """The connection has a keepalive timer, otherwise a machine that is gone would be noticed only after minutes."""

    async def tells_once(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(json.dumps({"type": "ADDED", "object": pod("b", 6)}).encode() + b"\n")
        return await rests(request)

    async with following(listed("a", version=5), tells_once) as (server, changes):
        assert [said(await anext(changes)), said(await anext(changes))] == ["a", "A:b"]
        assert timers_towards(server.port) == {KEEPALIVE_TIMER}
