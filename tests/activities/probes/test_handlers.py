"""Does each handler ask as the kubelet does, and say what came back in its words? (pkg/probe/*_test.go)"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import AsyncMock, Mock

import grpc
import grpc.aio
import pytest

from activities.clients.cri_error import CriError
from activities.clients.exec_sync import AnswerTooLong, ExecAnswer
from activities.probes.exec_command import ExecCommand
from activities.probes.grpc_health import GrpcHealth, health_check_request, health_status
from activities.probes.outcome import Outcome, ProbeNotRun, Target
from activities.probes.tcp_socket import TcpSocket
from tests.activities.probes.probed_servers import CLOSED, serving, silent, target


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
    runtime.exec_sync_short = AsyncMock(return_value=ExecAnswer(stdout, stderr, code))
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


async def test_exec_that_writes_much_takes_turns() -> None:
    """Once a command is known to write much, one such answer is held at a time, however many containers there are."""
    asked = ran(0)
    runtime: Any = asked.runtime
    runtime.long_answers = asyncio.Semaphore()
    runtime.exec_sync_short.side_effect = AnswerTooLong
    at_once, most = 0, 0

    async def much(*_: Any, keep: slice) -> ExecAnswer:
        nonlocal at_once, most
        at_once, most = at_once + 1, max(most, at_once + 1)
        await asyncio.sleep(0)
        at_once -= 1
        return ExecAnswer((b"x" * 500_000)[keep])

    runtime.exec_sync = much
    probes = [ExecCommand({"command": ["yes"]}, asked, 5) for _ in range(5)]
    for _ in range(2):
        outcomes = await asyncio.gather(*(one.ask() for one in probes))
        assert outcomes == [Outcome(success=True, output="x" * 10_240)] * 5
    assert most == 1
    assert runtime.exec_sync_short.await_count == 5


async def test_exec_whose_turn_does_not_come() -> None:
    """Nothing is known of its container, which is not blamed for another's command."""
    asked = ran(0)
    runtime: Any = asked.runtime
    runtime.long_answers = asyncio.Semaphore(0)
    runtime.exec_sync_short.side_effect = AnswerTooLong
    with pytest.raises(ProbeNotRun, match="write much"):
        await ExecCommand({"command": ["yes"]}, asked, 0.01).ask()


async def test_exec_sees_the_containers_variables() -> None:
    """Those with a value."""
    asked = ran(0)
    assert isinstance(asked.runtime, Mock)
    await ExecCommand({"command": ["test", "$(A)", "$(B)"]}, asked, 2).ask()
    asked.runtime.exec_sync_short.assert_awaited_once_with("web-0", ["test", "x", "$(B)"], 2, keep=slice(10_240))


async def test_exec_that_did_not_end_or_could_not_begin() -> None:
    """A timeout is a failure; a runtime that cannot run it gives no result."""
    asked = ran(0)
    runtime: Any = asked.runtime
    runtime.exec_sync_short.side_effect = CriError("ExecSync", grpc.StatusCode.DEADLINE_EXCEEDED, "timeout 1s exceeded")
    outcome = await ExecCommand({"command": ["sleep", "9"]}, asked, 1).ask()
    assert outcome == Outcome(success=False, output='command timed out: "sleep 9" timed out after 1s')
    runtime.exec_sync_short.side_effect = CriError("ExecSync", grpc.StatusCode.UNKNOWN, "no such file")
    with pytest.raises(ProbeNotRun, match="no such file"):
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
    assert health_status(b"\x08" + b"\xff" * 4_000_000) == 0  # a number without an end, which takes hours to read


async def test_grpc_that_answers_too_much() -> None:
    """GRPC ends it when it has read the length."""
    async with health(lambda _: b"\x08\x01" + b"\x12\x7f" * 50_000) as port:
        outcome = await ask_health(port)
    assert "RESOURCE_EXHAUSTED" in outcome.output
