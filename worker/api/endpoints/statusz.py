"""/statusz: start time, version and paths of this process."""

import platform
import time
from datetime import UTC, datetime
from typing import Any, Final

from aiohttp import web

from worker.api.responses.zpages import zpage
from worker.node.process.dependencies import NodeDependencies
from worker.settings.kubelet.schema import load_schema

_STARTED: Final = time.time()
"""When this module was imported, which is when the node process starts."""


async def handler(request: web.Request, _: NodeDependencies) -> web.StreamResponse:
    """Answer text, or a Statusz object."""
    paths = sorted({"/" + resource.canonical.split("/")[1] for resource in request.app.router.resources()})
    return zpage(
        request.headers.get("Accept", ""),
        "Statusz",
        lambda: page(paths, time.time()),
        lambda: content(paths, time.time()),
    )


def page(paths: list[str], now: float) -> str:
    """Format it as text."""
    up = max(0, int(now - _STARTED))
    started = datetime.fromtimestamp(_STARTED, UTC)
    return f"""
Started: {started:%a %b} {started.day:2} {started:%H:%M:%S UTC %Y}
Up: {up // 3600} hr {up // 60 % 60:02} min {up % 60:02} sec
Python version: {platform.python_version()}
Binary version: {version()}
Emulation version: {emulated()}
Paths: {" ".join(paths)}
"""


def content(paths: list[str], now: float) -> dict[str, Any]:
    """Return the fields of a Statusz; there is no Go version."""
    return {
        "startTime": f"{datetime.fromtimestamp(_STARTED, UTC):%Y-%m-%dT%H:%M:%SZ}",
        "uptimeSeconds": max(0, int(now - _STARTED)),
        "goVersion": "",
        "binaryVersion": version(),
        "emulationVersion": emulated(),
        "paths": paths,
    }


def version() -> str:
    """Return the Kubernetes version that this node implements."""
    return load_schema().version.removeprefix("v")


def emulated() -> str:
    """Return that version without the patch number."""
    return version().rpartition(".")[0]
