"""/portForward/{podNamespace}/{podID}[/{uid}]: connections to a pod's ports (kubectl port-forward).

pkg/kubelet/server/server.go getPortForward. Over SPDY each stream names its port; a WebSocket client names all of them in the
query.
"""

from http import HTTPStatus

from aiohttp import web

from proto.cri.v1 import api_pb2 as cri
from worker.api.containers.named_pod import ContainerRequest, find_pod, quoted
from worker.api.containers.runtime_calls import runtime_result
from worker.api.responses.responses import Refused
from worker.api.streams.options import ports
from worker.api.streams.tunnel import is_tunnel, tunnel_spdy
from worker.api.streams.upgrade_proxy import is_websocket, proxy_upgrade, require_upgrade
from worker.node.process.dependencies import NodeDependencies
from worker.settings.kubelet.feature_gates import WEBSOCKETS_GATE


async def handler(request: web.Request, node: NodeDependencies) -> web.StreamResponse:
    """Connect the client to the pod's ports; raises Refused."""
    tunnel = is_tunnel(request) and node.config.feature_gates.enabled(WEBSOCKETS_GATE)
    asked_ports = ports(request.query) if is_websocket(request) and not tunnel else []
    asked = ContainerRequest.of(request)
    pod = await find_pod(node.config.root_dir, asked)
    if not pod.snapshot.sandbox_id or not pod.snapshot.sandbox_ready:
        raise Refused(HTTPStatus.NOT_FOUND, f"pod not found ({quoted(pod.full_name)})")
    require_upgrade(request)
    way = cri.PortForwardRequest(pod_sandbox_id=pod.snapshot.sandbox_id, port=asked_ports)
    url = await runtime_result(node.runtime.port_forward(way))
    idle = node.cluster.serving.streaming_idle
    return await (tunnel_spdy if tunnel else proxy_upgrade)(request, url, idle)
