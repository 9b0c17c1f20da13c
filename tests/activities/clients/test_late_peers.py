"""Is a server reached whose machine is so busy that it greets a new connection late?"""

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import grpc
import grpc.aio

from activities.clients.runtime import RuntimeClient
from activities.probes.grpc_health import GrpcHealth
from activities.probes.outcome import Target
from proto.cri.v1 import api_pb2 as cri
from tests.activities.clients.late_peer import LATE, late_peer


def _handler(service: str, method: str, answer: bytes) -> "grpc.GenericRpcHandler[bytes, bytes]":
    async def serve(_request: bytes, _context: Any) -> bytes:
        return answer

    handlers = {method: grpc.unary_unary_rpc_method_handler(serve)}
    generic: grpc.GenericRpcHandler[bytes, bytes] = grpc.method_handlers_generic_handler(service, handlers)
    return generic


async def test_late_greetings(tmp_path: Path) -> None:
    """By the runtime's client and by a grpc probe: gRPC must not give up each attempt after the pause between two."""
    server = grpc.aio.server()
    version = cri.VersionResponse(runtime_name="late").SerializeToString()
    server.add_generic_rpc_handlers(
        (
            _handler("runtime.v1.RuntimeService", "Version", version),
            _handler("grpc.health.v1.Health", "Check", b"\x08\x01"),
        )
    )
    server.add_insecure_port(f"unix://{tmp_path}/peer.sock")
    await server.start()
    async with late_peer(tmp_path / "peer.sock") as (socket, port):
        runtime = RuntimeClient(str(socket), Mock())
        probe = GrpcHealth({"port": port}, Target({"name": "web"}, "web-0", "127.0.0.1", Mock()), 20 * LATE)
        try:
            assert (await runtime.version()).runtime_name == "late"
            outcome = await probe.ask()
            assert outcome.success, outcome
        finally:
            await runtime.close()
            await probe.close()
            await server.stop(None)
