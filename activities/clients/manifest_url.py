"""Reads the manifests behind a URL: bytes, or why there are none.

Used by the poller's `url_source` (pkg/kubelet/config/http.go). Headers and the query may hold credentials and are never
logged. The server may be anyone's, so it is read in a thread, with one limit of time and one of bytes for the whole
exchange, redirects included. The standard library's client reads a line at a time and so lets the event loop run;
aiohttp parses all that has arrived at once, which holds it for a tenth of a second, and needs 25 MB. A thread that reads
without a pause would keep Python's lock, though: each read gives the lock away and takes it back before the loop wakes,
and whoever waits for the lock begins to wait anew. So the reads are large, and a pause comes before each.
"""

import asyncio
import base64
import contextlib
import http.client
import io
import socket
import ssl
import urllib.request
from collections.abc import Sequence
from datetime import timedelta
from http import HTTPStatus
from time import monotonic, sleep
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit, urlunsplit

LIMIT: Final = timedelta(seconds=10)
_BESIDE_BODY: Final = 1024 * 1024
"""Bytes of heads, and of the lengths of chunks."""
_CHUNK: Final = 64 * 1024
_PAUSE: Final = 0.0005
"""Seconds before each read: long enough for the event loop to take Python's lock, 0.1 s for the largest answer."""
_REASON_SHOWN: Final = 80
_FOR_ONE_HOST: Final = frozenset({"authorization", "cookie", "www-authenticate"})
"""Headers that are not sent to the host of a redirect (Go's shouldCopyHeaderOnRedirect)."""


class ManifestsUnreadable(Exception):
    """The URL gave nothing readable; the message says why."""


class ManifestUrl:
    """A URL and the headers to send."""

    def __init__(
        self, url: str, headers: Sequence[tuple[str, str]], *, most_bytes: int, limit: timedelta = LIMIT
    ) -> None:
        self._url, self._headers = _without_login(url)
        for name, value in headers:
            self._headers[name] = f"{self._headers[name]}, {value}" if name in self._headers else value
        self._most, self._limit = most_bytes, limit.total_seconds()
        self._context: ssl.SSLContext | None = None

    async def read(self) -> bytes:
        """Read the URL; raises ManifestsUnreadable."""
        exchange = _Exchange(self._limit, self._most + _BESIDE_BODY)
        try:
            async with asyncio.timeout(self._limit):
                return await asyncio.to_thread(self._read, exchange)
        except HTTPError as error:
            raise ManifestsUnreadable(f"{error.code} {error.reason[:_REASON_SHOWN]}".strip()) from None
        except TimeoutError:
            raise ManifestsUnreadable(f"no answer within {self._limit:g} s") from None
        except URLError as error:
            why = error.reason if isinstance(error.reason, Exception) else error
            raise ManifestsUnreadable(type(why).__name__) from None  # the message may repeat the URL
        except (http.client.HTTPException, OSError, ValueError) as error:
            raise ManifestsUnreadable(type(error).__name__) from None
        finally:
            exchange.end()

    def _read(self, exchange: "_Exchange") -> bytes:
        request = urllib.request.Request(self._url, headers=self._headers)  # noqa: S310 - the opener has http and https only
        with _opener(exchange, self._tls()).open(request, timeout=self._limit) as response:
            if response.status != HTTPStatus.OK:
                raise ManifestsUnreadable(f"{response.status} {response.reason[:_REASON_SHOWN]}".strip())
            found = bytearray()
            while chunk := response.read1(_CHUNK):
                found += chunk
                if len(found) > self._most:
                    raise ManifestsUnreadable(f"the answer has more than {self._most} bytes")
            return bytes(found)

    def _tls(self) -> ssl.SSLContext | None:
        """Create the TLS context with the system's CAs only if the URL needs it: it takes 2.5 MB."""
        if self._url.startswith("https:") and self._context is None:
            self._context = ssl.create_default_context()
        return self._context


class _Exchange:
    """One request and all its redirects: what it may still read, and until when."""

    def __init__(self, seconds: float, most_bytes: int) -> None:
        self._deadline, self._left = monotonic() + seconds, most_bytes
        self._sockets: list[socket.socket] = []

    def bound(self, connection: socket.socket) -> "_BoundSocket":
        """Let a connection be read within the limits only."""
        self._sockets.append(connection)
        return _BoundSocket(connection, self)

    def wait_at_most(self) -> float:
        """Return the seconds that are left; raises TimeoutError."""
        if (left := self._deadline - monotonic()) <= 0:
            raise TimeoutError
        return left

    def spend(self, count: int) -> None:
        """Count bytes that were read; raises HTTPException."""
        self._left -= count
        if self._left < 0:
            raise http.client.HTTPException("too many bytes")

    def end(self) -> None:
        """Wake a thread that still reads; nobody waits for it any more."""
        self._deadline = 0.0
        for one in self._sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


class _BoundSocket:
    """A connected socket whose reader keeps an exchange's limits."""

    def __init__(self, connection: socket.socket, exchange: _Exchange) -> None:
        self._connection, self._exchange = connection, exchange

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def makefile(self, _mode: str) -> io.BufferedReader:
        """Open it for reading."""
        return io.BufferedReader(_BoundReader(self._connection, self._exchange), _CHUNK)


class _BoundReader(io.RawIOBase):
    """Reads a socket."""

    def __init__(self, connection: socket.socket, exchange: _Exchange) -> None:
        self._connection, self._exchange = connection, exchange
        self._file = connection.makefile("rb", buffering=0)  # keeps the socket open while it is read

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Read what has arrived."""
        sleep(_PAUSE)
        self._connection.settimeout(self._exchange.wait_at_most())
        count = self._file.readinto(buffer)
        self._exchange.spend(count or 0)
        return count

    def close(self) -> None:
        """Close the socket."""
        self._file.close()
        super().close()


class _PlainConnection(http.client.HTTPConnection):
    exchange: _Exchange

    def connect(self) -> None:
        """Connect within the limits."""
        super().connect()
        self.sock = self.exchange.bound(self.sock)


class _SecureConnection(http.client.HTTPSConnection):
    exchange: _Exchange

    def connect(self) -> None:
        """Connect within the limits."""
        super().connect()
        self.sock = self.exchange.bound(self.sock)


class _Plain(urllib.request.HTTPHandler):
    def __init__(self, exchange: _Exchange) -> None:
        super().__init__()
        self._exchange = exchange

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """Open a URL."""
        return self.do_open(_of(_PlainConnection, self._exchange), req)


class _Secure(urllib.request.HTTPSHandler):
    def __init__(self, exchange: _Exchange, context: ssl.SSLContext | None) -> None:
        super().__init__(context=context)
        self._exchange, self._tls = exchange, context

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """Open a URL."""
        return self.do_open(_of(_SecureConnection, self._exchange), req, context=self._tls)


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows ten redirects, as Go's client does; another host gets no credentials."""

    def redirect_request(self, req: urllib.request.Request, *told: Any) -> urllib.request.Request | None:
        """Return the request for the new place."""
        onward = super().redirect_request(req, *told)
        if onward is not None and urlsplit(onward.full_url).hostname != urlsplit(req.full_url).hostname:
            onward.headers = {name: one for name, one in onward.headers.items() if name.lower() not in _FOR_ONE_HOST}
        return onward


def _opener(exchange: _Exchange, tls: ssl.SSLContext | None) -> urllib.request.OpenerDirector:
    """Return an opener without urllib's other schemes: a redirect could name one."""
    opener = urllib.request.OpenerDirector()
    handlers: list[urllib.request.BaseHandler] = [
        urllib.request.ProxyHandler(),
        urllib.request.UnknownHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        _Plain(exchange),
        _Secure(exchange, tls),
        _Redirects(),
    ]
    for one in handlers:
        opener.add_handler(one)
    return opener


def _of(kind: type[Any], exchange: _Exchange) -> Any:
    """Return a class of connections that belong to an exchange: urllib makes them itself."""
    return type(kind.__name__, (kind,), {"exchange": exchange})


def _without_login(url: str) -> tuple[str, dict[str, str]]:
    """Take user and password out of a URL, and return the header that sends them."""
    parts = urlsplit(url)
    login, _, host = parts.netloc.rpartition("@")
    if not login:
        return url, {}
    user, _, password = login.partition(":")
    encoded = base64.b64encode(f"{unquote(user)}:{unquote(password)}".encode()).decode()
    return urlunsplit(parts._replace(netloc=host)), {"Authorization": f"Basic {encoded}"}
