"""grpc probes: the gRPC health protocol, grpc.health.v1 (pkg/probe/grpc/grpc.go).

Its two messages have one field each, so they are encoded here without generated stubs. A probe keeps its connection,
where the kubelet opens one for each check: a server that is gone or does not answer fails either way.
"""

from collections.abc import Callable
from typing import Any, Final

import grpc
import grpc.aio

from activities.clients.exec_sync import read_varint
from activities.probes.outcome import USER_AGENT, Outcome, Target, address

_CHECK: Final = "/grpc.health.v1.Health/Check"
_STATUS: Final = ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")
_SERVING: Final = 1
_STATUS_FIELD: Final = b"\x08"
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", 16 * 1024),  # a response has two bytes
    ("grpc.primary_user_agent", USER_AGENT),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),  # the container's next instance has the same address and is another server
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 500),
)


class GrpcHealth:
    """grpc: port, and the service to ask about."""

    def __init__(self, action: dict[str, Any], target: Target, timeout: float) -> None:
        self._where = address(target.pod_ip, action["port"])
        self._request = health_check_request(action.get("service") or "")
        self._timeout = timeout
        self._channel: grpc.aio.Channel | None = None
        self._check: Callable[..., Any] = self._connecting

    async def ask(self) -> Outcome:
        """Ask for the service's health."""
        try:
            status = await self._check(self._request, timeout=self._timeout, wait_for_ready=True)
        except grpc.aio.AioRpcError as error:
            return Outcome(success=False, output=self._refusal(error))
        if status == _SERVING:
            return Outcome(success=True, output="service healthy")
        name = _STATUS[status] if status < len(_STATUS) else str(status)
        return Outcome(success=False, output=f'service unhealthy (responded with "{name}")')

    async def close(self) -> None:
        """Close the connection."""
        if self._channel is not None:
            await self._channel.close(None)

    def _connecting(self, request: bytes, **how: Any) -> Any:
        """Create the channel with the first check: many probes of a node never get that far."""
        scheme = "ipv6" if self._where.startswith("[") else "ipv4"
        # Despite its name: how long one attempt to connect may take. The next check dials anew, as the kubelet's does.
        attempt = ("grpc.min_reconnect_backoff_ms", round(self._timeout * 1000))
        self._channel = grpc.aio.insecure_channel(f"{scheme}:{self._where}", options=(*_OPTIONS, attempt))
        self._check = self._channel.unary_unary(_CHECK, None, health_status)
        return self._check(request, **how)

    def _refusal(self, error: grpc.aio.AioRpcError) -> str:
        connected = self._channel is not None and self._channel.get_state() is grpc.ChannelConnectivity.READY
        match error.code():
            case grpc.StatusCode.DEADLINE_EXCEEDED if not connected:
                return (
                    f'timeout: failed to connect service "{self._where}" within {self._timeout:g}s: '
                    "context deadline exceeded"
                )
            case grpc.StatusCode.DEADLINE_EXCEEDED:
                return f"timeout: health rpc did not complete within {self._timeout:g}s"
            case grpc.StatusCode.UNIMPLEMENTED:
                return (
                    "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): "
                    f"{error.details()}"
                )
            case code:
                return f"error: health rpc probe failed: {code.name}: {error.details()}"


def health_check_request(service: str) -> bytes:
    """Encode a HealthCheckRequest: field 1, the service's name, left out if it is empty as in protobuf."""
    name = service.encode()
    return b"\x0a" + _varint(len(name)) + name if name else b""


def health_status(response: bytes) -> int:
    """Decode field 1 of a HealthCheckResponse; UNKNOWN if it is missing or the message is invalid."""
    if not response.startswith(_STATUS_FIELD):
        return 0
    try:
        return read_varint(memoryview(response), len(_STATUS_FIELD))[0]
    except ValueError:
        return 0


def _varint(number: int) -> bytes:
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)
