"""A small HTTP server for worker and poller: /healthz, /metrics, and the UI's decode.

It uses http.server in threads instead of aiohttp, which would cost 10 MB more in each process (measured; prometheus_client
loads http.server anyway). A response from another thread can also report that the event loop is stuck. Requests are few, small
and local; the node's API on 10250 uses aiohttp.
"""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import structlog

LARGEST_BODY: Final = 8 * 1024 * 1024  # a gRPC message of Temporal (4 MB) in base64, with some margin
_CONNECTIONS: Final = 32  # a browser opens six
_IDLE_SECONDS: Final = 15.0
_WAKE_SECONDS: Final = 3600.0  # http.server's poll interval for shutdown, by default 0.5 s; close() wakes it instead
_HEALTH_LIMIT: Final = 2.0  # seconds for the loop to answer; the kubelet's probes of 10248 wait longer
_TEXT: Final = "text/plain; charset=utf-8"

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Request:
    """A request to a route."""

    method: str
    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Answer:
    """A route's response."""

    status: int = HTTPStatus.OK
    body: bytes = b""
    content_type: str = _TEXT
    headers: Mapping[str, str] = field(default_factory=dict)


Route = Callable[[Request], Answer]
"""Called in a thread of the server, never on the event loop."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where an endpoint listens."""

    host: str
    port: int
    """0 selects a free port."""

    @property
    def loopback(self) -> bool:
        """Report whether only this machine can reach it."""
        return self.host == "localhost" or ip_address(self.host).is_loopback

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Parse `host:port` or `[v6]:port`; raises ValueError with the expected form."""
        try:
            parts = urlsplit(f"//{text}")
            host, port = parts.hostname or "", parts.port
            good = host == "localhost" or bool(ip_address(host))
        except ValueError:
            good = False
        if not good or port is None:
            raise ValueError(f"{text!r} is no address to listen on: expected an IP address and a port, 127.0.0.1:10248")
        return cls(host, port)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Endpoint:
    """One listening address and its routes, by path."""

    def __init__(self, address: Address | Path, routes: Mapping[str, Route]) -> None:
        self._server = _Server(address, routes)
        self._path = address if isinstance(address, Path) else None
        self.address = Address("" if isinstance(address, Path) else address.host, self._server.server_port)
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            args=(_WAKE_SECONDS,),
            name=f"http {self._path or self.address}",
            daemon=True,
        )

    def start(self) -> "Endpoint":
        """Start serving."""
        self._thread.start()
        return self

    def close(self) -> None:
        """Stop serving and release the port; a request in progress is cut off."""
        if self._thread.is_alive():
            self._server.socket.shutdown(socket.SHUT_RDWR)  # wakes the thread
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)


def healthz(check: Callable[[], Awaitable[str]], loop: asyncio.AbstractEventLoop) -> Route:
    """Return the route that answers `ok`, or 500 with the reason from `check` or that the loop is stuck.

    `check` runs on the loop and returns "" if all is well.
    """

    async def ask() -> str:
        return await check()

    def answer(_: Request) -> Answer:
        try:
            reason = asyncio.run_coroutine_threadsafe(ask(), loop).result(_HEALTH_LIMIT)
        except TimeoutError:
            reason = f"the event loop has not answered for {_HEALTH_LIMIT:.0f} s"
        except Exception as error:  # noqa: BLE001 - a check that fails is an answer too
            reason = f"{type(error).__name__}: {error}"
        if reason:
            return Answer(HTTPStatus.INTERNAL_SERVER_ERROR, reason.encode())
        return Answer(body=b"ok")

    return answer


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, address: Address | Path, routes: Mapping[str, Route]) -> None:
        self.routes = routes
        self._places = threading.BoundedSemaphore(_CONNECTIONS)
        try:
            if isinstance(address, Path):
                self.address_family = socket.AF_UNIX
                address.unlink(missing_ok=True)  # of a killed process: the caller holds the node's lock
                super().__init__(str(address), _Handler)  # type: ignore[arg-type] # as socketserver's own unix server
            else:
                self.address_family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
                super().__init__((address.host, address.port), _Handler)
        except OSError as error:
            raise OSError(error.errno, f"{address}: {error.strerror}") from error

    def server_bind(self) -> None:
        """Bind without http.server's lookup of the host name, which queries DNS."""
        if self.address_family == socket.AF_UNIX:
            self._bind_path(str(self.server_address))
            return
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def _bind_path(self, path: str) -> None:
        """Bind a socket that only root can connect to, also before its mode is set: its folder is root's."""
        self.socket.bind(path)
        Path(path).chmod(0o600)
        self.server_name, self.server_port = path, 0

    def process_request(self, request: Any, client_address: Any) -> None:
        """Close a connection over the limit instead of starting another thread."""
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve one connection, then release its slot."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - http.server's signature
        """Log it; a client that disconnected is not an error."""
        log.debug("HTTP connection ended", client=str(client_address), exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = _IDLE_SECONDS
    server: _Server

    def do_GET(self) -> None:
        self._answer()

    do_POST = do_OPTIONS = do_HEAD = do_GET  # noqa: N815 - http.server's names

    def _answer(self) -> None:
        path = urlsplit(self.path).path
        route = self.server.routes.get(path)
        body = self._body()
        if body is None:
            answer = Answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {LARGEST_BODY} bytes".encode())
            self.close_connection = True
        elif route is None:
            answer = Answer(HTTPStatus.NOT_FOUND, b"not found")
        else:
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = self._ask(route, Request(self.command, path, headers, body))
        with contextlib.suppress(ConnectionError):
            self._send(answer)

    def _ask(self, route: Route, request: Request) -> Answer:
        try:
            return route(request)
        except Exception:
            log.exception("HTTP route failed", method=request.method)  # without the path: it may contain a token
            return Answer(HTTPStatus.INTERNAL_SERVER_ERROR, b"internal error; see the log")

    def _body(self) -> bytes | None:
        """Read the body; None if it is too long or has no length."""
        length = self.headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > LARGEST_BODY or "transfer-encoding" in self.headers:
            return None
        return self.rfile.read(int(length))

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def version_string(self) -> str:
        """Omit versions."""
        return "tempolet"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - http.server's signature
        """Log nothing: the path may contain a token."""
