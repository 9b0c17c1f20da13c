"""Does each handler ask as the kubelet does, and say what came back in its words? (pkg/probe/*_test.go)"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, Mock

import grpc
import grpc.aio
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from activities.errors import CriError
from activities.probes.exec_command import ExecCommand
from activities.probes.grpc_health import GrpcHealth, health_check_request, health_status
from activities.probes.http_get import HttpGet, request_headers
from activities.probes.outcome import NoOutcome, Outcome, Target
from activities.probes.tcp_socket import TcpSocket
from proto.cri.v1 import api_pb2 as cri

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
CLOSED = 1  # nobody listens on tcpmux


def target(port: int = 0, **container: Any) -> Target:
    """Ask at loopback."""
    named = {"ports": [{"name": "web", "containerPort": port}]} if port else {}
    return Target({"name": "web", **named, **container}, "web-0", "127.0.0.1", Mock())


@asynccontextmanager
async def serving(serve: Serve) -> AsyncIterator[int]:
    """Run a server on a free port."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


def answering(*answers: bytes, asked: list[bytes] | None = None) -> Serve:
    """Answer one request after the other with these, the last one for ever."""
    left = list(answers)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        if asked is not None:
            asked.append(request)
        writer.write(left.pop(0) if len(left) > 1 else left[0])
        writer.close()

    return serve


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Take the connection and say nothing until it is closed."""
    await reader.read()
    writer.close()


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
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n" + response("200 OK"), True, "", id="interim"),
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
        assert await get(port) == Outcome(success, said)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        pytest.param(b"", "EOF", id="nothing"),
        pytest.param(b"HTTP/1.1 200", "unexpected EOF", id="half-a-line"),
        pytest.param(b"SSH-2.0-x\r\n\r\n", 'malformed HTTP response "SSH-2.0-x"', id="another-protocol"),
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
    """Connection refused, and a server that is silent."""
    outcome = await get(CLOSED)
    assert outcome.output == 'Get "http://127.0.0.1:1/": dial tcp 127.0.0.1:1: connect: connection refused'
    async with serving(silent) as port:
        outcome = await get(port, timeout=0.05)
    assert not outcome.success
    assert "context deadline exceeded (Client.Timeout exceeded while awaiting headers)" in outcome.output


async def test_a_body_that_breaks_off_tells_nothing() -> None:
    """The kubelet throws such a result away."""
    async with serving(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")) as port:
        with pytest.raises(NoOutcome, match="unexpected EOF"):
            await get(port)


async def test_https_to_a_server_that_speaks_none() -> None:
    """A failure, not a defect."""
    async with serving(answering(response("200 OK"))) as port:
        outcome = await HttpGet({"port": port, "scheme": "HTTPS"}, target(port), 0.5).ask()
    assert not outcome.success


async def test_https_is_not_verified(tmp_path: Path) -> None:
    """A certificate of its own, for another name, long expired."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "other.example")])
    before, after = datetime(2001, 1, 1, tzinfo=UTC), datetime(2002, 1, 1, tzinfo=UTC)
    certificate = x509.CertificateBuilder(name, name, key.public_key(), 1, before, after).sign(key, hashes.SHA256())
    written = tmp_path / "server.pem"
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    written.write_bytes(secret + certificate.public_bytes(Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(written)
    server = await asyncio.start_server(answering(response("200 OK")), "127.0.0.1", 0, ssl=context)
    async with server:
        port = server.sockets[0].getsockname()[1]
        assert await get(port, scheme="HTTPS") == Outcome(success=True)


async def test_ports_by_name() -> None:
    """Of this container; an unknown one gives no result."""
    async with serving(answering(response("200 OK"))) as port:
        assert await HttpGet({"port": "web"}, target(port), 5).ask() == Outcome(success=True)
        with pytest.raises(NoOutcome, match="port api not found"):
            await HttpGet({"port": "api"}, target(port), 5).ask()


async def test_tcp() -> None:
    """That it opens is all."""
    async with serving(silent) as port:
        assert await TcpSocket({"port": port}, target(), 5).ask() == Outcome(success=True)
        assert await TcpSocket({"port": port, "host": "localhost"}, target(), 5).ask() == Outcome(success=True)
    outcome = await TcpSocket({"port": CLOSED}, target(), 5).ask()
    assert outcome == Outcome(success=False, output="dial tcp 127.0.0.1:1: connect: connection refused")


def ran(code: int, stdout: bytes = b"", stderr: bytes = b"") -> Target:
    """Let the runtime answer a command."""
    runtime = Mock()
    runtime.exec_sync = AsyncMock(return_value=cri.ExecSyncResponse(stdout=stdout, stderr=stderr, exit_code=code))
    return Target({"name": "web", "env": [{"name": "A", "value": "x"}]}, "web-0", "", runtime)


@pytest.mark.parametrize(
    ("asked", "outcome"),
    [
        pytest.param(ran(0, b"fine"), Outcome(success=True, output="fine"), id="success"),
        pytest.param(ran(1, b"out", b"err"), Outcome(success=False, output="outerr"), id="failure"),
        pytest.param(ran(3, b"x" * 20_000), Outcome(success=False, output="x" * 10_240), id="a-long-output"),
    ],
)
async def test_exec(asked: Target, outcome: Outcome) -> None:
    """The exit code counts, and what it said is cut at 10 KiB."""
    assert await ExecCommand({"command": ["true"]}, asked, 1).ask() == outcome


async def test_exec_sees_the_containers_variables() -> None:
    """Those with a value."""
    asked = ran(0)
    assert isinstance(asked.runtime, Mock)
    await ExecCommand({"command": ["test", "$(A)", "$(B)"]}, asked, 2).ask()
    asked.runtime.exec_sync.assert_awaited_once_with("web-0", ["test", "x", "$(B)"], 2)


async def test_exec_that_did_not_end_or_could_not_begin() -> None:
    """A timeout is a failure; a runtime that cannot run it gives no result."""
    asked = ran(0)
    runtime: Any = asked.runtime
    runtime.exec_sync.side_effect = CriError("ExecSync", grpc.StatusCode.DEADLINE_EXCEEDED, "timeout 1s exceeded")
    outcome = await ExecCommand({"command": ["sleep", "9"]}, asked, 1).ask()
    assert outcome == Outcome(success=False, output='command timed out: "sleep 9" timed out after 1s')
    runtime.exec_sync.side_effect = CriError("ExecSync", grpc.StatusCode.UNKNOWN, "no such file")
    with pytest.raises(NoOutcome, match="no such file"):
        await ExecCommand({"command": ["nothing"]}, asked, 1).ask()


@asynccontextmanager
async def health(answer: Callable[[bytes], bytes] | None) -> AsyncIterator[int]:
    """Run a gRPC server with the health protocol, or with nothing."""
    server = grpc.aio.server()
    if answer is not None:

        async def check(request: bytes, _: Any) -> bytes:
            return answer(request)

        handler = grpc.method_handlers_generic_handler(
            "grpc.health.v1.Health", {"Check": grpc.unary_unary_rpc_method_handler(check)}
        )
        server.add_generic_rpc_handlers((handler,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield port
    finally:
        await server.stop(None)


async def ask_health(port: int, service: str = "", timeout: float = 5) -> Outcome:
    """Ask by gRPC."""
    handler = GrpcHealth({"port": port, "service": service}, target(), timeout)
    try:
        return await handler.ask()
    finally:
        await handler.close()


@pytest.mark.parametrize(
    ("answer", "success", "said"),
    [
        pytest.param(b"\x08\x01", True, "service healthy", id="serving"),
        pytest.param(b"\x08\x02", False, 'service unhealthy (responded with "NOT_SERVING")', id="not-serving"),
        pytest.param(b"", False, 'service unhealthy (responded with "UNKNOWN")', id="unknown"),
    ],
)
async def test_grpc_health(answer: bytes, success: bool, said: str) -> None:
    """Only SERVING is success."""
    async with health(lambda _: answer) as port:
        assert await ask_health(port) == Outcome(success, said)


async def test_grpc_asks_for_the_service() -> None:
    """By its name."""
    asked: list[bytes] = []

    def serves(request: bytes) -> bytes:
        asked.append(request)
        return b"\x08\x01"

    async with health(serves) as port:
        await ask_health(port, "web")
    assert asked == [b"\x0a\x03web"]


async def test_grpc_without_health_protocol_or_server() -> None:
    """Each says what it is."""
    async with health(None) as port:
        outcome = await ask_health(port)
    assert outcome.output.startswith("error: this server does not implement the grpc health protocol")
    outcome = await ask_health(CLOSED, timeout=0.2)
    assert outcome.output == ('timeout: failed to connect service "127.0.0.1:1" within 0.2s: context deadline exceeded')


def test_health_messages() -> None:
    """As protobuf has them."""
    assert health_check_request("") == b""
    assert health_check_request("x" * 200) == b"\x0a\xc8\x01" + b"x" * 200
    assert [health_status(one) for one in (b"\x08\x01", b"", b"\x08\xac\x02", b"\x12\x00")] == [1, 0, 300, 0]
