"""/stats/summary: what node, pods and containers use now, as JSON (`?only_cpu_and_memory=true`: without disks and network)."""

from http import HTTPStatus
from typing import Final

from aiohttp import web

from activities.clients.cri_error import CriError
from worker.api.responses.responses import Refused, raw_json_response
from worker.node.process.dependencies import NodeDependencies

_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
"""What Go takes for true (strconv.ParseBool)."""


async def handler(request: web.Request, node: NodeDependencies) -> web.StreamResponse:
    """Answer /stats/summary."""
    brief = request.query.get("only_cpu_and_memory", "") in _TRUE
    try:
        return raw_json_response(await node.stats.summary(only_cpu_and_memory=brief))
    except (CriError, OSError) as error:
        sentence = f"Internal Error: what pods use can't be read now: {error}"
        raise Refused(HTTPStatus.INTERNAL_SERVER_ERROR, sentence) from error
