"""/statusz: since when this process runs, of which version it is, and which paths it answers."""

import platform
import time
from datetime import UTC, datetime
from typing import Any, Final

from aiohttp import web

from worker.api.responses.zpages import zpage
from worker.node.process.dependencies import NodeDependencies
from worker.settings.kubelet.schema import load_schema

_STARTED: Final = time.time()
"""When this module came, which the node process imports when it starts."""


async def handler(request: web.Request, _: NodeDependencies) -> web.StreamResponse:
    """Answer a page, or a Statusz."""
    paths = sorted({"/" + resource.canonical.split("/")[1] for resource in request.app.router.resources()})
    return zpage(
        request.headers.get("Accept", ""),
        "Statusz",
        lambda: page(paths, time.time()),
        lambda: content(paths, time.time()),
    )


def page(paths: list[str], now: float) -> str:
    """Write it for people."""
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
    """Give the fields of a Statusz; of Go there is no version to tell."""
    return {
        "startTime": f"{datetime.fromtimestamp(_STARTED, UTC):%Y-%m-%dT%H:%M:%SZ}",
        "uptimeSeconds": max(0, int(now - _STARTED)),
        "goVersion": "",
        "binaryVersion": version(),
        "emulationVersion": emulated(),
        "paths": paths,
    }


def version() -> str:
    """Give the Kubernetes version that this node speaks for."""
    return load_schema().version.removeprefix("v")


def emulated() -> str:
    """Give it without the patch."""
    return version().rpartition(".")[0]
