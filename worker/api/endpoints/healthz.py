"""/healthz and its single checks, in the form of Kubernetes' health checks.

`report` runs the checks and returns status and text (apiserver/pkg/server/healthz). The reason of a failure is answered only
for a single check, which needs its own permission, and logged.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from http import HTTPStatus

import structlog
from aiohttp import web

from worker.api.responses.responses import PAGE_NOT_FOUND, text_response
from worker.node.process.dependencies import NodeDependencies
from worker.node.process.healthz import ALWAYS_OK, SYNC_LOOP, sync_loop
from workflows.decide.manifest.fields.field_errors import shortened

Check = Callable[[], Awaitable[str]]
"""Returns what is wrong; empty if nothing is."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Report:
    """The answer of a health check."""

    status: HTTPStatus
    text: str


async def handler(request: web.Request, node: NodeDependencies) -> web.StreamResponse:
    """Answer for all checks together."""
    excluded = frozenset(request.query.getall("exclude", ()))
    result = await report(checks(node), excluded=excluded, verbose="verbose" in request.query)
    return text_response(result.text, result.status)


async def one(request: web.Request, node: NodeDependencies) -> web.StreamResponse:
    """Answer for one check, with the reason if it fails."""
    check = checks(node).get(request.match_info["check"])
    if check is None:
        return text_response(PAGE_NOT_FOUND, HTTPStatus.NOT_FOUND)
    wrong = await check()
    if wrong:
        return text_response(f"internal server error: {wrong}\n", HTTPStatus.INTERNAL_SERVER_ERROR)
    return text_response("ok")


def checks(node: NodeDependencies) -> Mapping[str, Check]:
    """Return the kubelet's checks: the server answers, logs are written, the loops turn and this node's processes run."""

    async def fine() -> str:
        return ""

    async def loops() -> str:
        return sync_loop(node.health, node.processes)

    return {**dict.fromkeys(ALWAYS_OK, fine), SYNC_LOOP: loops}


async def report(checks: Mapping[str, Check], *, excluded: Collection[str] = (), verbose: bool = False) -> Report:
    """Run all checks but the excluded ones and format the result as Kubernetes does: details if one fails, else `ok`."""
    lines, failed = [], {}
    for name, check in checks.items():
        if name in excluded:
            lines.append(f"[+]{name} excluded: ok")
        elif wrong := await check():
            failed[name] = wrong
            lines.append(f"[-]{name} failed: reason withheld")
        else:
            lines.append(f"[+]{name} ok")
    if unknown := sorted(set(excluded) - set(checks)):
        named = shortened(",".join(f'"{name}"' for name in unknown))
        lines.append(f"warn: some health checks cannot be excluded: no matches for {named}")
    if failed:
        log.warning("healthz check failed", **failed)
        return Report(HTTPStatus.INTERNAL_SERVER_ERROR, "\n".join((*lines, "healthz check failed", "")))
    return Report(HTTPStatus.OK, "\n".join((*lines, "healthz check passed", "")) if verbose else "ok")
