"""One call to the Kubernetes API server: JSON in, JSON out, errors sorted by what the caller may do.

Used by poller, worker and node. Objects are plain JSON, because histories keep objects unchanged and a patch must
contain only the fields that it changes. `ApiAway` passes with time; `ApiRefused` carries the API's status, reason and
message.
"""

import asyncio
import json
import socket
import time
from asyncio import sslproto
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from typing import Any, Final, Self
from urllib.parse import urlencode, urlsplit

import aiohttp

from activities.clients.api_server.connection_errors import authentication_error, not_connected
from activities.clients.api_server.errors import ApiAway, ApiRefused
from activities.clients.api_server.exec_credential import ExecCredential, ExecCredentials, ExecFailed
from activities.clients.api_server.kubeconfig import Kubeconfig, KubeconfigRefused

__all__ = (
    "CALL_LIMIT",
    "MERGE_PATCH",
    "STRATEGIC_PATCH",
    "ApiAway",
    "ApiRefused",
    "ApiServer",
    "Content",
    "Json",
)

CALL_LIMIT: Final = timedelta(seconds=10)
"""Of a call that is not a watch; the kubelet's limit for node status, leases and webhooks."""
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
LARGEST_LINE: Final = 64 * 2**20
"""Bytes of one watch event; etcd limits an object to 1.5 MiB, its JSON may be longer."""

_TLS_BUFFER: Final = 32 * 1024
sslproto.SSLProtocol.max_size = _TLS_BUFFER
"""Bytes of the read buffer that each TLS connection keeps for its life.

asyncio's own has 256 KiB, and a node watches each Secret and ConfigMap of its pods on a connection of its own. A TLS
record has at most 16 KiB.
"""

_SILENT: Final = 30
"""Seconds without a byte after which TCP probes the other end of a connection."""
_ASK_EVERY: Final = 10
_ASK_TIMES: Final = 3

Json = dict[str, Any]
Measure = Callable[[str, str, int | None, float], None]
"""Called with the method, the server's host and port, the status (None: no answer) and the duration in seconds."""


@dataclass(frozen=True, slots=True)
class Content:
    """The body of a request."""

    body: Any
    kind: str = "application/json"

    def encoded(self) -> bytes:
        """Encode it as JSON."""
        return json.dumps(self.body, separators=(",", ":")).encode()


class ApiServer:
    """One process's connection to the API server; use it from one event loop."""

    def __init__(self, kubeconfig: Kubeconfig, *, user_agent: str = "tempolet") -> None:
        self._kubeconfig = kubeconfig
        self._agent = user_agent
        self.measure: Measure | None = None
        """Counts requests; set by the process that exports metrics."""
        self._session: aiohttp.ClientSession | None = None
        self._stamp: object = None
        self._connecting = asyncio.Lock()
        self._credentials = ExecCredentials(kubeconfig.program) if kubeconfig.program else None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def server(self) -> str:
        """The server's address, for messages."""
        return self._kubeconfig.server

    async def get(self, path: str, **query: str) -> Json:
        """Read one object."""
        return await self.call("GET", path, query=query)

    async def create(self, path: str, body: Mapping[str, Any]) -> Json:
        """Create an object in a collection, or a subresource (a token, a binding, a review)."""
        return await self.call("POST", path, content=Content(body))

    async def replace(self, path: str, body: Mapping[str, Any]) -> Json:
        """Replace an object; a resourceVersion that is given must be the newest."""
        return await self.call("PUT", path, content=Content(body))

    async def patch(self, path: str, body: Any, *, kind: str = STRATEGIC_PATCH) -> Json:
        """Change the fields that the patch names."""
        return await self.call("PATCH", path, content=Content(body, kind))

    async def delete(self, path: str, options: Mapping[str, Any] | None = None) -> Json:
        """Delete an object; `options` are DeleteOptions (gracePeriodSeconds, preconditions …)."""
        return await self.call("DELETE", path, content=Content(options) if options else None)

    async def call(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, content: Content | None = None
    ) -> Json:
        """Make a call and return the JSON of its answer; raises ApiAway and ApiRefused."""
        timeout = aiohttp.ClientTimeout(total=CALL_LIMIT.total_seconds())
        async with self._request(method, _target(path, query), timeout, content) as response:
            answer = await response.read()
        return _decoded(answer)

    async def watch(self, path: str, *, seconds: int, **query: str) -> AsyncIterator[Json]:
        """Yield the events of a watch, `{"type": …, "object": …}`, until the server ends it after `seconds`.

        Raises ApiAway when the connection breaks, ApiRefused for an ERROR event (if `gone`, a new list is needed).
        """
        query = {**query, "watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(seconds)}
        timeout = aiohttp.ClientTimeout(total=seconds + 30, sock_connect=CALL_LIMIT.total_seconds())
        async with self._request("GET", _target(path, query), timeout) as response:
            buffer = bytearray()
            async for chunk in response.content.iter_any():
                buffer += chunk
                if len(buffer) > LARGEST_LINE:
                    raise ApiAway(f"an event of more than {LARGEST_LINE} bytes from {path}")
                while (end := buffer.find(b"\n")) >= 0:
                    event = _decoded(bytes(buffer[:end]))
                    del buffer[: end + 1]
                    if event.get("type") == "ERROR":
                        raise _refusal(HTTPStatus.INTERNAL_SERVER_ERROR, event.get("object") or {})
                    yield event

    async def close(self) -> None:
        """Close all connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    @asynccontextmanager
    async def _request(
        self, method: str, target: str, timeout: aiohttp.ClientTimeout, content: Content | None = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        headers = {"Accept": "application/json"} | ({"Content-Type": content.kind} if content else {})
        start, code = time.perf_counter(), None
        try:
            credential = await self._credentials.current() if self._credentials else None
            session = await self._connected(credential)
            async with session.request(
                method,
                f"{self._kubeconfig.server}{target}",
                data=content.encoded() if content else None,
                headers=headers | self._kubeconfig.headers(credential),
                timeout=timeout,
                server_hostname=self._kubeconfig.server_name or None,
            ) as response:
                code = response.status
                self._count(method, code, time.perf_counter() - start)
                if response.status >= HTTPStatus.BAD_REQUEST:
                    if response.status == HTTPStatus.UNAUTHORIZED and self._credentials and credential:
                        self._credentials.refused(credential)
                    raise _trouble(response, await response.read(), self._kubeconfig)
                yield response
        except (KubeconfigRefused, ExecFailed) as error:
            raise ApiAway(f"{method} {target}: {error}") from error
        except (
            aiohttp.ClientError,
            TimeoutError,
            OSError,
            RuntimeError,
        ) as error:  # RuntimeError: the session was closed by a rotation
            if code is None:
                self._count(method, None, time.perf_counter() - start)
            raise ApiAway(f"{method} {target}: {not_connected(error, self._kubeconfig)}") from error

    def _count(self, method: str, code: int | None, seconds: float) -> None:
        if self.measure is not None:
            self.measure(method, urlsplit(self._kubeconfig.server).netloc, code, seconds)

    async def _connected(self, credential: ExecCredential | None) -> aiohttp.ClientSession:
        """Return the session; a new one when a credential has changed, which closes the old session's connections."""
        async with self._connecting:
            stamp = (self._kubeconfig.stamp, credential.certificate if credential else b"")
            if self._session is not None and stamp == self._stamp:
                return self._session
            context = await asyncio.to_thread(self._kubeconfig.tls, credential)
            await self.close()
            self._stamp = stamp
            connector = aiohttp.TCPConnector(
                ssl=context, limit=0, limit_per_host=0, ttl_dns_cache=10, socket_factory=_socket
            )
            self._session = aiohttp.ClientSession(connector=connector, headers={"User-Agent": self._agent})
            return self._session


def _socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """Make a connection's socket, with TCP keepalive.

    A watch only reads, and would not notice for minutes that the other machine is gone. After a fail-over, another
    machine behind the same address resets the connection when it is probed (the kubelet uses HTTP/2 pings:
    apimachinery pkg/util/net/http.go).
    """
    made = socket.socket(address[0], address[1], address[2])
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _SILENT)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _ASK_EVERY)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _ASK_TIMES)
    return made


def _target(path: str, query: Mapping[str, str] | None) -> str:
    return f"{path}?{urlencode(query)}" if query else path


def _decoded(data: bytes) -> Json:
    try:
        found = json.loads(data) if data else {}
    except ValueError as error:
        raise ApiAway(f"the answer is not JSON: {data[:100]!r}") from error
    return found if isinstance(found, dict) else {"": found}


def _trouble(response: aiohttp.ClientResponse, body: bytes, kubeconfig: Kubeconfig) -> ApiAway | ApiRefused:
    try:
        said = json.loads(body)
    except ValueError:
        said = {}
    said = said if isinstance(said, dict) else {}
    message = said.get("message") or body[:200].decode("utf-8", "replace") or response.reason or ""
    if response.status == HTTPStatus.TOO_MANY_REQUESTS or response.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        seconds = response.headers.get("Retry-After", "")
        wait = timedelta(seconds=int(seconds)) if seconds.isdecimal() else None
        return ApiAway(f"{response.status} {message}", wait, response.status)
    if response.status == HTTPStatus.UNAUTHORIZED:
        message = f"{message}: {authentication_error(kubeconfig)}"
    return ApiRefused(response.status, said.get("reason") or "", message)


def _refusal(status: int, said: Mapping[str, Any]) -> ApiAway | ApiRefused:
    code = int(said.get("code") or status)
    refused = ApiRefused(code, said.get("reason") or "", said.get("message") or "")
    return refused if refused.gone or code < HTTPStatus.INTERNAL_SERVER_ERROR else ApiAway(f"{code} {refused}")
