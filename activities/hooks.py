"""Run a container's lifecycle hooks (pkg/kubelet/lifecycle/handlers.go).

How a hook ended is an answer, also when it failed, for a hook runs once and what follows is the workflow's to judge. Only a
runtime that is away is raised, so that Temporal tries again; whether the try before had run the hook nobody knows then, and
the answer says so. What a hook wrote is told in its last bytes, as a termination message is.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from math import ceil
from typing import Any, Final

from temporalio import activity

from activities.errors import CriError, Remedy, shorten, unavailable
from activities.heartbeat import heartbeating
from activities.hook_request import answered
from activities.node_services import NodeServices
from activities.probes.outcome import Target
from proto.temporal import names
from proto.temporal.requests import HookEnded, RunHook

SHORTEST: Final = timedelta(seconds=1)
"""A hook that comes late (its worker was away) still runs: a grace is never shorter than this."""
OUTPUT_BYTES: Final = 1024
"""How much of what a command wrote is told."""


class HookFailed(Exception):
    """The hook did not do what it was to do; the message says why."""


class HookActivities:
    """Hooks, from the request to how they ended."""

    def __init__(self, services: NodeServices) -> None:
        self._services = services
        self._handlers: Mapping[str, Callable[[RunHook, Mapping[str, Any]], Awaitable[None]]] = {
            "exec": self._exec,
            "httpGet": self._http_get,
            "sleep": _sleep,
        }

    @activity.defn(name=names.RUN_HOOK)
    async def run_hook(self, request: RunHook) -> HookEnded:
        """Run it within its grace, if it has one, and answer how it ended. Raises RuntimeUnavailable."""
        again = activity.info().attempt > 1
        async with heartbeating(f"{request.hook} of {request.name} of {request.pod}"):
            try:
                async with asyncio.timeout(_seconds_left(request)) as limit:
                    await self._run(request)
            except HookFailed as failed:
                return HookEnded(succeeded=False, message=shorten(str(failed)), again=again)
            except TimeoutError as error:
                ran_out = f"the grace period of {_seconds(request.grace)} s ran out" if limit.expired() else str(error)
                return HookEnded(succeeded=False, message=ran_out, again=again)
        return HookEnded(succeeded=True, again=again)

    async def _run(self, request: RunHook) -> None:
        for kind, handler in self._handlers.items():
            if kind in request.handler:
                await handler(request, request.handler[kind])
                return
        raise HookFailed(f"invalid handler: {', '.join(request.handler) or 'none'}")

    async def _exec(self, request: RunHook, handler: Mapping[str, Any]) -> None:
        """Run a command in the container; one that does not end with 0 has failed."""
        left = _seconds_left(request)
        try:
            answer = await self._services.runtime.exec_sync(
                request.container_id, handler["command"], 0 if left is None else ceil(left)
            )
        except CriError as error:
            if error.remedy is Remedy.RETRY:
                raise unavailable(error, self._services.endpoint) from error
            raise HookFailed(error.details) from error
        if answer.exit_code:
            raise HookFailed(f"exit code {answer.exit_code}{_told(answer.stdout + answer.stderr)}")

    async def _http_get(self, request: RunHook, handler: Mapping[str, Any]) -> None:
        """Ask a server, by default one of the pod's own; that it answers is all."""
        if not handler.get("host") and not request.ips:
            raise HookFailed("the pod has no address")
        pod_ip = request.ips[0] if request.ips else ""
        target = Target({"ports": list(request.ports)}, request.container_id, pod_ip, self._services.runtime)
        outcome = await answered(handler, target)
        if not outcome.success:
            raise HookFailed(outcome.output)


async def _sleep(_: RunHook, handler: Mapping[str, Any]) -> None:
    await asyncio.sleep(handler["seconds"])


def _seconds_left(request: RunHook) -> float | None:
    """Say how long the hook may still last; None for one whose time nobody limits."""
    if request.asked_at is None or request.grace is None:
        return None
    return max(SHORTEST, request.asked_at + request.grace - datetime.now(UTC)).total_seconds()


def _seconds(grace: timedelta | None) -> str:
    return f"{grace.total_seconds():g}" if grace else ""


def _told(output: bytes) -> str:
    text = output[-OUTPUT_BYTES:].decode(errors="replace").strip()
    return f": {text}" if text else ""
