"""Does an HTTP probe ask as the kubelet does, and say what came back in its words? (pkg/probe/http/http_test.go)"""

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest

from activities.probes.http_get import HttpGet, request_headers
from activities.probes.http_message import read_head
from activities.probes.http_stream import ReadBudget
from activities.probes.outcome import Outcome, ProbeNotRun
from tests.activities.foreign.tls import key_pair
from tests.activities.probes.probed_servers import CLOSED, answering, serving, silent, target


async def get(port: int, timeout: float = 5, **action: Any) -> Outcome:
    """Ask by HTTP."""
    return await HttpGet({"port": port, **action}, target(port), timeout).ask()


def response(status: str, *headers: str, body: str = "") -> bytes:
    """Write a response."""
    return "\r\n".join([f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "", body]).encode()


@pytest.mark.parametrize(
    ("answer", "success", "said"),
    [
        pytest.param(response("200 OK", body="fine"), True, "", id="ok"),
        pytest.param(b"HTTP/1.0 204 No Content\n\n", True, "", id="no-content-from-an-old-server"),
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n" * 5 + response("200 OK"), True, "", id="interim"),
        pytest.param(response("101 Switch"), False, "HTTP probe failed with statuscode: 101", id="another-protocol"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", True, "", id="chunked"
        ),
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\nuntil the end", True, "", id="until-the-connection-closes"),
        pytest.param(response("200 OK", body="x" * 50_000), True, "", id="a-long-body"),
        pytest.param(response("399 Fine"), True, "Probe terminated redirects, Response body: ", id="last-good-one"),
        pytest.param(response("400 Bad"), False, "HTTP probe failed with statuscode: 400", id="bad-request"),
        pytest.param(
            response("500 Oops", body="secret"), False, "HTTP probe failed with statuscode: 500", id="server-error"
        ),
        pytest.param(response("304 Not Modified"), True, "Probe terminated redirects, Response body: ", id="3xx"),
        pytest.param(
            response("302 Found", "Location: http://example.com/", body="there"),
            True,
            "Probe terminated redirects, Response body: there",
            id="another-host-is-a-success-with-a-warning",
        ),
    ],
)
async def test_an_http_answer(answer: bytes, success: bool, said: str) -> None:
    """What counts is the status."""
    async with serving(answering(answer)) as port:
        assert await get(port) == Outcome(success, said, warning=success and bool(said))


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        pytest.param(b"", "EOF", id="nothing"),
        pytest.param(b"HTTP/1.1 200", "unexpected EOF", id="half-a-line"),
        pytest.param(b"SSH-2.0-x\r\n\r\n", 'malformed HTTP response "SSH-2.0-x"', id="another-protocol"),
        pytest.param(b"\r\n\r\n", 'malformed HTTP response ""', id="blank-lines"),
        pytest.param(
            b"HTTP/1.1 100 C\r\n\r\n" * 6 + response("200 OK"),
            "too many 1xx informational responses",
            id="six-interim-heads",
        ),
        pytest.param(
            response("200 OK", f"X: {'a' * 2**20}"),
            "server response headers exceeded 1048576 bytes; aborted",
            id="a-header-that-is-too-long",
        ),
        pytest.param(
            response("302 Found", f"X: {'a' * 200_000}", "Location: /again"),
            "server response headers exceeded 1048576 bytes; aborted",
            id="redirects-that-are-too-long-together",
        ),
        pytest.param(
            response("302 Found", f"Location: /{'../' * 3000}"),
            f'Location header of more than 8192 characters: "{("/" + "../" * 30)[:80]}…"',
            id="a-long-redirect",
        ),
        pytest.param(
            response("302 Found", "Location: //["),
            'failed to parse Location header "//[": Invalid IPv6 URL',
            id="a-redirect-to-no-url",
        ),
        pytest.param(
            response("302 Found", "Location: http://127.0.0.1:99999/"),
            'failed to parse Location header "http://127.0.0.1:99999/": Port out of range 0-65535',
            id="a-redirect-to-no-port",
        ),
        pytest.param(
            response("302 Found", "Location: /again"), "stopped after 10 redirects", id="in-a-circle-for-ever"
        ),
        pytest.param(
            response("302 Found", "Location: ftp://127.0.0.1/"), 'unsupported protocol scheme "ftp"', id="ftp"
        ),
    ],
)
async def test_an_answer_that_is_none(answer: bytes, why: str) -> None:
    """A failure that says why."""
    async with serving(answering(answer)) as port:
        outcome = await get(port)
    assert not outcome.success
    assert outcome.output.startswith('Get "')
    assert outcome.output.endswith(f'": {why}')


async def test_a_response_byte_by_byte() -> None:
    """It is the same, wherever it is divided."""

    async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for byte in b"HTTP/1.1 100 C\r\n\r\n" + response("302 Found", "Location: http://other/", body="there"):
            writer.write(bytes((byte,)))
            await writer.drain()
            await asyncio.sleep(0)
        writer.close()

    async with serving(trickle) as port:
        outcome = await get(port)
    assert outcome == Outcome(success=True, output="Probe terminated redirects, Response body: there", warning=True)


async def test_a_response_without_end_ends_with_the_time() -> None:
    """The bytes are always there, and the limit of time is seen nevertheless."""
    asked = asyncio.Event()

    class Full:
        """A connection whose reads return at once."""

        async def read(self) -> bytes:
            asked.set()
            await budget.turn()
            return b"a"

        async def write(self, _: bytes) -> None:
            """Take it."""

        def close(self) -> None:
            """Nothing is open."""

    budget = ReadBudget()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await read_head(Full())
    assert asked.is_set()


async def test_a_redirect_on_the_same_host_is_followed() -> None:
    """With the headers of the first request, and the page that it comes from."""
    asked: list[bytes] = []
    async with serving(answering(response("301 Moved", "Location: /new?a=1"), response("200 OK"), asked=asked)) as port:
        assert await get(port, path="/old", httpHeaders=[{"name": "x-a", "value": "1"}]) == Outcome(success=True)
    lines = [one.decode().split("\r\n") for one in asked]
    assert [one[0] for one in lines] == ["GET /old HTTP/1.1", "GET /new?a=1 HTTP/1.1"]
    assert "X-A: 1" in lines[1]
    assert f"Referer: http://127.0.0.1:{port}/old" in lines[1]


async def test_an_http_request() -> None:
    """Host, User-Agent, Accept and Connection are the kubelet's own; a header that is given counts before them."""
    asked: list[bytes] = []
    async with serving(answering(response("200 OK"), asked=asked)) as port:
        await get(port, path="/a b?q=ä#part")
        await get(port, path="up", httpHeaders=[{"name": "host", "value": "web.example"}])
    first, second = (one.decode().split("\r\n") for one in asked)
    assert first[:2] == ["GET /a%20b?q=%C3%A4 HTTP/1.1", f"Host: 127.0.0.1:{port}"]
    assert set(first[2:5]) == {"User-Agent: kube-probe/1.36", "Accept: */*", "Connection: close"}
    assert second[:2] == ["GET /up HTTP/1.1", "Host: web.example"]


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        pytest.param([], {"User-Agent": ["kube-probe/1.36"], "Accept": ["*/*"]}, id="the-kubelets-own"),
        pytest.param(
            [{"name": "user-agent", "value": "me"}, {"name": "Accept", "value": ""}], {"User-Agent": ["me"]}, id="given"
        ),
        pytest.param(
            [{"name": "X-A", "value": "1"}, {"name": "x-a", "value": "2"}],
            {"X-A": ["1", "2"], "User-Agent": ["kube-probe/1.36"], "Accept": ["*/*"]},
            id="twice",
        ),
    ],
)
def test_headers(given: list[dict[str, str]], sent: dict[str, list[str]]) -> None:
    """As http.Header has them (request.go newProbeRequest)."""
    assert request_headers(given) == sent


async def test_a_header_cannot_carry_another_request() -> None:
    """A line's end in a value is refused, as Go does."""
    outcome = await get(CLOSED, httpHeaders=[{"name": "X-A", "value": "1\r\nX-B: 2"}])
    assert not outcome.success
    async with serving(answering(response("200 OK"))) as port:
        outcome = await get(port, httpHeaders=[{"name": "X-A", "value": "1\r\nX-B: 2"}])
    assert 'invalid header field value for "X-A"' in outcome.output


async def test_http_where_nobody_listens_or_answers() -> None:
    """Connection refused, and a server that does not answer."""
    outcome = await get(CLOSED)
    assert outcome.output == 'Get "http://127.0.0.1:1/": dial tcp 127.0.0.1:1: connect: connection refused'
    async with serving(silent) as port:
        outcome = await get(port, timeout=0.05)
    assert not outcome.success
    assert "context deadline exceeded (Client.Timeout exceeded while awaiting headers)" in outcome.output


async def test_a_body_that_breaks_off_tells_nothing() -> None:
    """The kubelet throws such a result away."""
    async with serving(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")) as port:
        with pytest.raises(ProbeNotRun, match="unexpected EOF"):
            await get(port)


async def test_https_to_a_server_that_speaks_none() -> None:
    """A failure, not a defect."""
    async with serving(answering(response("200 OK"))) as port:
        outcome = await HttpGet({"port": port, "scheme": "HTTPS"}, target(port), 0.5).ask()
    assert not outcome.success


async def test_https_is_not_verified(tmp_path: Path) -> None:
    """A certificate of its own, for another name, long expired."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(key_pair(tmp_path))
    server = await asyncio.start_server(answering(response("200 OK")), "127.0.0.1", 0, ssl=context)
    async with server:
        port = server.sockets[0].getsockname()[1]
        assert await get(port, scheme="HTTPS") == Outcome(success=True)


async def test_ports_by_name() -> None:
    """Of this container; an unknown one gives no result."""
    async with serving(answering(response("200 OK"))) as port:
        assert await HttpGet({"port": "web"}, target(port), 5).ask() == Outcome(success=True)
        with pytest.raises(ProbeNotRun, match="port api not found"):
            await HttpGet({"port": "api"}, target(port), 5).ask()
