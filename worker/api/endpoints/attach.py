"""/attach/{podNamespace}/{podID}[/{uid}]/{containerName}: the streams of a container's main process (kubectl attach, run -it).

pkg/kubelet/server/server.go getAttach. The container's spec decides whether there is a terminal, not the client.
"""

from http import HTTPStatus

from aiohttp import web

from proto.cri.v1 import api_pb2 as cri
from worker.api.containers.named_pod import ContainerRequest, find_pod
from worker.api.containers.runtime_calls import running_container, runtime_result
from worker.api.responses.responses import Refused
from worker.api.streams.options import StreamOptions, stream_options
from worker.api.streams.translation import is_translated, translate_streams
from worker.api.streams.upgrade_proxy import proxy_upgrade, require_upgrade
from worker.node.process.dependencies import NodeDependencies
from worker.settings.kubelet.feature_gates import WEBSOCKETS_GATE
from workflows.decide.manifest.fields.field_errors import shortened


async def handler(request: web.Request, node: NodeDependencies) -> web.StreamResponse:
    """Connect the client to a container's streams; raises Refused."""
    wanted = stream_options(request.query)
    asked = ContainerRequest.of(request)
    pod = await find_pod(node.config.root_dir, asked)
    container_id = running_container(pod, asked.container)
    spec = pod.containers().get(asked.container)
    if spec is None:
        raise Refused(HTTPStatus.NOT_FOUND, f"container {shortened(asked.container)} not found in pod {pod.full_name}")
    require_upgrade(request)
    tty = bool(spec.get("tty"))
    wanted = StreamOptions(wanted.stdin, wanted.stdout, wanted.stderr and not tty, tty)
    streams = cri.AttachRequest(
        container_id=container_id, tty=tty, stdin=wanted.stdin, stdout=wanted.stdout, stderr=wanted.stderr
    )
    url = await runtime_result(node.runtime.attach(streams))
    idle = node.cluster.serving.streaming_idle
    if is_translated(request) and node.config.feature_gates.enabled(WEBSOCKETS_GATE):
        return await translate_streams(request, url, wanted, idle)
    return await proxy_upgrade(request, url, idle)
