"""The services of a DRA driver's plugin as bounded calls (dra v1, v1beta1, dra-health v1alpha1).

Used by `worker/dra/`; imported when the first plugin registers. A plugin has one connection for as long as it is registered, as in the kubelet
(dra_plugin.go). What it answers is limited in bytes and number: it may lie or be broken, and nobody else must suffer.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final

import grpc
import grpc.aio

from activities.clients.dra.health_reports import ReportRefused, read_report
from activities.clients.plugins.channel import CODES, UNDECODABLE, channel_options, in_words, unix_target
from proto.dra.claims import Claim, ClaimAnswer, PreparedDevice
from proto.dra.device_health import DeviceHealth, DeviceKey
from proto.dra.v1 import api_pb2 as api
from proto.drahealth.v1alpha1 import api_pb2 as health_api
from proto.messages import shorten

CALL_SECONDS: Final = 45.0
"""Deadline of each call (defaultClientCallTimeout)."""
MOST_BYTES: Final = 4 * 1024 * 1024
"""Of one message: the limit of Go's gRPC, which the kubelet has, too."""
MOST_DEVICES: Final = 1_000
"""Devices in one answer, and CDI device ids of them. A claim has 32 devices at most in the API."""
LONGEST_NAME: Final = 512
"""Characters of a name or of a CDI device id."""
_SERVICE: Final = "k8s.io.kubelet.pkg.apis.dra.{}"
SERVICES: Final = ("v1.DRAPlugin", "v1beta1.DRAPlugin")
"""What plugins name as supported versions. The messages of both are the same here: v1beta1 only lacks `share_id`."""
_OPTIONS: Final = (
    *channel_options(MOST_BYTES),
    ("grpc.initial_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 5_000),  # a driver's pod that comes again is found soon
)
_WATCH: Final = "/v1alpha1.DRAResourceHealth/NodeWatchResources"
REPORT_PAUSE: Final = 0.1
"""Seconds between two reports of health, more for larger ones: a plugin may send them faster, but they wait in its socket."""
Observer = Callable[[str, str, float], None]
"""Takes a call's method, code and seconds."""


class DraPluginError(Exception):
    """A plugin failed, or answered what is beyond the limits; in the words of Go's gRPC where it has some."""


class HealthUnserved(DraPluginError):
    """A plugin does not serve the health of its devices."""


class DraPlugin:
    """One registered plugin of a driver, with its connection."""

    def __init__(self, driver: str, endpoint: str, service: str, observe: Observer = lambda *_: None) -> None:
        self.driver, self.endpoint, self.service = driver, endpoint, service
        self.is_connected = False
        self._changed = asyncio.Condition()
        self._observe = observe
        self._channel = grpc.aio.insecure_channel(unix_target(endpoint), options=_OPTIONS)
        self._prepare = self._call(
            "NodePrepareResources", api.NodePrepareResourcesRequest, api.NodePrepareResourcesResponse
        )
        self._unprepare = self._call(
            "NodeUnprepareResources", api.NodeUnprepareResourcesRequest, api.NodeUnprepareResourcesResponse
        )
        self._watch: Any = self._channel.unary_stream(
            _WATCH,
            request_serializer=health_api.NodeWatchResourcesRequest.SerializeToString,
            response_deserializer=health_api.NodeWatchResourcesResponse.FromString,
        )

    async def connections(self) -> AsyncIterator[bool]:
        """Yield whether it is connected, at each change; connects again for ever."""
        while True:
            state = self._channel.get_state(try_to_connect=True)
            if (is_connected := state is grpc.ChannelConnectivity.READY) != self.is_connected:
                self.is_connected = is_connected
                async with self._changed:
                    self._changed.notify_all()
                yield is_connected
            await self._channel.wait_for_state_change(state)

    async def until_connected(self, *, connected: bool = True) -> None:
        """Wait until it is connected, or until it is not; `connections` is followed elsewhere."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.is_connected == connected)

    async def health(self) -> AsyncGenerator[Mapping[DeviceKey, DeviceHealth]]:
        """Yield each report of its devices' health; ends with the stream. Raises HealthUnserved and DraPluginError."""
        stream = self._watch(health_api.NodeWatchResourcesRequest())
        try:
            async for report in stream:
                if report is None:
                    raise DraPluginError(UNDECODABLE)
                yield read_report(report.devices)
                await asyncio.sleep(REPORT_PAUSE * (1 + len(report.devices) / 1_000))
        except grpc.aio.AioRpcError as error:
            kind = HealthUnserved if error.code() is grpc.StatusCode.UNIMPLEMENTED else DraPluginError
            raise kind(in_words(error.code(), error.details() or "")) from error
        except ReportRefused as error:
            raise DraPluginError(str(error)) from error
        finally:
            stream.cancel()

    async def prepare(self, claims: Sequence[Claim]) -> Mapping[str, ClaimAnswer]:
        """Have claims prepared; returns the answers by the claims' uids. Raises DraPluginError."""
        answer = await self._ask(self._prepare, api.NodePrepareResourcesRequest(claims=map(_asked, claims)))
        _check(device for one in answer.claims.values() for device in one.devices)
        return {
            uid: ClaimAnswer(tuple(map(_prepared, one.devices)), shorten(one.error))
            for uid, one in answer.claims.items()
        }

    async def unprepare(self, claims: Sequence[Claim]) -> Mapping[str, ClaimAnswer]:
        """Undo it; returns the answers by the claims' uids. Raises DraPluginError."""
        answer = await self._ask(self._unprepare, api.NodeUnprepareResourcesRequest(claims=map(_asked, claims)))
        return {uid: ClaimAnswer(error=shorten(one.error)) for uid, one in answer.claims.items()}

    async def close(self) -> None:
        """Close its connection; a call under way ends."""
        self.is_connected = False
        await self._channel.close(None)

    def _call(self, name: str, request: Any, response: Any) -> tuple[str, Any]:
        method = f"/{_SERVICE.format(self.service)}/{name}"
        return method, self._channel.unary_unary(
            method, request_serializer=request.SerializeToString, response_deserializer=response.FromString
        )

    async def _ask(self, call: tuple[str, Any], request: Any) -> Any:
        method, send = call
        code, start = grpc.StatusCode.UNKNOWN, time.perf_counter()
        try:
            answer = await send(request, timeout=CALL_SECONDS)
            code = grpc.StatusCode.INTERNAL if answer is None else grpc.StatusCode.OK
        except grpc.aio.AioRpcError as error:
            code = error.code()
            raise DraPluginError(in_words(code, error.details() or "")) from error
        finally:
            self._observe(method, CODES[code], time.perf_counter() - start)
        if answer is None:
            raise DraPluginError(in_words(code, UNDECODABLE))
        return answer


def _asked(claim: Claim) -> api.Claim:
    return api.Claim(namespace=claim.namespace, uid=claim.uid, name=claim.name)


def _check(devices: Any) -> None:
    number = 0
    for one in devices:
        number += 1 + len(one.cdi_device_ids) + len(one.request_names)
        if number > MOST_DEVICES:
            raise DraPluginError(f"the answer has more than {MOST_DEVICES} devices and their names")
        names = (one.pool_name, one.device_name, one.share_id, *one.cdi_device_ids, *one.request_names)
        if any(len(name) > LONGEST_NAME for name in names):
            raise DraPluginError(f"the answer has a device with a name of more than {LONGEST_NAME} characters")


def _prepared(device: api.Device) -> PreparedDevice:
    return PreparedDevice(
        pool=device.pool_name,
        device=device.device_name,
        share_id=device.share_id if device.HasField("share_id") else None,
        requests=tuple(device.request_names),
        cdi_device_ids=tuple(device.cdi_device_ids),
    )
