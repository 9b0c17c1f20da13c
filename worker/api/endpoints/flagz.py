"""/flagz: the flags this process was started with."""

from collections.abc import Mapping

from aiohttp import web

from worker.api.responses.zpages import zpage
from worker.node.process.dependencies import NodeDependencies


async def handler(request: web.Request, node: NodeDependencies) -> web.StreamResponse:
    """Answer text, or a Flagz object."""
    flags = dict(sorted(node.config.flags.items()))
    return zpage(request.headers.get("Accept", ""), "Flagz", lambda: page(flags), lambda: {"flags": flags})


def page(flags: Mapping[str, str]) -> str:
    """Format the flags as text, one per line."""
    return "".join(f"{name}={value}\n" for name, value in flags.items())
