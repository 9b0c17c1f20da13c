"""/stats/summary: current resource usage of node, pods and containers as JSON.

`?only_cpu_and_memory=true` omits disks and network.
"""

from http import HTTPStatus
from typing import Final

from aiohttp import web

from activities.clients.cri_error import CriError
from worker.api.responses.responses import Refused, raw_json_response
from worker.node.process.dependencies import NodeDependencies

_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
"""The values that Go's strconv.ParseBool reads as true."""


async def handler(request: web.Request, node: NodeDependencies) -> web.StreamResponse:
    """Answer /stats/summary."""
    brief = request.query.get("only_cpu_and_memory", "") in _TRUE
    try:
        return raw_json_response(await node.stats.summary(only_cpu_and_memory=brief))
    except (CriError, OSError) as error:
        sentence = f"Internal Error: what pods use can't be read now: {error}"
        raise Refused(HTTPStatus.INTERNAL_SERVER_ERROR, sentence) from error
