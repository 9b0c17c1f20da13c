"""/debug: the log verbosity, and the pprof profiles that have a counterpart in Python.

`goroutine` lists the stacks of tasks and threads, `cmdline` the command line; heap, profile and trace are specific to Go and
absent. Stacks show names of code, never values.
"""

import asyncio
import io
import re
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final

import structlog
from aiohttp import web

from worker.api.responses.responses import Refused, text_response
from worker.daemon.logs import set_verbosity
from worker.node.process.dependencies import NodeDependencies

_HIGHEST: Final = 10
_NUMBER: Final = re.compile(r"\d{1,9}", re.ASCII)
_READ_WITHIN: Final = 10.0
_DEEPEST: Final = 20
"""Frames of a stack that are shown."""

log = structlog.get_logger(__name__)


async def verbosity(request: web.Request, _: NodeDependencies) -> web.StreamResponse:
    """Set the node process's verbosity to the number in the body (PUT /debug/flags/v), like the kubelet's GlogSetter."""
    if request.method != "PUT":
        return text_response("unsupported http method\n", HTTPStatus.NOT_ACCEPTABLE)
    try:
        async with asyncio.timeout(_READ_WITHIN):
            body = (await request.read()).decode("utf-8", "replace")
    except TimeoutError:
        raise Refused(HTTPStatus.REQUEST_TIMEOUT, "error reading request body: it took too long\n") from None
    if not _NUMBER.fullmatch(body) or int(body) > _HIGHEST:
        wrong = f"failed set klog.logging.verbosity {body[:20]!r}: must be a number from 0 to {_HIGHEST}\n"
        return text_response(wrong, HTTPStatus.BAD_REQUEST)
    set_verbosity(int(body))
    log.info("Verbosity changed", verbosity=int(body))
    return text_response(f"successfully set klog.logging.verbosity to {body}\n")


async def profile(request: web.Request, node: NodeDependencies) -> web.StreamResponse:
    """Answer one of `PROFILES`, or the list of their names."""
    name = request.match_info["path"].rstrip("/")
    if not name:
        return text_response("/debug/pprof/\n\n" + "".join(f"{one}\n" for one in PROFILES))
    write = PROFILES.get(name)
    if write is None:
        raise Refused(HTTPStatus.NOT_FOUND, "Unknown profile\n")
    return text_response(write(node))


def stacks(_: NodeDependencies) -> str:
    """Return the stack of each task and each thread of this process."""
    output = io.StringIO()
    tasks = sorted(asyncio.all_tasks(), key=lambda one: one.get_name())
    print(f"{len(tasks)} tasks, {threading.active_count()} threads", file=output)
    for task in tasks:
        print(f"\ntask {task.get_name()}:", file=output)
        output.writelines(traceback.format_list(_awaiting(task.get_coro())))
    threads = {one.ident: one.name for one in threading.enumerate()}
    for ident, frame in sys._current_frames().items():  # noqa: SLF001 - the only way to other threads' frames
        print(f"\nthread {threads.get(ident, ident)}:", file=output)
        output.writelines(traceback.format_stack(frame, limit=_DEEPEST))
    return output.getvalue()


def _awaiting(waiting: Any) -> list[traceback.FrameSummary]:
    """Return where a task's coroutine waits, outermost first; Task.get_stack shows only the outermost frame."""
    found: list[traceback.FrameSummary] = []
    while waiting is not None and len(found) < _DEEPEST:
        kind = next((one for one in ("cr", "ag", "gi") if hasattr(waiting, f"{one}_frame")), None)
        if kind is None:
            break  # a future
        if frame := getattr(waiting, f"{kind}_frame"):
            found.extend(traceback.extract_stack(frame, limit=1))
        waiting = getattr(waiting, "gi_yieldfrom" if kind == "gi" else f"{kind}_await")
    return found


def _command_line(node: NodeDependencies) -> str:
    """Return the command line as /flagz knows it: the system's own may contain a password."""
    return "\0".join(("tempolet", "node", *(f"--{name}={value}" for name, value in node.config.flags.items())))


PROFILES: Final[Mapping[str, Callable[[NodeDependencies], str]]] = {"cmdline": _command_line, "goroutine": stacks}
