"""The node's HTTPS server.

A part of the node process. Each request is authenticated, authorized for what its row in `routes` requires, and passed to its
handler. A path without a row is authorized as well, so that answers do not reveal which paths exist. HTTP/1.1 only: the API server and
metrics-server use it to reach a node, and upgraded connections need it.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from functools import partial
from typing import Final

import structlog
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from worker.api.access.authentication import Authenticator, check_authentication
from worker.api.access.authorization import Authorizer
from worker.api.access.route import Route
from worker.api.access.serving_certificate import serving_pair
from worker.api.access.tls import ReloadingContext, check_tls
from worker.api.listener import Listener
from worker.api.middleware import Guard, Middleware
from worker.api.routes import ROUTES
from worker.daemon.background import in_background
from worker.node.process.dependencies import NodeDependencies

IDLE: Final = timedelta(seconds=90)
"""For a connection without a request or with an incomplete header; the kubelet's IdleTimeout."""
LARGEST_FIELD: Final = 16 * 1024
"""Bytes of the request line and of one header."""
MOST_HEADERS: Final = 64
LINGERING: Final = timedelta(seconds=1)
"""How long the rest of a refused body is read, for a client that sends all before it reads."""
CONNECTIONS: Final = 512
CERTIFICATES_CHECKED_EVERY: Final = timedelta(seconds=5)
"""How often certificate files are checked for changes."""


log = structlog.get_logger(__name__)


async def serve_api(node: NodeDependencies) -> None:
    """Serve until cancelled; raises ConfigurationRefused, and OSError if the port is taken."""
    serving = node.cluster.serving
    async with contextlib.AsyncExitStack() as stack:
        if serving.enabled:
            check_tls(serving)
            check_authentication(serving.authentication)
            port = await stack.enter_async_context(open_server(node))
            log.info("Serving the node's API", address=serving.address, port=port)
        if serving.enabled and serving.read_only_port:
            await stack.enter_async_context(open_read_only(node))
            log.info("Serving the read-only API", address=serving.address, port=serving.read_only_port)
        await asyncio.Event().wait()


@contextlib.asynccontextmanager
async def open_server(node: NodeDependencies, routes: Sequence[Route] = ROUTES) -> AsyncIterator[int]:
    """Serve HTTPS while the block runs; yields the port."""
    serving = node.cluster.serving
    tls_context = ReloadingContext(serving, partial(serving_pair, node.cluster, node.config.node_name))
    await asyncio.to_thread(tls_context.refresh)
    guard = Guard(
        Authenticator(node.api, serving.authentication),
        Authorizer(node.api, serving.authorization, node.config.node_name),
        fine_grained=node.config.feature_gates.enabled("KubeletFineGrainedAuthz"),
    )
    async with _served(node, routes, guard, tls_context) as (listener, port):
        looking = partial(_reload_certificates, tls_context, listener)
        async with in_background("certificates of the node's API", looking):
            yield port


@contextlib.asynccontextmanager
async def open_read_only(node: NodeDependencies, routes: Sequence[Route] = ROUTES) -> AsyncIterator[int]:
    """Serve the read-only rows in clear text and without credentials; yields the port (the kubelet's readOnlyPort)."""
    async with _served(node, routes, None, None) as (_, port):
        yield port


@contextlib.asynccontextmanager
async def _served(
    node: NodeDependencies, routes: Sequence[Route], guard: Guard | None, tls_context: ReloadingContext | None
) -> AsyncIterator[tuple[Listener, int]]:
    serving = node.cluster.serving
    middleware = Middleware(node, guard)
    app = middleware.application(routes)
    runner = web.AppRunner(
        app,
        handle_signals=False,
        access_log=None,
        keepalive_timeout=IDLE.total_seconds(),
        lingering_time=LINGERING.total_seconds(),
        max_line_size=LARGEST_FIELD,
        max_headers=MOST_HEADERS,
        max_field_size=LARGEST_FIELD,
        handler_cancellation=True,
        shutdown_timeout=1,
        auto_decompress=False,
        logger=_protocol_log(),
    )
    await runner.setup()
    assert runner.server is not None
    listener = Listener(runner.server, (lambda: tls_context.context) if tls_context else None, most=CONNECTIONS)
    middleware.busy = listener.busy
    port = serving.port if guard else serving.read_only_port
    try:
        async with listener.listening(serving.address, port) as bound:
            yield listener, bound
    finally:
        await runner.cleanup()


def _protocol_log() -> logging.Logger:
    """Return a logger for aiohttp that drops malformed HTTP: any client may send it, and each would log a stack trace."""
    found = logging.getLogger("aiohttp.server.node")
    if not found.filters:
        found.addFilter(_is_well_formed)
    return found


def _is_well_formed(record: logging.LogRecord) -> bool:
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


async def _reload_certificates(tls_context: ReloadingContext, listener: Listener) -> None:
    while True:
        await asyncio.sleep(CERTIFICATES_CHECKED_EVERY.total_seconds())
        if await asyncio.to_thread(tls_context.refresh):
            listener.close_all()  # clients that the previous CA admitted must reconnect and be verified by the new one
