"""Does the node's API survive floods of headers, bodies and connections, and clients that are silent, slow or disconnect?"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from aiohttp import web

from tests.waiting import until
from tests.worker.api.node_api import NodeApi, client_context, node_api
from tests.worker.api.open_descriptors import descriptors
from worker.api import listener, middleware, server
from worker.api.access.route import Route
from worker.api.access.timed_cache import TimedCache
from worker.api.routes import ROUTES
from worker.node.process.dependencies import NodeDependencies
from worker.settings.cluster import Authentication, Authorization, Serving

ANYBODY = Authentication(anonymous=True, webhook=False)
OPEN = Serving(authorization=Authorization(always_allow=True))
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Slow:
    """An endpoint that blocks until released, and counts requests and cancellations."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.came = 0
        self.cancelled = 0

    async def handler(self, _: web.Request, __: NodeDependencies) -> web.StreamResponse:
        """Wait."""
        self.came += 1
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return web.Response(text="done")

    @property
    def rows(self) -> tuple[Route, ...]:
        """A short and a long-running row."""
        return (
            Route(path="/slow", handler=self.handler),
            Route(path="/stream", handler=self.handler, long_running=True),
            Route(path="/broken", handler=broken),
            Route(path="/torn", handler=torn),
            Route(path="/large", handler=large),
            *ROUTES,
        )


async def broken(_: web.Request, __: NodeDependencies) -> web.StreamResponse:
    """Fail."""
    raise ValueError("a secret")


async def torn(request: web.Request, _: NodeDependencies) -> web.StreamResponse:
    """Fail after the response has begun."""
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(b"begun")
    raise ValueError("a secret")


async def large(_: web.Request, __: NodeDependencies) -> web.StreamResponse:
    """Send more than all buffers hold."""
    return web.Response(body=b"x" * 64 * 2**20)


@contextlib.asynccontextmanager
async def open_api(folder: Path, slow: Slow | None = None) -> AsyncIterator[NodeApi]:
    """Serve without authentication."""
    async with node_api(folder, serving=OPEN, authentication=ANYBODY, routes=(slow or Slow()).rows) as api:
        yield api


async def connect(api: NodeApi) -> Streams:
    """Open a connection and send nothing."""
    return await asyncio.open_connection("127.0.0.1", api.port, ssl=client_context(), server_hostname="")


async def said(api: NodeApi, request: bytes) -> bytes:
    """Send bytes on a new connection and return everything until it is closed."""
    reader, writer = await connect(api)
    try:
        writer.write(request)
        with contextlib.suppress(ConnectionError):
            return await asyncio.wait_for(reader.read(), 20)
        return b""
    finally:
        writer.transport.abort()


def status(answer: bytes) -> int:
    """Parse the status of a response."""
    return int(answer.split(b" ", 2)[1]) if answer else 0


@pytest.mark.parametrize(
    ("request_text", "wanted"),
    [
        pytest.param(b"GET /pods HTTP/1.1\r\nX: " + b"x" * 100_000 + b"\r\n\r\n", {400, 0}, id="a-header-without-end"),
        pytest.param(
            b"GET /pods HTTP/1.1\r\n" + b"".join(b"X-%d: y\r\n" % one for one in range(5000)) + b"\r\n",
            {400, 0},
            id="headers-without-end",
        ),
        pytest.param(b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n", {400, 0}, id="a-path-without-end"),
        pytest.param(b"no http at all\r\n\r\n", {400}, id="no-http"),
        pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", {400, 505}, id="http-2"),
        pytest.param(
            b"PUT /debug/flags/v HTTP/1.1\r\nHost: n\r\nContent-Length: 10000000000\r\n\r\n" + b"1" * 200_000,
            {413},
            id="a-body-without-end",
        ),
        pytest.param(
            b"PUT /debug/flags/v HTTP/1.1\r\nHost: n\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"4000\r\n" + b"1" * 0x4000 + b"\r\n" + (b"4000\r\n" + b"1" * 0x4000 + b"\r\n") * 8,
            {413},
            id="chunks-without-end",
        ),
        pytest.param(
            b"PUT /debug/flags/v HTTP/1.1\r\nHost: n\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            {400},
            id="two-lengths",
        ),
        pytest.param(
            b"PUT /debug/flags/v HTTP/1.1\r\nHost: n\r\nContent-Length : 1\r\n\r\n1",
            {400},
            id="a-space-before-the-colon",
        ),
        pytest.param(b"GET /%00 HTTP/1.1\r\nHost: n\r\nConnection: close\r\n\r\n", {404}, id="a-zero-byte"),
        pytest.param(
            b"GET /exec/a%2f..%2fb/c/d HTTP/1.1\r\nHost: n\r\nConnection: close\r\n\r\n", {404}, id="a-quoted-path"
        ),
    ],
)
async def test_a_flood_is_refused(
    tmp_path: Path, request_text: bytes, wanted: set[int], caplog: pytest.LogCaptureFixture
) -> None:
    """Without 500 and without a log line, and the API still works."""
    async with open_api(tmp_path) as api:
        assert status(await said(api, request_text)) in wanted
        assert (await api.ask("/healthz")).text == "ok"
    assert not [one for one in caplog.records if one.levelname in {"WARNING", "ERROR"}]


async def test_a_bug_of_ours_tells_nothing(tmp_path: Path) -> None:
    """The client gets a short message, the log the details; a response that had begun is aborted and never complete."""
    async with open_api(tmp_path) as api:
        answer = await api.ask("/broken")
        assert (answer.status, answer.text) == (500, "internal error; see the node's log")
        cut_off = await said(api, b"GET /torn HTTP/1.1\r\nHost: n\r\n\r\n")
        assert b"secret" not in cut_off
        assert not cut_off.endswith(b"0\r\n\r\n")


async def test_silence_ends_a_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No data, an incomplete header, a header one byte at a time: each ends after IDLE."""
    monkeypatch.setattr(server, "IDLE", timedelta(seconds=0.3))
    async with open_api(tmp_path) as api:
        for beginning in (b"", b"GET /pods HTTP/1.1\r\nHost:"):
            assert await said(api, beginning) == b""
        reader, writer = await connect(api)

        async def drip() -> None:
            for _ in range(1000):
                writer.write(b"G" if _ == 0 else b"E")
                await asyncio.sleep(0.02)

        dripping = asyncio.create_task(drip())
        async with asyncio.timeout(10):
            with contextlib.suppress(ConnectionError):
                await reader.read()
        dripping.cancel()
        writer.transport.abort()


async def test_a_handshake_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that connects and sends nothing, or no TLS, keeps no descriptor."""
    async with open_api(tmp_path) as api:
        await api.ask("/healthz")
        before = descriptors()
        monkeypatch.setattr(listener, "HANDSHAKE", timedelta(seconds=0.3))
        for beginning in (b"", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00"):
            reader, writer = await asyncio.open_connection("127.0.0.1", api.port)
            writer.write(beginning)
            async with asyncio.timeout(10):
                with contextlib.suppress(ConnectionError):
                    await reader.read()
            writer.transport.abort()
        await until(lambda: descriptors() <= before)
        monkeypatch.undo()
        assert (await api.ask("/healthz")).text == "ok"


async def test_those_who_only_hold_connections_keep_nobody_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest idle connection is closed; one with a request in progress is not."""
    monkeypatch.setattr(server, "CONNECTIONS", 8)
    slow = Slow()
    async with open_api(tmp_path, slow) as api:
        working = asyncio.create_task(api.ask("/slow"))
        await until(lambda: slow.came == 1)
        holding = [await connect(api) for _ in range(7)]
        for _ in range(20):
            assert (await api.ask("/healthz")).text == "ok"
        gone = [asyncio.create_task(reader.read()) for reader, _ in holding]
        done, _ = await asyncio.wait(gone, timeout=10, return_when=asyncio.FIRST_COMPLETED)
        assert done
        slow.go.set()
        assert (await working).text == "done"
        for task in gone:
            task.cancel()
        for _, writer in holding:
            writer.transport.abort()


async def test_handshakes_count_as_connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unfinished one takes a slot only until HANDSHAKE; further connections are closed, not queued."""
    monkeypatch.setattr(server, "CONNECTIONS", 4)
    monkeypatch.setattr(listener, "HANDSHAKE", timedelta(seconds=1))
    async with open_api(tmp_path) as api:
        before = descriptors()
        silent = [await asyncio.open_connection("127.0.0.1", api.port) for _ in range(20)]
        await asyncio.gather(*(asyncio.wait_for(reader.read(), 10) for reader, _ in silent[4:]), return_exceptions=True)
        assert descriptors() <= before + 20 + 4
        for _, writer in silent:
            writer.transport.abort()
        await until(lambda: descriptors() <= before)
        monkeypatch.undo()
        assert (await api.ask("/healthz")).text == "ok"


async def test_those_who_never_end_a_handshake_keep_nobody_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest handshake is closed long before its timeout; open connections stay."""
    monkeypatch.setattr(server, "CONNECTIONS", 8)
    async with open_api(tmp_path) as api:
        before = descriptors()
        reader, writer = await connect(api)
        silent = [await asyncio.open_connection("127.0.0.1", api.port) for _ in range(30)]
        for _ in range(5):
            assert (await api.ask("/healthz")).text == "ok"
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: n\r\n\r\n")
        assert b"200 OK" in await reader.readline()
        for one in (writer, *(one for _, one in silent)):
            one.transport.abort()
        await until(lambda: descriptors() <= before)


async def test_healthz_is_answered_whatever_else_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When all slots are taken, others wait, streams are refused and healthz is answered."""
    monkeypatch.setattr(middleware, "AT_ONCE", 2)
    monkeypatch.setattr(middleware, "STREAMS", 2)
    slow = Slow()
    async with open_api(tmp_path, slow) as api:
        waiting = [asyncio.create_task(api.ask("/slow")) for _ in range(4)]
        streams = [asyncio.create_task(api.ask("/stream")) for _ in range(2)]
        await until(lambda: slow.came == 4)
        refused = await api.ask("/stream")
        assert (refused.status, refused.text) == (429, "too many requests at a time; try again")
        assert (await api.ask("/healthz")).text == "ok"
        slow.go.set()
        assert {(await one).text for one in (*waiting, *streams)} == {"done"}
        assert (await api.ask("/stream")).text == "done"


async def test_who_leaves_gives_the_place_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred clients that disconnect leave neither tasks nor descriptors."""
    monkeypatch.setattr(middleware, "AT_ONCE", 4)
    slow = Slow()
    async with open_api(tmp_path, slow) as api:
        await api.ask("/healthz")
        before, tasks = descriptors(), len(asyncio.all_tasks())
        clients = [asyncio.create_task(api.ask("/slow")) for _ in range(100)]
        await until(lambda: slow.came == 4)
        for one in clients:
            one.cancel()
        await asyncio.gather(*clients, return_exceptions=True)
        await until(lambda: descriptors() <= before and len(asyncio.all_tasks()) <= tasks)
        assert slow.cancelled == slow.came
        slow.go.set()
        assert (await api.ask("/slow")).text == "done"


async def test_a_client_that_takes_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A response must be read within a time limit; then its slot is free."""
    monkeypatch.setattr(middleware, "ANSWERED_WITHIN", timedelta(seconds=0.5))
    async with open_api(tmp_path) as api:
        reader, writer = await connect(api)
        writer.write(b"GET /large HTTP/1.1\r\nHost: n\r\n\r\n")
        await asyncio.sleep(2)
        taken = 0
        async with asyncio.timeout(10):
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                while chunk := await reader.read(2**20):
                    taken += len(chunk)
        assert taken < 64 * 2**20
        writer.transport.abort()
        monkeypatch.undo()
        assert (await api.ask("/healthz")).text == "ok"


async def test_a_machine_that_is_gone_is_noticed(tmp_path: Path) -> None:
    """By TCP keepalive after seconds, not after the kernel's two hours."""
    found: list[int] = []

    async def look(request: web.Request, _: NodeDependencies) -> web.StreamResponse:
        assert request.transport is not None
        connection = request.transport.get_extra_info("socket")
        found.extend(
            connection.getsockopt(*one)
            for one in ((socket.SOL_SOCKET, socket.SO_KEEPALIVE), (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE))
        )
        return web.Response()

    rows = (Route(path="/look", handler=look),)
    async with node_api(tmp_path, serving=OPEN, authentication=ANYBODY, routes=rows) as api:
        await api.ask("/look")
    assert found == [1, 15]


async def test_pipelined_requests_are_answered_in_order(tmp_path: Path) -> None:
    """Two requests in one packet, the second with Connection: close."""
    async with open_api(tmp_path) as api:
        both = b"GET /healthz HTTP/1.1\r\nHost: n\r\n\r\nGET /none HTTP/1.1\r\nHost: n\r\nConnection: close\r\n\r\n"
        answers = await said(api, both)
        assert answers.index(b"200 OK") < answers.index(b"404 Not Found")


async def test_no_request_makes_a_series_of_metrics_of_its_own(tmp_path: Path) -> None:
    """Methods and paths that nobody serves are counted together, and names in the path of an endpoint are no label."""
    async with open_api(tmp_path) as api:

        async def series() -> int:
            text = (await api.ask("/metrics")).text
            return sum(line.startswith("kubelet_http_requests_total") for line in text.splitlines())

        async def ask_for(name: str) -> None:
            for request in (f"X{name} /healthz", f"GET /{name}", f"GET /containerLogs/{name}/{name}/{name}"):
                await said(api, f"{request} HTTP/1.1\r\nHost: n\r\nConnection: close\r\n\r\n".encode())

        await ask_for("first")
        before = await series()
        for number in range(20):
            await ask_for(f"n{number}")
        assert await series() == before > 0


async def test_answers_are_kept_within_bounds() -> None:
    """A flood of tokens evicts the oldest entries; expired ones are requested again."""
    now = 0.0
    kept: TimedCache[int] = TimedCache(10, lambda: now)
    asked = 0

    async def ask() -> tuple[int, timedelta]:
        nonlocal asked
        asked += 1
        return asked, timedelta(seconds=5)

    for one in range(1000):
        await kept.get(one, ask)
    assert len(kept) == 10
    assert await kept.get(999, ask) == 1000
    now = 6.0
    assert await kept.get(999, ask) == 1001
