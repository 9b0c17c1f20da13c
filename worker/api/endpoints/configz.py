"""/configz: the KubeletConfiguration that is in force, defaults, drop-ins and flags included.

Headers for the manifests' URL may hold credentials and are not shown.
"""

from typing import Final

from aiohttp import web

from worker.api.responses.responses import json_response
from worker.node.process.dependencies import NodeDependencies

_HEADERS: Final = "staticPodURLHeader"


async def handler(_: web.Request, node: NodeDependencies) -> web.StreamResponse:
    """Answer as component-base's configz does, under the kubelet's name."""
    shown = dict(node.config.kubelet)
    if shown.get(_HEADERS):
        shown[_HEADERS] = {name: ["<masked>"] for name in shown[_HEADERS]}
    return json_response({"kubeletconfig": shown})
