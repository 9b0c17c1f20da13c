"""What every request passes before its handler: authentication, authorization, its switch, the concurrency limit.

One instance for each port. It also writes the response, within a time limit for the client to read it, so a request has ended
when its slot is given to the next.
"""

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import timedelta
from http import HTTPStatus
from typing import Final

import structlog
from aiohttp import web

from worker.api.access.authentication import Authenticator
from worker.api.access.authorization import Authorizer, required_access
from worker.api.access.route import WHOLE_PATH, Route
from worker.api.responses.responses import PAGE_NOT_FOUND, Refused, text_response
from worker.node.process.dependencies import NodeDependencies

ANSWERED_WITHIN: Final = timedelta(minutes=5)
"""From the request to the last byte read by the client; streams have no such limit."""
LARGEST_BODY: Final = 64 * 1024
AT_ONCE: Final = 64
"""Limit on concurrent requests; /healthz and streams are not counted."""
STREAMS: Final = 400
OTHER: Final = "other"
_PIECE: Final = 128 * 1024
_BUSY: Final = "too many requests at a time; try again"
_DEFECT: Final = "internal error; see the node's log"
_METHODS: Final = frozenset({"OPTIONS", "GET", "HEAD", "POST", "PUT", "DELETE", "TRACE", "CONNECT"})
_LONG_RUNNING: Final = frozenset({"exec", "attach", "portForward", "debug"})
AiohttpHandler = Callable[[web.Request], Awaitable[web.StreamResponse]]

log = structlog.get_logger(__name__)


class Guard:
    """Authenticates and authorizes requests; absent on the read-only port."""

    def __init__(self, authenticator: Authenticator, authorizer: Authorizer, *, fine_grained: bool) -> None:
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._fine_grained = fine_grained

    async def check(self, request: web.Request, route: Route | None) -> None:
        """Return if the request is allowed; raises Refused."""
        user = await self._authenticator.user(request)
        await self._authorizer.check(user, required_access(request.method, route, fine_grained=self._fine_grained))


class Middleware:
    """Wraps every handler of one port."""

    def __init__(self, node: NodeDependencies, guard: Guard | None) -> None:
        self._node = node
        self._guard = guard
        self._rows: dict[web.AbstractRoute, Route] = {}
        self._places = {False: asyncio.Semaphore(AT_ONCE), True: asyncio.Semaphore(STREAMS)}
        self.busy: Callable[[web.Request], contextlib.AbstractContextManager[None]] = lambda _: contextlib.nullcontext()

    def application(self, routes: Sequence[Route]) -> web.Application:
        """Return an aiohttp application that serves the rows."""

        @web.middleware
        async def wrapped(request: web.Request, handler: AiohttpHandler) -> web.StreamResponse:  # noqa: ARG001 - aiohttp calls it by that name
            return await self._handle(request)

        app = web.Application(middlewares=[wrapped], client_max_size=LARGEST_BODY)
        for row in routes:
            if not self._exists(row):
                continue
            for path in _with_trailing_slash(row.path, routes):
                for method in row.methods:
                    self._rows[app.router.add_route(method, path, self._unreached)] = row
        return app

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one request completely, including writing the response."""
        row = self._rows.get(request.match_info.route)
        limit = None if row is not None and row.long_running else ANSWERED_WITHIN.total_seconds()
        with self.busy(request), self._counted(request, row):
            try:
                async with asyncio.timeout(limit):
                    return await _write_response(request, await self._answer(request, row))
            except TimeoutError:
                raise _abort_connection(request) from None

    async def _answer(self, request: web.Request, row: Route | None) -> web.StreamResponse:
        try:
            if self._guard is not None:
                await self._guard.check(request, row)
            if row is None:
                return _not_found(request)
            _refuse_slashes_in_names(request)
            self._refuse_closed(row)
            async with self._place(row):
                return await row.handler(request, self._node)
        except Refused as refused:
            return _replacement(request, refused.answer())
        except web.HTTPException as answer:  # raised by aiohttp itself: the body is too large
            return _replacement(request, text_response(f"{answer.status}: {answer.reason}", HTTPStatus(answer.status)))
        except (ConnectionError, asyncio.CancelledError, TimeoutError):
            raise
        except Exception:
            log.exception(
                "The node's API failed", path=row.path if row else ""
            )  # not the request's own path: it may hold a command
            return _replacement(request, text_response(_DEFECT, HTTPStatus.INTERNAL_SERVER_ERROR))

    @contextlib.asynccontextmanager
    async def _place(self, row: Route) -> AsyncIterator[None]:
        places = self._places[row.long_running]
        if row.always_answered:
            yield
            return
        if row.long_running and places.locked():
            raise Refused(HTTPStatus.TOO_MANY_REQUESTS, _BUSY)
        async with places:
            yield

    def _counted(self, request: web.Request, row: Route | None) -> contextlib.AbstractContextManager[None]:
        """Count the request with the kubelet's labels (pkg/kubelet/server ServeHTTP)."""
        method = request.method if request.method in _METHODS else OTHER
        path = metrics_path(row)
        read_only = self._guard is None
        return self._node.metrics.request(method, path, read_only=read_only, long_running=path in _LONG_RUNNING)

    def _exists(self, row: Route) -> bool:
        gates = self._node.config.feature_gates
        if row.gate and not gates.enabled(row.gate):
            return False
        closed = self._closed(row)
        return closed != PAGE_NOT_FOUND and (self._guard is not None or row.read_only or bool(closed))

    def _closed(self, row: Route) -> str:
        """Return why a row is disabled; on the read-only port, rows that need debugging are."""
        serving = self._node.cluster.serving
        return row.switch(serving if self._guard is not None else dataclasses.replace(serving, debugging=False))

    def _refuse_closed(self, row: Route) -> None:
        if closed := self._closed(row):
            raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, closed)

    async def _unreached(self, request: web.Request) -> web.StreamResponse:
        raise AssertionError(f"{request.path} bypassed the middleware")


def metrics_path(row: Route | None) -> str:
    """Return the `path` label of a row as the kubelet has it: the first part of the path, two parts for /metrics."""
    parts = row.path.split("/") if row is not None else ["", OTHER]
    return "/".join(parts[1:3]) if parts[1] == "metrics" else parts[1]


async def _write_response(request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
    """Write a response and wait until the client has read all but what fits into buffers.

    In pieces, because asyncio's TLS takes any write as done once it is passed on (sslproto.py _process_outgoing).
    """
    if response.prepared:
        return response
    body = response.body if isinstance(response, web.Response) else None
    if isinstance(body, bytes) and len(body) > _PIECE:
        whole = web.StreamResponse(status=response.status, headers=response.headers)
        whole.content_length = len(body)
        await whole.prepare(request)
        for begin in range(0, len(body), _PIECE):
            await whole.write(body[begin : begin + _PIECE])
        response = whole
    await response.prepare(request)
    await response.write_eof()
    await request.writer.drain()
    return response


def _replacement(request: web.Request, answer: web.Response) -> web.Response:
    """Return the response that replaces the handler's.

    Raises ConnectionResetError if that one has begun, because a client would read two as one.
    """
    if request.writer.output_size:
        raise _abort_connection(request)
    return answer


def _abort_connection(request: web.Request) -> ConnectionResetError:
    """Abort a connection whose response cannot be completed, so that the client notices."""
    if request.transport is not None:
        request.transport.abort()
    return ConnectionResetError("an answer was cut off")


def _with_trailing_slash(path: str, routes: Sequence[Route]) -> Sequence[str]:
    """Return a path, and the same path with a trailing slash unless another row serves that."""
    deeper = f"{path}/{{{WHOLE_PATH}:.*}}"
    return (path,) if path.endswith(":.*}") or any(row.path == deeper for row in routes) else (path, f"{path}/")


def _not_found(request: web.Request) -> web.Response:
    error = request.match_info.http_exception
    if error is not None and error.status == HTTPStatus.METHOD_NOT_ALLOWED:
        return text_response("405: Method Not Allowed", HTTPStatus.METHOD_NOT_ALLOWED)
    return text_response(PAGE_NOT_FOUND, HTTPStatus.NOT_FOUND)


def _refuse_slashes_in_names(request: web.Request) -> None:
    """Refuse a parameter that contains a quoted slash: used as a file name it would be a path."""
    for name, value in request.match_info.items():
        if "\0" in value or ("/" in value and name != WHOLE_PATH):
            raise Refused(HTTPStatus.NOT_FOUND, PAGE_NOT_FOUND)
