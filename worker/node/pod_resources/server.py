"""The PodResources API on `<root-dir>/pod-resources/kubelet.sock`: pods, and what is assigned to their containers.

Monitoring agents of devices use it. v1 and v1alpha1 as by the kubelet (pkg/kubelet/apis/podresources), with its rate limit. A
connection ends after some minutes, and with it requests whose client hangs.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio

from proto.podresources.v1 import api_pb2 as api
from proto.podresources.v1 import api_pb2_grpc
from proto.podresources.v1alpha1 import api_pb2 as alpha
from proto.podresources.v1alpha1 import api_pb2_grpc as alpha_grpc
from worker.endpoints.grpc_servers import serve_until_cancelled
from worker.endpoints.unix_sockets import short_name
from worker.node.pod_resources.assigned import AssignedClaims, AssignedCpus, AssignedDevices, AssignedMemory
from worker.node.pod_resources.listing import Listing
from worker.node.process.dependencies import NodeDependencies
from worker.settings.kubelet.feature_gates import ACTIVE_PODS_GATE, POD_RESOURCES_GATE

SOCKET: Final = Path("pod-resources/kubelet.sock")
QPS: Final = 100
BURST: Final = 10
REJECTED: Final = "rejected by rate limit"
LARGEST_REQUEST: Final = 64 * 1024
"""Bytes; the names of a pod and its namespace have a few hundred."""
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", LARGEST_REQUEST),
    ("grpc.max_concurrent_streams", 100),
    ("grpc.max_connection_age_ms", 300_000),
    ("grpc.max_connection_age_grace_ms", 10_000),
)
_Count = Callable[..., None]


async def serve_pod_resources(deps: NodeDependencies) -> None:
    """Serve until cancelled; raises OSError and RuntimeError if the socket cannot be created. Without its gate nothing is served."""
    config = deps.config
    if not config.feature_gates.enabled(POD_RESOURCES_GATE):
        await asyncio.Event().wait()
    path = config.root_dir / SOCKET
    path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    root_dir = config.root_dir
    assigned = (
        AssignedCpus(config.cpu_manager, root_dir),
        AssignedMemory(config.memory_manager, root_dir),
        AssignedDevices(root_dir),
        AssignedClaims(root_dir),
    )
    only_active = config.feature_gates.enabled(ACTIVE_PODS_GATE)
    listing = Listing(config.root_dir, assigned, only_active=only_active)
    server = grpc.aio.server(interceptors=(RateLimit(),), options=_OPTIONS)
    with short_name(path) as short:
        try:
            count = deps.metrics.pod_resources_request
            api_pb2_grpc.add_PodResourcesListerServicer_to_server(PodResources(listing, count), server)
            alpha_grpc.add_PodResourcesListerServicer_to_server(PodResourcesAlpha(listing, count), server)
            server.add_insecure_port(f"unix:{short}")
            await serve_until_cancelled(server)
        finally:
            path.unlink(missing_ok=True)


class PodResources(api_pb2_grpc.PodResourcesListerServicer):  # type: ignore[misc]  # generated
    """The methods of v1."""

    def __init__(self, listing: Listing, count: _Count) -> None:
        self._listing, self._count = listing, count

    async def List(self, request: Any, context: Any) -> api.ListPodResourcesResponse:  # noqa: ARG002, N802 - gRPC's
        """List the pods."""
        self._count("v1", "list")
        return await self._listing.pods()

    async def Get(self, request: api.GetPodResourcesRequest, context: Any) -> api.GetPodResourcesResponse:  # noqa: N802 - gRPC's
        """Return one pod; UNKNOWN if there is none of that name, as by the kubelet."""
        self._count("v1", "get")
        if (found := await self._listing.pod(request.pod_namespace, request.pod_name)) is None:
            self._count("v1", "get", failed=True)
            sentence = f"pod {request.pod_name} in namespace {request.pod_namespace} not found"
            await context.abort(grpc.StatusCode.UNKNOWN, sentence)
        return api.GetPodResourcesResponse(pod_resources=found)

    async def GetAllocatableResources(  # noqa: N802 - gRPC's
        self,
        request: Any,  # noqa: ARG002 - gRPC's
        context: Any,  # noqa: ARG002 - gRPC's
    ) -> api.AllocatableResourcesResponse:
        """Return what containers may have to themselves."""
        self._count("v1", "get_allocatable")
        return await self._listing.allocatable()


class PodResourcesAlpha(alpha_grpc.PodResourcesListerServicer):  # type: ignore[misc]  # generated
    """The method of v1alpha1."""

    def __init__(self, listing: Listing, count: _Count) -> None:
        self._listing, self._count = listing, count

    async def List(self, request: Any, context: Any) -> alpha.ListPodResourcesResponse:  # noqa: ARG002, N802 - gRPC's
        """List the pods."""
        self._count("v1alpha1")
        return await self._listing.pods_of_alpha()


class RateLimit(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]  # generic in the stubs only
    """Refuses what exceeds the rate (golang.org/x/time/rate): refused requests are not counted."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._tokens, self._at = clock, float(BURST), clock()

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], handler_call_details: Any) -> Any:
        """Pass a request on, or refuse it before its message is read."""
        return await continuation(handler_call_details) if self.allows() else _REFUSAL

    def allows(self) -> bool:
        """Take a token, if there is one."""
        now = self._clock()
        self._tokens = min(self._tokens + (now - self._at) * QPS, BURST)
        self._at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


async def _refuse(request: Any, context: Any) -> None:  # noqa: ARG001 - gRPC's
    await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, REJECTED)


_REFUSAL: Final = grpc.unary_unary_rpc_method_handler(_refuse)
