"""/configz: the KubeletConfiguration in force, including defaults, drop-ins and flags.

The headers of the manifest URL may hold credentials and are masked.
"""

from typing import Final

from aiohttp import web

from worker.api.responses.responses import json_response
from worker.machine.cgroup_driver import recorded_driver
from worker.node.process.dependencies import NodeDependencies

_HEADERS: Final = "staticPodURLHeader"


async def handler(_: web.Request, node: NodeDependencies) -> web.StreamResponse:
    """Answer in the form of component-base's configz."""
    shown = {**node.config.kubelet, "cgroupDriver": recorded_driver(node.config.state_dir)}  # the runtime's, as there
    if shown.get(_HEADERS):
        shown[_HEADERS] = {name: ["<masked>"] for name in shown[_HEADERS]}
    return json_response({"kubeletconfig": shown})
