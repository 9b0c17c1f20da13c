"""One row of the API's table: a path, who may request it, when it is served, and its handler.

`worker/api/routes.py` holds the rows. Authorization reads the row and never the path, so what is authorized is what runs.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from worker.node.process.dependencies import NodeDependencies
from worker.settings.cluster import Serving

Handler = Callable[[web.Request, NodeDependencies], Awaitable[web.StreamResponse]]
Switch = Callable[[Serving], str]
"""Returns why an endpoint is disabled, in the kubelet's words (answered with 405); empty if it is enabled."""

PROXY: Final = ("proxy",)
"""The subresource that covers every path without one of its own."""
WHOLE_PATH: Final = "path"
"""The only parameter that may hold slashes: `{path:.*}`."""


def _open(_: Serving) -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One path of the API, who may request it, and its handler."""

    path: str
    """aiohttp's pattern; `{name}` never matches a slash, not even a quoted one."""
    handler: Handler
    methods: tuple[str, ...] = ("GET",)
    subresources: tuple[str, ...] = PROXY
    """The node's subresources, tried in this order; permission for one is enough (pkg/kubelet/server/auth.go)."""
    verb: str = ""
    """Empty: derived from the method."""
    switch: Switch = _open
    gate: str = ""
    """The feature gate that enables the path."""
    long_running: bool = False
    """The client decides how long it lasts: exec, attach, portForward, followed logs."""
    read_only: bool = False
    """Also served without credentials on readOnlyPort."""
    always_answered: bool = False
    """Exempt from the limit on concurrent requests."""
