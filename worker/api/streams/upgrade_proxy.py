"""Connects a client that asks for an upgrade to the runtime's streaming server.

Used by `exec`, `attach` and `port_forward` with the URL from CRI. The client's protocol (SPDY/3.1 from the API server,
WebSocket from others) is requested from the runtime, and then bytes are copied. WebSocket protocols that the runtime does not
support are translated: `translation` (remotecommand v5), `tunnel` (SPDY in WebSocket).
"""

import asyncio
from datetime import timedelta
from http import HTTPStatus
from typing import Final

from aiohttp import hdrs, web
from aiohttp.abc import AbstractStreamWriter
from multidict import MultiMapping

from worker.api.responses.responses import Refused
from worker.api.streams.backend import FORWARDED_HEADERS, SWITCHING_PROTOCOLS, Answer, Backend, BackendFailed
from worker.api.streams.options import subprotocols
from worker.api.streams.relay import Relay

_OFFERED: Final = "Sec-WebSocket-Protocol"
_BEARER: Final = "base64url.bearer.authorization.k8s.io."
"""Prefix of a subprotocol that carries a browser's token (apiserver authentication/request/websocket); it is not accepted here."""
_KEPT_HEADERS: Final = ("X-Accepted-Stream-Protocol-Versions", "Sec-WebSocket-Version")
"""Headers that tell a refused client what is supported."""
_LONGEST_MESSAGE: Final = 1 << 20


class HijackedResponse(web.StreamResponse):
    """Returned to aiohttp for a connection that another protocol used and closed: there is nothing to send."""

    def __init__(self) -> None:
        super().__init__(status=SWITCHING_PROTOCOLS)
        self.force_close()

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:  # noqa: ARG002 - aiohttp's signature
        """Send nothing."""
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        """Send nothing."""


async def proxy_upgrade(request: web.Request, url: str, idle: timedelta) -> web.StreamResponse:
    """Upgrade a client's connection and relay it to the runtime until either ends; raises Refused."""
    require_upgrade(request)
    with await connect_backend(url, request.method, forwarded_headers(request.headers)) as backend:
        if backend.answer.status != SWITCHING_PROTOCOLS:
            return await backend_refusal(backend)
        await _relayed(request, backend, idle)
    return HijackedResponse()


def forwarded_headers(headers: MultiMapping[str]) -> list[tuple[str, str]]:
    """Return the client's headers that are forwarded to the runtime, without a token sent as a subprotocol."""
    found = []
    for name in FORWARDED_HEADERS:
        for value in headers.getall(name, ()):
            protocols = [one for one in subprotocols(value) if not one.startswith(_BEARER)]
            found.append((name, value if name != _OFFERED else ", ".join(protocols)))
    return [(name, value) for name, value in found if value]


def require_upgrade(request: web.Request) -> None:
    """Raise Refused unless the client requests an upgrade without a body."""
    asked = any("upgrade" in value.lower() for value in request.headers.getall(hdrs.CONNECTION, ()))
    if not asked or hdrs.UPGRADE not in request.headers:
        raise Refused(HTTPStatus.BAD_REQUEST, "Upgrade request required")
    if request.can_read_body:
        raise Refused(HTTPStatus.BAD_REQUEST, "an upgrade request has no body")


def is_websocket(request: web.Request) -> bool:
    """Report whether a client asks for a WebSocket."""
    return request.headers.get(hdrs.UPGRADE, "").lower() == "websocket"


def offered_protocols(request: web.Request) -> list[str]:
    """Return the subprotocols a client offers; none if it does not ask for a WebSocket."""
    return subprotocols(request.headers.get(_OFFERED, "")) if is_websocket(request) else []


async def accept_websocket(request: web.Request, protocol: str) -> web.WebSocketResponse:
    """Accept a client's WebSocket; raises Refused."""
    socket = web.WebSocketResponse(protocols=[protocol], compress=False, max_msg_size=_LONGEST_MESSAGE)
    if not socket.can_prepare(request):
        raise Refused(HTTPStatus.BAD_REQUEST, "unable to upgrade: no WebSocket request")
    await socket.prepare(request)
    return socket


async def connect_backend(url: str, method: str, headers: list[tuple[str, str]]) -> Backend:
    """Request the upgrade from the runtime's streaming server; raises Refused if that fails."""
    try:
        return await Backend.open(url, method, headers)
    except BackendFailed as error:
        raise Refused(HTTPStatus.BAD_GATEWAY, f"the runtime's streaming server: {error}") from None


async def backend_refusal(backend: Backend) -> web.Response:
    """Return the streaming server's response in place of an upgrade."""
    answer: Answer = backend.answer
    if answer.status < HTTPStatus.BAD_REQUEST:
        raise Refused(HTTPStatus.BAD_GATEWAY, f"invalid upgrade response: status code {answer.status}")
    kept_headers = [
        (name, value) for name, value in answer.headers if name.lower() in {one.lower() for one in _KEPT_HEADERS}
    ]
    response = web.Response(status=answer.status, body=await backend.refusal(), content_type="text/plain")
    for name, value in kept_headers:
        response.headers.add(name, value)
    return response


async def _relayed(request: web.Request, backend: Backend, idle: timedelta) -> None:
    """Relay bytes until both connections are closed; if cancelled, close them at once."""
    transport, handler = request.transport, request.protocol
    if transport is None:
        return  # the client disconnected while the runtime was called
    ended: list[Exception | None] = []
    relay = Relay(idle.total_seconds())
    client, server = relay.side(ended.append), relay.side()
    transport.set_protocol(client)
    client.connection_made(transport)
    try:
        transport.write(backend.answer.head)
        backend.take_over(server)
        await relay.done
    finally:
        relay.abort()
        # aiohttp counts its connections: notify it after this request, because it may cancel one in progress
        asyncio.get_running_loop().call_soon(handler.connection_lost, ended[0] if ended else None)
