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
"""Why an endpoint is closed, in the kubelet's words (answered with 405); empty: it is open."""

PROXY: Final = ("proxy",)
"""The subresource that covers every path without one of its own."""
WHOLE_PATH: Final = "path"
"""The only parameter that may hold slashes: `{path:.*}`."""


def _open(_: Serving) -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One path and what belongs to it."""

    path: str
    """aiohttp's pattern; `{name}` never holds a slash, not even a quoted one."""
    handler: Handler
    methods: tuple[str, ...] = ("GET",)
    subresources: tuple[str, ...] = PROXY
    """Of the node, in the order in which they are asked; one that is allowed is enough (pkg/kubelet/server/auth.go)."""
    verb: str = ""
    """Empty: the method's."""
    switch: Switch = _open
    gate: str = ""
    """The feature gate without which there is no such path."""
    long_running: bool = False
    """Lasts as long as its client likes: exec, attach, portForward, followed logs."""
    read_only: bool = False
    """Served without credentials on readOnlyPort, too."""
    always_answered: bool = False
    """Needs no place among the requests that are answered at a time."""
