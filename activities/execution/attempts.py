"""The interceptor around every activity: it attaches attempts to the work that runs, and ends them at their limit.

An attempt may end before its work: its run has continued as new or was reset, Temporal took it for lost, an operator
paused it. The work then goes on. It is cancelled only if its workflow asks for that or has completed, or the worker stops.

Temporal itself would retry an attempt that lasts too long for ever, and tell no one. So the attempt ends shortly before
its limit, with a failure that the workflow records and the pod's status shows. The next one attaches again.
"""

import asyncio
from datetime import timedelta
from hashlib import sha256
from typing import Any, Final

from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from activities.execution.attempt import Attempt, current_attempt
from activities.execution.errors import non_retryable_failure, retryable_failure
from activities.execution.heartbeat import beating
from activities.execution.present_attempts import PresentAttempts
from activities.execution.running_actions import Asked, RunningActions
from proto.temporal import names
from proto.temporal.failure_types import STEP_TIMED_OUT

ENDLESS: Final = frozenset({names.PROBE_CONTAINER, names.WATCH_IMAGES})
"""They attach in their own way (`probes/loops.py`), or the newest replaces the one before."""
READS: Final = frozenset({names.READ_IMAGES, names.READ_POD_RUNTIME, names.AWAIT_PREDECESSOR})
"""Each attempt looks for itself: what an earlier one saw may have changed."""
LOOKS_AGAIN: Final = frozenset({names.RUN_POD_SANDBOX, names.START_CONTAINER})
"""Their answer is a state. Once it is old, another look finds the same sandbox or container, as it is by then."""
NAMED_BY_KEY: Final = frozenset({names.RUN_HOOK})
"""Their key names the instance, and two requests for it differ only in who asked when: a hook runs once at a time."""
MARGIN: Final = timedelta(seconds=5)
"""An attempt ends so long before its limit, or a tenth of it before a short one."""


class AttachingAttempts(Interceptor):
    """Wraps every activity; the outermost interceptor, so that the others see each work once."""

    def __init__(self, running: RunningActions, present: PresentAttempts) -> None:
        self._running, self._present = running, present

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002 - the SDK's name
        """Wrap every activity."""
        return _Attaching(next, self._running, self._present)


class _Attaching(ActivityInboundInterceptor):
    def __init__(
        self, following: ActivityInboundInterceptor, running: RunningActions, present: PresentAttempts
    ) -> None:
        super().__init__(following)
        self._running, self._present = running, present

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 - the SDK's name
        attempt = current_attempt()
        if attempt.is_local:
            return await super().execute_activity(input)
        with self._present.one(attempt):
            limit = _limit(attempt)
            try:
                async with asyncio.timeout(limit) as time:
                    if attempt.name in ENDLESS | READS:
                        return await super().execute_activity(input)
                    return await self._attach(attempt, input)
            except TimeoutError:
                if not time.expired():
                    raise
                raise non_retryable_failure(STEP_TIMED_OUT, self._hangs(attempt, limit)) from None

    async def _attach(self, attempt: Attempt, input: ExecuteActivityInput) -> Any:  # noqa: A002 - as above
        following, asked = super().execute_activity, _asked(attempt, input.args)
        try:
            with beating() as heart:
                return await self._running.attend(asked, lambda: following(input), heart.follow)
        except asyncio.CancelledError:
            if await attempt.ends_work():
                await self._running.give_up(asked)
            elif not _is_cancelled(attempt):
                raise retryable_failure("Superseded", "another run of this action has taken its place") from None
            raise

    def _hangs(self, attempt: Attempt, limit: float | None) -> str:
        said = self._running.details(attempt.workflow_id, attempt.key)
        doing = said if isinstance(said, str) else getattr(said, "doing", "") or attempt.name
        return f"{doing}: no answer within {limit:g} s; it is waited for again"


def _asked(attempt: Attempt, arguments: Any) -> Asked:
    instance = "" if attempt.name in NAMED_BY_KEY else sha256(repr(arguments).encode(errors="replace")).hexdigest()
    return Asked(
        workflow_id=attempt.workflow_id,
        key=attempt.key,
        instance=(attempt.name, instance),
        asker=attempt.asker,
        keeps=attempt.name not in LOOKS_AGAIN,
    )


def _limit(attempt: Attempt) -> float | None:
    limit = attempt.limit
    return None if limit is None else (limit - min(MARGIN, limit / 10)).total_seconds()


def _is_cancelled(attempt: Attempt) -> bool:
    """Report whether this attempt was cancelled, and not only the work that it waits for."""
    task = asyncio.current_task()
    return bool(attempt.cancellation()) or bool(task and task.cancelling())
