"""The node service of a CSI driver as typed calls with CSI's own messages.

Imported with the first call to a driver: a node without drivers saves the memory of the stubs. Each operation has its
own connection, as in the kubelet, so a restarted driver is found at once.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import grpc
import grpc.aio

from activities.clients.plugins.channel import CODES, UNDECODABLE, channel_options, in_words, unix_target
from activities.clients.secret_redaction import redact_secrets, secrets_of
from proto.csi.v1 import csi_pb2 as csi
from proto.csi.v1 import csi_pb2_grpc

CALL_SECONDS: Final = 120.0
"""Deadline of each call that mounts or undoes (csi_plugin.go csiTimeout)."""
_OPTIONS: Final = channel_options(64 * 1024)
"""CSI limits every text and map of an answer to a few KiB."""
_UNCERTAIN: Final = frozenset(
    {
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.ABORTED,
    }
)
Observer = Callable[[str, str, float], None]
"""Takes a call's method, code and seconds."""


class CsiError(Exception):
    """A failed call of a driver, in the words of Go's gRPC, which operators search for.

    Secrets of the call are redacted.
    """

    def __init__(self, call: str, code: grpc.StatusCode, details: str) -> None:
        self.call = call
        self.code = code
        super().__init__(in_words(code, details))

    @property
    def code_name(self) -> str:
        """The code's name in Go's gRPC."""
        return CODES[self.code]

    @property
    def is_final(self) -> bool:
        """Whether the call has surely ended; otherwise the driver may still be working (csi_client.go isFinalError)."""
        return self.code not in _UNCERTAIN


class CsiNode:
    """One connection to a driver's node service."""

    def __init__(self, channel: grpc.aio.Channel, observe: Observer = lambda *_: None) -> None:
        self._observe = observe
        self._node: Any = csi_pb2_grpc.NodeStub(channel)

    async def info(self) -> csi.NodeGetInfoResponse:
        """Ask for the driver's name of this node, and how many volumes it can have here."""
        answer: csi.NodeGetInfoResponse = await self._ask(self._node.NodeGetInfo, csi.NodeGetInfoRequest())
        return answer

    async def capabilities(self, within: float = CALL_SECONDS) -> frozenset[int]:
        """Ask for the driver's capabilities on this node, as numbers of NodeServiceCapability.RPC.Type."""
        answer = await self._ask(self._node.NodeGetCapabilities, csi.NodeGetCapabilitiesRequest(), within)
        return frozenset(one.rpc.type for one in answer.capabilities)

    async def stage(self, request: csi.NodeStageVolumeRequest) -> None:
        """Stage a volume on the node."""
        await self._ask(self._node.NodeStageVolume, request)

    async def publish(self, request: csi.NodePublishVolumeRequest) -> None:
        """Publish a volume to a pod."""
        await self._ask(self._node.NodePublishVolume, request)

    async def unpublish(self, handle: str, target: str) -> None:
        """Unpublish a volume from a pod."""
        request = csi.NodeUnpublishVolumeRequest(volume_id=handle, target_path=target)
        await self._ask(self._node.NodeUnpublishVolume, request)

    async def unstage(self, handle: str, staging: str) -> None:
        """Unstage a volume from the node."""
        request = csi.NodeUnstageVolumeRequest(volume_id=handle, staging_target_path=staging)
        await self._ask(self._node.NodeUnstageVolume, request)

    async def expand(self, request: csi.NodeExpandVolumeRequest) -> None:
        """Expand a volume that is published or staged here."""
        await self._ask(self._node.NodeExpandVolume, request)

    async def volume_stats(
        self, handle: str, path: str, within: float = CALL_SECONDS
    ) -> csi.NodeGetVolumeStatsResponse:
        """Ask for the use of a volume that is published at a path, and for its condition."""
        request = csi.NodeGetVolumeStatsRequest(volume_id=handle, volume_path=path)
        answer: csi.NodeGetVolumeStatsResponse = await self._ask(self._node.NodeGetVolumeStats, request, within)
        return answer

    async def _ask(self, method: Any, request: Any, within: float = CALL_SECONDS) -> Any:
        call, code, start = type(request).__name__.removesuffix("Request"), grpc.StatusCode.UNKNOWN, time.perf_counter()
        try:
            answer = await method(request, timeout=within)
        except grpc.aio.AioRpcError as error:
            code = error.code()
            redacted = redact_secrets(error.details() or "", secrets_of(request))
            failure = CsiError(call, code, redacted)
        else:
            if answer is not None:
                code = grpc.StatusCode.OK
                return answer
            code = grpc.StatusCode.INTERNAL
            failure = CsiError(call, code, UNDECODABLE)
        finally:
            self._observe(f"/csi.v1.Node/{call}", CODES[code], time.perf_counter() - start)
        raise failure  # raised here to have no context, which may quote the request


@asynccontextmanager
async def connected(endpoint: str, observe: Observer = lambda *_: None) -> AsyncIterator[CsiNode]:
    """Connect to a driver for one operation; `observe` takes each call's method, code and seconds."""
    channel = grpc.aio.insecure_channel(unix_target(endpoint), options=_OPTIONS)
    try:
        yield CsiNode(channel, observe)
    finally:
        await asyncio.shield(channel.close(None))
