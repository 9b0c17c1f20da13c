"""The table of the node's API: path, required access, the KubeletConfiguration switch that enables it, and handler.

A new endpoint is a file with `async def handler(request, node)` and a row here. Authorization reads the row and never the path,
so what is authorized is what runs. A test requests each row without and with every kind of credentials, and fails for a handler
without a row.
"""

from typing import Final

from worker.api.access.route import PROXY, Route
from worker.api.container_logs import endpoint as container_logs
from worker.api.endpoints import (
    attach,
    checkpoint,
    configz,
    debug,
    flagz,
    healthz,
    metrics,
    pods,
    port_forward,
    run,
    running_pods,
    stats_summary,
    statusz,
)
from worker.api.endpoints import exec as exec_in_container
from worker.api.node_logs import endpoint as node_logs
from worker.api.responses.responses import PAGE_NOT_FOUND
from worker.settings.cluster import Serving

STREAMING: Final = "create"
"""The verb for what runs in containers, whatever the method: a WebSocket comes as GET, and nodes/proxy `get` must not allow
`exec`."""

DEBUGGING_DISABLED: Final = "Debug endpoints are disabled.\n"


def debugging(serving: Serving) -> str:
    """Check enableDebuggingHandlers."""
    return "" if serving.debugging else DEBUGGING_DISABLED


def with_debugging(serving: Serving) -> str:
    """Check enableDebuggingHandlers for a path that does not exist without it."""
    return "" if serving.debugging else PAGE_NOT_FOUND


def system_logs(serving: Serving) -> str:
    """Check enableSystemLogHandler, which also needs enableDebuggingHandlers."""
    return debugging(serving) or ("" if serving.system_logs else "logs endpoint is disabled.\n")


def debug_flags(serving: Serving) -> str:
    """Check enableDebugFlagsHandler."""
    return with_debugging(serving) or ("" if serving.flags_handler else "flags endpoint is disabled.\n")


def profiling(serving: Serving) -> str:
    """Check enableProfilingHandler."""
    return debugging(serving) or ("" if serving.profiling else "profiling endpoint is disabled.\n")


_CONTAINER: Final = "/{podNamespace}/{podID}/{containerName}"
_CONTAINER_BY_UID: Final = "/{podNamespace}/{podID}/{uid}/{containerName}"
_GET_OR_POST: Final = ("GET", "POST")

_HEALTH: Final = tuple(
    Route(path=path, handler=answer, subresources=("healthz", *PROXY), read_only=True, always_answered=True)
    for path, answer in {"/healthz": healthz.handler, "/healthz/{check}": healthz.one}.items()
)
_SHOWN: Final = (
    Route(path="/pods", handler=pods.handler, subresources=("pods", *PROXY), read_only=True),
    Route(path="/runningpods", handler=running_pods.handler, subresources=("pods", *PROXY), switch=debugging),
    Route(path="/configz", handler=configz.handler, subresources=("configz", *PROXY), switch=with_debugging),
    Route(
        path="/statusz",
        handler=statusz.handler,
        subresources=("statusz",),
        switch=with_debugging,
        gate="ComponentStatusz",
    ),
    Route(
        path="/flagz", handler=flagz.handler, subresources=("configz",), switch=with_debugging, gate="ComponentFlagz"
    ),
)
_LOGS: Final = tuple(
    Route(path=path, handler=answer, subresources=("log",), switch=system_logs, long_running=True)
    for path, answer in {"/logs": node_logs.folder, "/logs/{path:.*}": node_logs.handler}.items()
)
_DEBUG: Final = (
    Route(
        path="/debug/flags/v",
        handler=debug.verbosity,
        methods=("GET", "PUT", "POST", "PATCH", "DELETE"),
        switch=debug_flags,
    ),
    Route(path="/debug/pprof/{path:.*}", handler=debug.profile, switch=profiling),
    Route(
        path=f"/checkpoint{_CONTAINER}",
        handler=checkpoint.handler,
        methods=("POST",),
        subresources=("checkpoint",),
        switch=with_debugging,
        gate="ContainerCheckpoint",
        long_running=True,
    ),
)
_METRICS: Final = (
    Route(path="/metrics", handler=metrics.handler, subresources=("metrics",), read_only=True),
    Route(path="/metrics/cadvisor", handler=metrics.cadvisor, subresources=("metrics",), read_only=True),
    Route(path="/metrics/resource", handler=metrics.resource, subresources=("metrics",), read_only=True),
    Route(path="/metrics/probes", handler=metrics.probes, subresources=("metrics",), read_only=True),
    Route(path="/metrics/slis", handler=metrics.slis, subresources=("metrics",), read_only=True),
    Route(path="/stats/summary", handler=stats_summary.handler, subresources=("stats",), read_only=True),
)
_CONTAINERS: Final = (
    Route(path=f"/containerLogs{_CONTAINER}", handler=container_logs.handler, switch=debugging, long_running=True),
    *(
        Route(
            path=f"/{what}{place}",
            handler=handler,
            methods=_GET_OR_POST,
            verb=STREAMING,
            switch=debugging,
            long_running=True,
        )
        for what, handler, places in (
            ("exec", exec_in_container.handler, (_CONTAINER, _CONTAINER_BY_UID)),
            ("attach", attach.handler, (_CONTAINER, _CONTAINER_BY_UID)),
            ("portForward", port_forward.handler, ("/{podNamespace}/{podID}", "/{podNamespace}/{podID}/{uid}")),
        )
        for place in places
    ),
    *(
        Route(
            path=f"/run{place}",
            handler=run.handler,
            methods=("POST",),
            verb=STREAMING,
            switch=debugging,
            long_running=True,
        )
        for place in (_CONTAINER, _CONTAINER_BY_UID)
    ),
)
ROUTES: Final[tuple[Route, ...]] = (*_HEALTH, *_SHOWN, *_LOGS, *_DEBUG, *_METRICS, *_CONTAINERS)
