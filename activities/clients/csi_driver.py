"""A CSI driver's node service as typed calls; the messages stay CSI's own.

Imported when a driver is first spoken to, for its stubs cost memory that a node without drivers need not have. One
connection an operation, as the kubelet makes them: a driver that was restarted is then found at once.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import grpc
import grpc.aio

from activities.clients.secret_redaction import redact_secrets, secrets_of
from proto.csi.v1 import csi_pb2 as csi
from proto.csi.v1 import csi_pb2_grpc
from proto.temporal.messages import shorten

CALL_SECONDS: Final = 120.0
"""Each call's deadline (csi_plugin.go csiTimeout)."""
OPTIONS: Final = (
    ("grpc.enable_http_proxy", 0),
    ("grpc.default_authority", "localhost"),
    ("grpc.use_local_subchannel_pool", 1),  # else a connection waits out the backoff of the one before it
)
_UNCERTAIN: Final = frozenset(
    {
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.ABORTED,
    }
)
_CODES: Final = {code: code.name.title().replace("_", "") for code in grpc.StatusCode} | {
    grpc.StatusCode.CANCELLED: "Canceled"
}


class CsiError(Exception):
    """A driver's call that did not succeed, in the words that Go's gRPC has for it, which operators search for.

    What the call told in secret is hidden in them.
    """

    def __init__(self, call: str, code: grpc.StatusCode, details: str) -> None:
        self.call = call
        self.code = code
        super().__init__(f"rpc error: code = {_CODES[code]} desc = {shorten(details)}")

    @property
    def is_final(self) -> bool:
        """Whether the call is over for sure; else the driver may still be at it (csi_client.go isFinalError)."""
        return self.code not in _UNCERTAIN


def unix_target(endpoint: str) -> str:
    """Name a socket as gRPC does; an endpoint may come as a bare path or with its scheme."""
    return endpoint if endpoint.startswith("unix:") else f"unix://{endpoint}"


class CsiNode:
    """One connection to a driver's node service."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._node: Any = csi_pb2_grpc.NodeStub(channel)

    async def info(self) -> csi.NodeGetInfoResponse:
        """Ask how the driver calls this node, and how many volumes it can have here."""
        answer: csi.NodeGetInfoResponse = await self._ask(self._node.NodeGetInfo, csi.NodeGetInfoRequest())
        return answer

    async def capabilities(self) -> frozenset[int]:
        """Ask what the driver can do here, as numbers of NodeServiceCapability.RPC.Type."""
        answer = await self._ask(self._node.NodeGetCapabilities, csi.NodeGetCapabilitiesRequest())
        return frozenset(one.rpc.type for one in answer.capabilities)

    async def stage(self, request: csi.NodeStageVolumeRequest) -> None:
        """Bring a volume onto the node."""
        await self._ask(self._node.NodeStageVolume, request)

    async def publish(self, request: csi.NodePublishVolumeRequest) -> None:
        """Bring a volume into a pod."""
        await self._ask(self._node.NodePublishVolume, request)

    async def unpublish(self, handle: str, target: str) -> None:
        """Take a volume out of a pod."""
        request = csi.NodeUnpublishVolumeRequest(volume_id=handle, target_path=target)
        await self._ask(self._node.NodeUnpublishVolume, request)

    async def unstage(self, handle: str, staging: str) -> None:
        """Take a volume off the node."""
        request = csi.NodeUnstageVolumeRequest(volume_id=handle, staging_target_path=staging)
        await self._ask(self._node.NodeUnstageVolume, request)

    async def _ask(self, method: Any, request: Any) -> Any:
        call = type(request).__name__.removesuffix("Request")
        try:
            return await method(request, timeout=CALL_SECONDS)
        except grpc.aio.AioRpcError as error:
            said = redact_secrets(error.details() or "", secrets_of(request))
            failure = CsiError(call, error.code(), said)
        raise failure  # out here it has no context, which may quote the request


@asynccontextmanager
async def connected(endpoint: str) -> AsyncIterator[CsiNode]:
    """Connect to a driver for one operation."""
    channel = grpc.aio.insecure_channel(unix_target(endpoint), options=OPTIONS)
    try:
        yield CsiNode(channel)
    finally:
        await asyncio.shield(channel.close(None))
