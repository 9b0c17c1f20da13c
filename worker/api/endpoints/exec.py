"""/exec/{podNamespace}/{podID}[/{uid}]/{containerName}: runs a command in a container over upgraded streams (kubectl exec, cp).

pkg/kubelet/server/server.go getExec. The command is sent to the runtime and nowhere else: not to a log, not to an event.
"""

from aiohttp import web

from proto.cri.v1 import api_pb2 as cri
from worker.api.containers.named_pod import ContainerRequest, find_pod
from worker.api.containers.runtime_calls import running_container, runtime_result
from worker.api.streams.options import stream_options
from worker.api.streams.translation import is_translated, translate_streams
from worker.api.streams.upgrade_proxy import proxy_upgrade, require_upgrade
from worker.node.process.dependencies import NodeDependencies
from worker.settings.kubelet.feature_gates import WEBSOCKETS_GATE


async def handler(request: web.Request, node: NodeDependencies) -> web.StreamResponse:
    """Start a command and connect the client to its streams; raises Refused."""
    wanted = stream_options(request.query)
    asked = ContainerRequest.of(request)
    pod = await find_pod(node.config.root_dir, asked)
    container_id = running_container(pod, asked.container)
    require_upgrade(request)
    command = cri.ExecRequest(
        container_id=container_id,
        cmd=request.query.getall("command", []),
        tty=wanted.tty,
        stdin=wanted.stdin,
        stdout=wanted.stdout,
        stderr=wanted.stderr,
    )
    url = await runtime_result(node.runtime.exec(command))
    idle = node.cluster.serving.streaming_idle
    if is_translated(request) and node.config.feature_gates.enabled(WEBSOCKETS_GATE):
        return await translate_streams(request, url, wanted, idle)
    return await proxy_upgrade(request, url, idle)
