"""Tunnels SPDY through a WebSocket, for port-forward clients that cannot use SPDY directly.

The runtime is asked for SPDY, and each binary message holds a piece of that connection, in either direction
(apiserver/pkg/util/proxy streamtunnel.go; kubectl uses it towards the API server).
"""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any, Final

from aiohttp import WSMsgType, hdrs, web

from worker.api.streams.backend import SWITCHING_PROTOCOLS, Backend
from worker.api.streams.upgrade_proxy import (
    accept_websocket,
    backend_refusal,
    connect_backend,
    offered_protocols,
    require_upgrade,
)

_PREFIX: Final = "SPDY/3.1+"
_SUFFIX: Final = "portforward.k8s.io"
_PIECE: Final = 32 * 1024
SPDY: Final = "SPDY/3.1"
PROTOCOL_VERSION: Final = "X-Stream-Protocol-Version"


def is_tunnel(request: web.Request) -> bool:
    """Report whether a client asks for SPDY in a WebSocket."""
    return bool(_offered(request))


async def tunnel_spdy(request: web.Request, url: str, idle: timedelta) -> web.StreamResponse:
    """Tunnel SPDY through a WebSocket until either side ends; raises Refused."""
    require_upgrade(request)
    headers = [(hdrs.UPGRADE, SPDY), *((PROTOCOL_VERSION, one) for one in _offered(request))]
    with await connect_backend(url, "POST", headers) as backend:
        if backend.answer.status != SWITCHING_PROTOCOLS:
            return await backend_refusal(backend)
        socket = await accept_websocket(request, _PREFIX + backend.answer.header(PROTOCOL_VERSION))
        await _both_ways(socket, backend, idle)
        await socket.close()
    return socket


def _offered(request: web.Request) -> list[str]:
    """Return the protocols that the client offers to tunnel."""
    known = (one for one in offered_protocols(request) if one.startswith(_PREFIX) and one.endswith(_SUFFIX))
    return [one.removeprefix(_PREFIX) for one in known]


async def _both_ways(socket: web.WebSocketResponse, backend: Backend, idle: timedelta) -> None:
    reader, writer = backend.streams()

    async def up(passed: Callable[[], None]) -> None:
        async for message in socket:
            if message.type is not WSMsgType.BINARY:
                return
            passed()
            writer.write(message.data)
            await writer.drain()

    async def down(passed: Callable[[], None]) -> None:
        while piece := await reader.read(_PIECE):
            passed()
            await socket.send_bytes(piece)

    await until_one_ends(idle, up, down)


Pump = Callable[[Callable[[], None]], Coroutine[Any, Any, None]]


async def until_one_ends(idle: timedelta, *pumps: Pump) -> None:
    """Run pumps until one of them ends, or nothing was copied for the idle timeout (0: none)."""
    loop, seconds = asyncio.get_running_loop(), idle.total_seconds()
    try:
        async with asyncio.timeout(seconds or None) as limit:

            def passed() -> None:
                if seconds:
                    limit.reschedule(loop.time() + seconds)

            tasks = [asyncio.create_task(pump(passed)) for pump in pumps]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for one in tasks:
                    one.cancel()
                ended = await asyncio.gather(*tasks, return_exceptions=True)
            _raise_defects(ended)
    except TimeoutError:
        return


def _raise_defects(ended: list[BaseException | None]) -> None:
    """Raise errors that are not the end of a connection."""
    for one in ended:
        if isinstance(one, Exception) and not isinstance(one, OSError):
            raise one
