"""Runs a container's lifecycle hooks (pkg/kubelet/lifecycle/handlers.go), and our own hooks.

The result says how a hook ended, also when it failed: the workflow decides what follows. An error is raised only for
what Temporal should retry: the runtime is unavailable (then it is unknown whether the hook ran, and the answer says
so), or the hook failed and its policy allows another try. The end of a hook's output is reported, like a termination
message.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import ceil
from typing import Any, Final

from temporalio import activity

from activities.clients.cri_error import CriError, Remedy
from activities.execution.attempt import current_attempt
from activities.execution.errors import retryable_failure, runtime_unavailable
from activities.execution.heartbeat import earlier_details, heartbeating
from activities.hooks.hook_containers import HookContainerFailed, HookContainers
from activities.hooks.hook_request import send_as_probe, send_hook_request
from activities.hooks.services import HookServices
from activities.probes.outcome import Target
from proto.messages import shorten
from proto.temporal import names
from proto.temporal.activities.heartbeats import HookProgress
from proto.temporal.activities.requests import RunHook
from proto.temporal.hooks import Hook, HookEnded, HookRetry

SHORTEST: Final = timedelta(seconds=1)
"""A hook that starts late (its worker was down) still gets at least this long."""
UNTIL_ITS_CONTAINER_ENDS: Final = timedelta(minutes=10)
"""How long a preStop command may outlive the grace; its container is stopped then, and ends it."""
OUTPUT_BYTES: Final = 1024
"""How much of a command's output is reported."""
_KEPT: Final = slice(-OUTPUT_BYTES, None)
_UNLIMITED: Final = 3600.0  # seconds; for a request without a limit, written by another release
TRIED_AGAIN: Final = "HookFailed"
_OURS: Final = (Hook.PRE_START, Hook.POST_STOP)
_Handlers = Mapping[str, Callable[[RunHook, Mapping[str, Any]], Awaitable[None]]]


class HookFailed(Exception):
    """The hook failed; the message says why."""


class HookActivities:
    """Activities that run hooks."""

    def __init__(self, services: HookServices) -> None:
        self._services = services
        self._containers = HookContainers(services)
        self._outliving: set[asyncio.Future[Any]] = set()
        """Commands of preStop hooks whose grace is over."""
        self._handlers: _Handlers = {"exec": self._exec, "httpGet": self._http_get, "sleep": self._sleep}
        self._own_handlers: _Handlers = {
            "exec": self._exec_beside,
            **{kind: self._asking(kind) for kind in ("httpGet", "tcpSocket", "grpc")},
        }

    @activity.defn(name=names.RUN_HOOK)
    async def run_hook(self, request: RunHook) -> HookEnded:
        """Run a hook within its limits, if it has any, and return how it ended.

        Raises RuntimeUnavailable, and HookFailed while its policy allows another try.
        """
        failed = _known_failures(earlier_details())
        again, doing = current_attempt().number - 1 > failed, f"{request.hook} of {request.name} of {request.pod}"
        async with heartbeating(HookProgress(doing, failed)) as heart:
            message = await self._tried(request)
            if message is None:
                return HookEnded(succeeded=True, again=again, tries=failed + 1)
            if _may_try_again(request, failed + 1):
                heart.say_now(HookProgress(doing, failed + 1))
                raise retryable_failure(TRIED_AGAIN, message)
            return HookEnded(succeeded=False, message=message, again=again, tries=failed + 1)

    async def _tried(self, request: RunHook) -> str | None:
        """Run it once; returns None on success, else why it failed."""
        try:
            if request.helper:
                request = replace(request, helper=await self._containers.get_ready(request, request.helper))
            async with asyncio.timeout(_seconds_left(request)) as limit:
                await self._run(request)
        except (HookFailed, HookContainerFailed) as why:
            return shorten(str(why))
        except TimeoutError as error:
            return _ran_out(request) if limit.expired() else str(error)
        return None

    async def _run(self, request: RunHook) -> None:
        handlers = self._own_handlers if request.hook in _OURS else self._handlers
        for kind, handler in handlers.items():
            if kind in request.handler:
                await handler(request, request.handler[kind])
                return
        raise HookFailed(f"invalid handler: {', '.join(request.handler) or 'none'}")

    async def _exec(self, request: RunHook, handler: Mapping[str, Any]) -> None:
        """Run a command in the container; any exit code but 0 is a failure."""
        outlives = _outlives_grace(request)
        seconds = ceil(_seconds_left(request) or 0) + (UNTIL_ITS_CONTAINER_ENDS.seconds if outlives else 0)
        command = asyncio.ensure_future(
            self._services.runtime.exec_sync(request.container_id, handler["command"], seconds, keep=_KEPT)
        )
        try:
            answer = await asyncio.shield(command)
        except asyncio.CancelledError:
            self._outliving.add(command)
            command.add_done_callback(self._outlived)
            if not outlives:
                command.cancel()
            raise
        except CriError as error:
            if error.remedy is Remedy.RETRY:
                raise runtime_unavailable(error, self._services.runtime.endpoint) from error
            raise HookFailed(error.details) from error
        if answer.exit_code:
            raise HookFailed(f"exit code {answer.exit_code}{_output_text(answer.stdout + answer.stderr)}")

    def _outlived(self, command: asyncio.Future[Any]) -> None:
        self._outliving.discard(command)
        if not command.cancelled():
            command.exception()  # nobody waits for its answer any more

    async def _exec_beside(self, request: RunHook, _: Mapping[str, Any]) -> None:
        """Run a command in a container of its own, because the hook's container is not running."""
        if request.helper is None:
            raise HookFailed("the request does not describe its container")
        ended = await self._containers.run(request, request.helper)
        if ended.exit_code:
            raise HookFailed(f"exit code {ended.exit_code}{_output_text(ended.output.encode())}")

    async def _http_get(self, request: RunHook, handler: Mapping[str, Any]) -> None:
        """Send the request, by default to the pod itself; any response is a success."""
        outcome = await send_hook_request(
            handler, self._target(request, handler), self._services.timings.hook_fell_back
        )
        if not outcome.success:
            raise HookFailed(outcome.output)

    def _asking(self, kind: str) -> Callable[[RunHook, Mapping[str, Any]], Awaitable[None]]:
        """Return how to ask, and judge, as a probe of this kind does."""

        async def ask(request: RunHook, handler: Mapping[str, Any]) -> None:
            seconds = _seconds_left(request) or _UNLIMITED
            outcome = await send_as_probe(kind, handler, self._target(request, handler), seconds)
            if not outcome.success:
                raise HookFailed(outcome.output)

        return ask

    async def _sleep(self, _: RunHook, handler: Mapping[str, Any]) -> None:
        try:
            await asyncio.sleep(handler["seconds"])
        except asyncio.CancelledError:
            self._services.timings.sleep_ended_early()
            raise

    def _target(self, request: RunHook, handler: Mapping[str, Any]) -> Target:
        if not handler.get("host") and not request.ips:
            raise HookFailed("the pod has no address")
        pod_ip = request.ips[0] if request.ips else ""
        return Target({"ports": list(request.ports)}, request.container_id, pod_ip, self._services.runtime)


def _known_failures(details: Sequence[Any]) -> int:
    """Read the number of known failures from the last try's heartbeat."""
    match list(details):
        case [{"failed": int(failed)} | HookProgress(failed=int(failed)), *_]:
            return failed
        case _:
            return 0


def _may_try_again(request: RunHook, failed: int) -> bool:
    """Report whether the policy allows another try and the grace period has time for it."""
    retry = request.retry
    if retry is None or failed >= retry.max_attempts:
        return False
    left = _grace_left(request)
    return left is None or left > _pause(retry, failed)


def _pause(retry: HookRetry, failed: int) -> timedelta:
    return min(retry.initial * float(retry.factor) ** min(failed - 1, 32), retry.longest)


def _grace_left(request: RunHook) -> timedelta | None:
    if request.asked_at is None or request.grace is None:
        return None
    return request.asked_at + request.grace - datetime.now(UTC)


def _seconds_left(request: RunHook) -> float | None:
    """Return how long this try may still last; None: no limit."""
    left = _grace_left(request)
    limits = [] if left is None else [max(SHORTEST, left)]
    limits += [request.timeout] if request.timeout else []
    return min(limits).total_seconds() if limits else None


def _outlives_grace(request: RunHook) -> bool:
    """Report whether only the grace period limits a preStop hook: its command then lives on until its container ends.

    As in the kubelet (kuberuntime_container.go executePreStopHook): what it does may still help the container to end.
    """
    left = _grace_left(request)
    is_limited = request.timeout is not None and left is not None and request.timeout < left
    return request.hook is Hook.PRE_STOP and left is not None and not is_limited


def _ran_out(request: RunHook) -> str:
    """Say which limit ended it."""
    left = _grace_left(request)
    if request.grace is not None and left is not None and left <= timedelta():
        return f"the grace period of {request.grace.total_seconds():g} s ran out"
    return f"timed out after {(request.timeout or SHORTEST).total_seconds():g} s"


def _output_text(output: bytes) -> str:
    text = output[-OUTPUT_BYTES:].decode(errors="replace").strip()
    return f": {text}" if text else ""
