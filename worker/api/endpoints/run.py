"""/run/{podNamespace}/{podID}[/{uid}]/{containerName}: runs a command in a container and answers its output.

pkg/kubelet/server/server.go getRun; older than exec, for use by hand. The command is split at blanks, and stderr follows
stdout. The command is cancelled when the client disconnects.
"""

from http import HTTPStatus

from aiohttp import web

from worker.api.containers.named_pod import ContainerRequest, find_pod
from worker.api.containers.runtime_calls import running_container, runtime_result
from worker.api.responses.responses import Refused
from worker.node.process.dependencies import NodeDependencies


async def handler(request: web.Request, node: NodeDependencies) -> web.StreamResponse:
    """Run a command to its end; raises Refused with a non-zero exit code."""
    asked = ContainerRequest.of(request)
    pod = await find_pod(node.config.root_dir, asked)
    container_id = running_container(pod, asked.container)
    command = request.query.get("cmd", "").split(" ")
    ended = await runtime_result(node.runtime.exec_sync(container_id, command))
    if ended.exit_code:
        stderr = ended.stderr.decode(errors="replace")
        sentence = f"command '{' '.join(command)}' exited with {ended.exit_code}: {stderr}"
        raise Refused(HTTPStatus.INTERNAL_SERVER_ERROR, sentence)
    return web.Response(body=ended.stdout + ended.stderr, content_type="application/json")
