"""Is an upgraded connection relayed to the runtime's streaming server byte for byte, and does nothing of it remain?"""

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from aiohttp import web
from multidict import CIMultiDict

from tests.cluster.certificates import Signed
from tests.patience import PATIENCE
from tests.waiting import until
from tests.worker.api.open_descriptors import descriptors
from tests.worker.api.streams.streaming_ends import SWITCHED, Script, Served, StreamingServer
from worker.api.streams import relay
from worker.api.streams.upgrade_proxy import forwarded_headers, proxy_upgrade

FOREVER = timedelta()
BEARER = "base64url.bearer.authorization.k8s.io.c2VjcmV0"
MIB = 1 << 20


@contextlib.asynccontextmanager
async def led_to(
    script: Script, certificate: Signed, idle: timedelta = FOREVER
) -> AsyncIterator[tuple[Served, StreamingServer]]:
    """Serve an API that connects every request to a streaming server with this script."""
    async with StreamingServer(script).serving() as runtime:

        async def handler(request: web.Request) -> web.StreamResponse:
            return await proxy_upgrade(request, runtime.url, idle)

        async with Served(certificate).serving(handler) as api:
            yield api, runtime


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Upgrade, then echo everything."""
    writer.write(SWITCHED)
    while data := await reader.read(MIB):
        writer.write(data)
        await writer.drain()


async def test_bytes_pass_both_ways_in_order(node_certificate: Signed) -> None:
    """More than all buffers on the way hold."""
    sent = os.urandom(4 * MIB)
    async with led_to(echo, node_certificate) as (api, _):
        reader, writer, head = await api.upgraded()
        assert head == SWITCHED
        writer.write(sent)
        assert await asyncio.wait_for(reader.readexactly(len(sent)), PATIENCE) == sent
        writer.close()


async def test_bytes_that_come_with_the_answer_pass(node_certificate: Signed) -> None:
    """The runtime need not wait before it sends."""

    async def eager(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(SWITCHED + b"at once")
        await reader.read()

    async with led_to(eager, node_certificate) as (api, _):
        reader, writer, _ = await api.upgraded()
        assert await asyncio.wait_for(reader.readexactly(7), PATIENCE) == b"at once"
        writer.close()


async def test_the_last_words_of_the_runtime_arrive(node_certificate: Signed) -> None:
    """What it sent before it closed is read completely, however slowly."""

    async def say_and_go(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(SWITCHED + b"x" * (3 * MIB))
        await writer.drain()

    async with led_to(say_and_go, node_certificate) as (api, _):
        reader, writer, _ = await api.upgraded()
        await asyncio.sleep(0.2)  # the runtime has closed before the client reads
        assert len(await asyncio.wait_for(reader.read(-1), PATIENCE)) == 3 * MIB
        writer.close()


@pytest.mark.parametrize("hard", [pytest.param(False, id="kindly"), pytest.param(True, id="by-reset")])
async def test_a_client_that_goes_ends_the_runtimes_side(node_certificate: Signed, hard: bool) -> None:
    """The runtime then ends the command's streams."""
    async with led_to(echo, node_certificate) as (api, runtime):
        _, writer, _ = await api.upgraded()
        if hard:
            kill(writer)
        else:
            writer.close()
        await asyncio.wait_for(runtime.ended[0].wait(), PATIENCE)
        await no_connections(api)


async def test_only_what_names_a_protocol_goes_to_the_runtime(node_certificate: Signed) -> None:
    """Neither a token nor the path of the request."""
    headers = ["X-Stream-Protocol-Version: v5.channel.k8s.io", "X-Stream-Protocol-Version: v4.channel.k8s.io"]
    async with led_to(echo, node_certificate) as (api, runtime):
        _, writer, _ = await api.upgraded(
            "/exec/ns/pod/c?command=secret", "SPDY/3.1", "Authorization: Bearer t0ken", *headers
        )
        writer.close()
    assert runtime.requests[0].decode().split("\r\n") == [
        "POST /exec/token HTTP/1.1",
        runtime.url.removesuffix("/exec/token").replace("http://", "Host: "),
        "Connection: Upgrade",
        "Upgrade: SPDY/3.1",
        *headers,
        "Content-Length: 0",
        "",
        "",
    ]


async def answer_of(reader: asyncio.StreamReader, head: bytes) -> tuple[int, str]:
    """Read a refusal: its status and text."""
    length = next(int(line[15:]) for line in head.decode().splitlines() if line.lower().startswith("content-length:"))
    return int(head.split()[1]), (await asyncio.wait_for(reader.readexactly(length), PATIENCE)).decode()


@pytest.mark.parametrize(
    ("said", "status", "text", "header"),
    [
        pytest.param(
            "HTTP/1.1 404 Not Found\r\nContent-Length: 19\r\n\r\n404 page not found\n",
            404, "404 page not found\n", "", id="a-url-that-was-used",
        ),
        pytest.param(
            "HTTP/1.1 403 Forbidden\r\nX-Accepted-Stream-Protocol-Versions: v4\r\nX-Other: o\r\nContent-Length: 2\r\n\r\nno",
            403, "no", "X-Accepted-Stream-Protocol-Versions: v4", id="no-protocol-in-common",
        ),
        pytest.param("HTTP/1.1 404 Not Found\r\nContent-Length: 99\r\n\r\nshort", 404, "short", "", id="less-than-told"),
        pytest.param(
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            502, "invalid upgrade response: status code 200", "", id="an-answer-that-is-no-upgrade",
        ),
        pytest.param(
            "SSH-2.0-OpenSSH_9\r\n\r\n",
            502, "the runtime's streaming server: it does not answer in HTTP", "", id="no-http",
        ),
        pytest.param(
            "", 502, "the runtime's streaming server: it closed the connection: without an answer", "", id="nothing"
        ),
    ],
)  # fmt: skip
async def test_what_the_runtime_says_instead_is_told(
    node_certificate: Signed, said: str, status: int, text: str, header: str
) -> None:
    """With its status and message, and the headers that help the client."""

    async def refuse(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(said.encode())
        await writer.drain()

    async with led_to(refuse, node_certificate) as (api, runtime):
        reader, writer, head = await api.upgraded()
        assert await answer_of(reader, head) == (status, text)
        assert header in head.decode()
        assert "X-Other" not in head.decode()
        writer.close()
        await asyncio.wait_for(runtime.ended[0].wait(), PATIENCE)


async def test_a_refused_upgrade_leaves_no_way_to_the_runtime(node_certificate: Signed) -> None:
    """CVE-2018-1002105: through a proxy that keeps the connection, a client spoke on to the server behind it."""
    heard = b""

    async def refuse_and_listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal heard
        writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")
        heard = await reader.read()

    async with led_to(refuse_and_listen, node_certificate) as (api, runtime):
        reader, writer, head = await api.upgraded()
        assert await answer_of(reader, head) == (403, "no")
        writer.write(b"GET /exec/token HTTP/1.1\r\nHost: node\r\n\r\n")
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)
        assert await answer_of(reader, head) == (400, "Upgrade request required")
        await asyncio.wait_for(runtime.ended[0].wait(), PATIENCE)  # while the client is still connected
        assert (len(runtime.requests), heard) == (1, b"")
        writer.close()


async def test_a_runtime_that_is_away_is_told_without_its_url(node_certificate: Signed) -> None:
    """The URL contains a token."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    async def handler(request: web.Request) -> web.StreamResponse:
        return await proxy_upgrade(request, f"http://127.0.0.1:{port}/exec/t0ken", FOREVER)

    async with Served(node_certificate).serving(handler) as api:
        reader, writer, head = await api.upgraded()
        status, text = await answer_of(reader, head)
        assert status == 502
        assert text.startswith("the runtime's streaming server: error dialing backend")
        assert "t0ken" not in text
        writer.close()


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        pytest.param(["POST / HTTP/1.1"], "Upgrade request required", id="no-upgrade"),
        pytest.param(["POST / HTTP/1.1", "Connection: Upgrade"], "Upgrade request required", id="to-nothing"),
        pytest.param(
            ["POST / HTTP/1.1", "Connection: Upgrade", "Upgrade: SPDY/3.1", "Content-Length: 5"],
            "an upgrade request has no body", id="with-a-body",
        ),
    ],
)  # fmt: skip
async def test_what_is_no_upgrade_is_refused(node_certificate: Signed, lines: list[str], text: str) -> None:
    """Before the runtime is called."""
    async with led_to(echo, node_certificate) as (api, runtime):
        reader, writer = await api.connect()
        writer.write("\r\n".join([*lines, "Host: node", "", ""]).encode())
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)
        assert await answer_of(reader, head) == (400, text)
        assert not runtime.requests
        writer.close()


async def test_a_client_that_does_not_read_holds_the_runtime_up(node_certificate: Signed) -> None:
    """Memory is bounded: what is pending fits in the sockets and one buffer."""
    written, all_of_it = 0, 256 * MIB

    async def flood(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        writer.write(SWITCHED)
        while written < all_of_it:
            writer.write(b"x" * MIB)
            await writer.drain()
            written += MIB

    async with led_to(flood, node_certificate) as (api, runtime):
        _, writer, _ = await api.upgraded()
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # a stream's transport reads
        before = -1
        while written != before:
            before = written
            await asyncio.sleep(0.3)
        assert written < 32 * MIB
        kill(writer)
        await asyncio.wait_for(runtime.ended[0].wait(), PATIENCE)


async def test_what_is_idle_for_too_long_is_closed(node_certificate: Signed) -> None:
    """StreamingConnectionIdleTimeout; each byte restarts it."""
    async with led_to(echo, node_certificate, timedelta(seconds=2)) as (api, runtime):
        reader, writer, _ = await api.upgraded()
        for _ in range(4):
            await asyncio.sleep(0.7)
            writer.write(b"x")
            assert await asyncio.wait_for(reader.readexactly(1), PATIENCE) == b"x"
        assert not runtime.ended[0].is_set()
        await asyncio.wait_for(runtime.ended[0].wait(), PATIENCE)
        with contextlib.suppress(ConnectionError):  # it is aborted, not closed properly
            assert await asyncio.wait_for(reader.read(1), PATIENCE) == b""
        writer.close()


async def test_a_client_that_never_takes_the_last_words_is_cut_off(
    node_certificate: Signed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runtime has closed and the client does not even read TLS's close_notify; the node does not wait for ever."""
    monkeypatch.setattr(relay, "DRAIN_SECONDS", 0.3)

    async def say_and_go(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(SWITCHED)
        await asyncio.sleep(0.2)
        writer.write(b"x")

    async with led_to(say_and_go, node_certificate) as (api, _):
        _, writer, _ = await api.upgraded()
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # a stream's transport reads
        await no_connections(api)
        kill(writer)


async def test_nothing_stays_of_200_streams_half_of_whose_clients_vanish(node_certificate: Signed) -> None:
    """Neither descriptors nor tasks, and aiohttp's count of connections is correct."""
    async with led_to(echo, node_certificate) as (api, runtime):
        first = await api.upgraded()
        first[1].close()
        await no_connections(api)
        await asyncio.wait_for(runtime.ended[0].wait(), PATIENCE)
        files, tasks = descriptors(), len(asyncio.all_tasks())

        async def one(number: int) -> None:
            reader, writer, _ = await api.upgraded()
            writer.write(b"hello")
            assert await asyncio.wait_for(reader.readexactly(5), PATIENCE) == b"hello"
            if number % 2:
                kill(writer)
            else:
                writer.close()

        await asyncio.gather(*(one(number) for number in range(200)))
        await no_connections(api)
        for over in runtime.ended:
            await asyncio.wait_for(over.wait(), PATIENCE)
        await until(lambda: descriptors() <= files, "descriptors are closed")
        await until(lambda: len(asyncio.all_tasks()) <= tasks, "tasks have ended")


def kill(writer: asyncio.StreamWriter) -> None:
    """Disconnect with a reset."""
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def no_connections(api: Served) -> None:
    """Wait until the server has no connection any more."""
    await until(lambda: not api.connections, "the server knows of no connection")


@pytest.mark.parametrize(
    ("sent", "passed"),
    [
        pytest.param({"authorization": "Bearer x", "Cookie": "a=b", "Host": "n"}, [], id="no-credentials"),
        pytest.param({"upgrade": "SPDY/3.1"}, [("Upgrade", "SPDY/3.1")], id="what-chooses-a-protocol"),
        pytest.param(
            {"Sec-WebSocket-Protocol": f"{BEARER},v4.channel.k8s.io, channel.k8s.io"},
            [("Sec-WebSocket-Protocol", "v4.channel.k8s.io, channel.k8s.io")],
            id="no-token-among-the-subprotocols",
        ),
        pytest.param({"Sec-WebSocket-Protocol": BEARER}, [], id="nor-one-alone"),
    ],
)
def test_headers_that_go_on(sent: dict[str, str], passed: list[tuple[str, str]]) -> None:
    """The runtime's streaming server need not know who the client is."""
    assert forwarded_headers(CIMultiDict(sent)) == passed
