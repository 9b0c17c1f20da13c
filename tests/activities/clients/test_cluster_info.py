"""Is a server that is not trusted yet kept within bytes and time, and its certificate checked as soon as the CA is known?"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from activities.clients.api_server import cluster_info
from activities.clients.api_server.cluster_info import read_cluster_info
from activities.clients.api_server.errors import ApiAway
from tests.cluster.certificates import Authority, Signed

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]
WITHIN = timedelta(seconds=20)


def whole(body: bytes, status: str = "200 OK", *headers: str) -> Answer:
    """Send one answer."""

    async def send(writer: asyncio.StreamWriter) -> None:
        head = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers, "", ""]
        writer.write("\r\n".join(head).encode() + body)

    return send


async def endless(writer: asyncio.StreamWriter) -> None:
    """Send a body that does not end."""
    writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
    while True:
        writer.write(b" " * 65536)
        await writer.drain()


async def silent(_: asyncio.StreamWriter) -> None:
    """Send nothing."""
    await asyncio.sleep(60)


@asynccontextmanager
async def serving(answer: Answer, pair: Signed) -> AsyncIterator[str]:
    """Serve one answer for each connection; yields the address."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    ended: list[asyncio.Task[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            task = asyncio.ensure_future(answer(writer))
            ended.append(task)
            await task
            await writer.drain()
        except (OSError, asyncio.CancelledError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        for task in ended:
            task.cancel()
        server.close()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """Return a CA."""
    return Authority.make(tmp_path / "pki")


@pytest.fixture
def pair(authority: Authority) -> Signed:
    """Return the server's certificate."""
    return authority.sign("server", "server", hosts=["127.0.0.1"])


async def test_without_a_ca_any_certificate_will_do_and_with_one_only_its_own(
    authority: Authority, pair: Signed
) -> None:
    """The first read proves nothing; the second one proves that the server has the CA's trust."""
    known = (authority.folder / "ca.crt").read_bytes()
    other = (Authority.make(authority.folder.parent / "other").folder / "ca.crt").read_bytes()
    async with serving(whole(b'{"data": {}}'), pair) as server:
        assert await read_cluster_info(server, None, WITHIN) == {"data": {}}
        assert await read_cluster_info(server, known, WITHIN) == {"data": {}}
        with pytest.raises(ApiAway, match="was not signed by the cluster's CA"):
            await read_cluster_info(server, other, WITHIN)


async def test_a_certificate_for_another_address_is_refused(authority: Authority) -> None:
    """Also of the right CA."""
    pair = authority.sign("elsewhere", "elsewhere", hosts=["10.9.9.9"])
    async with serving(whole(b"{}"), pair) as server:
        with pytest.raises(ApiAway, match="is not for this address"):
            await read_cluster_info(server, (authority.folder / "ca.crt").read_bytes(), WITHIN)


async def test_a_date_that_is_not_valid_may_be_this_machines_clock(authority: Authority) -> None:
    """The message shows both: which certificate, and what the clock shows."""
    pair = authority.sign("expired", "expired", hosts=["127.0.0.1"], lifetime=timedelta(days=-1))
    async with serving(whole(b"{}"), pair) as server:
        with pytest.raises(
            ApiAway, match=r"certificate has expired, by this machine's clock, which shows 20.* UTC: set the clock"
        ):
            await read_cluster_info(server, (authority.folder / "ca.crt").read_bytes(), WITHIN)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        pytest.param(whole(b"<html>"), "not JSON", id="html"),
        pytest.param(whole(b"[" * 100_000), "not JSON", id="deep-json"),
        pytest.param(whole(b"[]"), "no object", id="a-list"),
        pytest.param(whole(b"\xff\xfe", "403 Forbidden"), "403", id="forbidden"),
        pytest.param(whole(b"", "302 Found", "Location: https://127.0.0.1:1/"), "302", id="a-redirect"),
        pytest.param(whole(b"x" * (cluster_info.LARGEST + 1)), "more than", id="a-large-answer"),
        pytest.param(endless, "more than", id="an-endless-answer"),
        pytest.param(whole(b"{}", "200 OK", f"X: {'x' * 100_000}"), "no answer", id="a-large-header"),
    ],
)
async def test_an_answer_that_is_no_config_map(answer: Answer, why: str, pair: Signed) -> None:
    """Is an error that says what came."""
    async with serving(answer, pair) as server:
        with pytest.raises(ApiAway, match=why):
            await read_cluster_info(server, None, WITHIN)


async def test_a_silent_server_is_given_up(pair: Signed) -> None:
    """After the time limit."""
    async with serving(silent, pair) as server:
        with pytest.raises(ApiAway, match="no answer"):
            await read_cluster_info(server, None, timedelta(seconds=0.5))
