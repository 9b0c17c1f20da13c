"""A plugin of a DRA driver that fails and lies as a test says; honest plugins are the official test driver's (tests/cluster)."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc.aio

from proto.dra.v1 import api_pb2 as api
from proto.drahealth.v1alpha1 import api_pb2 as health_api
from proto.pluginregistration.v1 import api_pb2 as registration
from proto.pluginregistration.v1 import api_pb2_grpc as registration_grpc

NAME = "gpu.tempolet.test"
V1 = "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin"
V1BETA1 = "k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin"
HEALTH = "v1alpha1.DRAResourceHealth"
Report = health_api.NodeWatchResourcesResponse


def device_of(claim: api.Claim) -> api.NodePrepareResourceResponse:
    """Prepare one device that is named as the claim."""
    device = api.Device(
        request_names=["r"], pool_name="pool", device_name=claim.name, cdi_device_ids=[f"t.test/c={claim.name}"]
    )
    return api.NodePrepareResourceResponse(devices=[device])


def prepared(request: api.NodePrepareResourcesRequest) -> api.NodePrepareResourcesResponse:
    """Prepare all claims."""
    return api.NodePrepareResourcesResponse(claims={one.uid: device_of(one) for one in request.claims})


def unprepared(request: api.NodeUnprepareResourcesRequest) -> api.NodeUnprepareResourcesResponse:
    """Undo it."""
    return api.NodeUnprepareResourcesResponse(
        claims={one.uid: api.NodeUnprepareResourceResponse() for one in request.claims}
    )


def report(pool: str = "pool", *, timeout: int = 0, message: str = "", many: int = 0, **health: bool) -> Report:
    """Report which devices of a pool are healthy, and `many` healthy ones beside them."""
    health |= {str(one): True for one in range(many)}
    return Report(
        devices=[
            health_api.DeviceHealth(
                device=health_api.DeviceIdentifier(pool_name=pool, device_name=name),
                health=health_api.HEALTHY if is_healthy else health_api.UNHEALTHY,
                health_check_timeout_seconds=timeout,
                message=message,
            )
            for name, is_healthy in health.items()
        ]
    )


class FaultyPlugin:
    """What it answers, and what it was asked."""

    def __init__(self) -> None:
        self.prepare: Callable[[Any], Any] = prepared
        self.unprepare: Callable[[Any], Any] = unprepared
        self.hangs = False
        self.asked: list[tuple[str, list[str]]] = []
        self.called = asyncio.Event()
        self.told: list[tuple[bool, str]] = []
        self.health: Callable[[], AsyncIterator[Report | bytes]] | None = None
        """What the stream of its devices' health has; None: it serves no such stream."""
        self.streams = 0

    async def answer(self, call: str, request: Any) -> bytes:
        """Answer a call of a driver."""
        self.asked.append((call, [one.name for one in request.claims]))
        self.called.set()
        if self.hangs:
            await asyncio.Event().wait()
        answer = (self.prepare if call == "NodePrepareResources" else self.unprepare)(request)
        return answer if isinstance(answer, bytes) else bytes(answer.SerializeToString())

    async def watch(self, _: Any, context: Any) -> AsyncIterator[bytes]:
        """Serve the stream of its devices' health."""
        self.streams += 1
        self.called.set()
        if self.health is None:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, f"unknown service {HEALTH}")
            return
        async for one in self.health():
            yield one if isinstance(one, bytes) else one.SerializeToString()


class _Registrar(registration_grpc.RegistrationServicer):  # type: ignore[misc]  # generated without types
    def __init__(self, plugin: FaultyPlugin, info: registration.PluginInfo) -> None:
        self._plugin, self._info = plugin, info

    async def GetInfo(self, _: Any, context: Any) -> registration.PluginInfo:  # noqa: N802, ARG002 - gRPC's names
        return self._info

    async def NotifyRegistrationStatus(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - gRPC's names
        self._plugin.told.append((request.plugin_registered, request.error))
        return registration.RegistrationStatusResponse()


@asynccontextmanager
async def serving_plugin(
    folder: Path, plugin: FaultyPlugin, *, name: str = NAME, versions: tuple[str, ...] = ("v1.DRAPlugin",)
) -> AsyncIterator[Path]:
    """Serve a plugin in a folder, with `reg.sock` and `dra.sock`; yields the registration's socket."""
    folder.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240 - a test's own folder
    endpoint, socket = folder / "dra.sock", folder / "reg.sock"
    info = registration.PluginInfo(
        type="DRAPlugin", name=name, endpoint=str(endpoint), supported_versions=list(versions)
    )
    server, registrar = grpc.aio.server(), grpc.aio.server()
    for service in (V1, V1BETA1):
        handlers = {
            call: grpc.unary_unary_rpc_method_handler(_handler(plugin, call), request_deserializer=request.FromString)
            for call, request in (
                ("NodePrepareResources", api.NodePrepareResourcesRequest),
                ("NodeUnprepareResources", api.NodeUnprepareResourcesRequest),
            )
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    watch = grpc.unary_stream_rpc_method_handler(
        plugin.watch, request_deserializer=health_api.NodeWatchResourcesRequest.FromString
    )
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(HEALTH, {"NodeWatchResources": watch}),))
    registration_grpc.add_RegistrationServicer_to_server(_Registrar(plugin, info), registrar)
    for one, path in ((server, endpoint), (registrar, socket)):
        one.add_insecure_port(f"unix://{path}")
        await one.start()
    try:
        yield socket
    finally:
        await registrar.stop(None)
        await server.stop(None)


def _handler(plugin: FaultyPlugin, call: str) -> Callable[[Any, Any], Any]:
    async def handle(request: Any, _: Any) -> bytes:
        return await plugin.answer(call, request)

    return handle
