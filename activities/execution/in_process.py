"""Runs activities for the process itself: the same functions behind the same interceptors, without Temporal.

Who asks makes each attempt and decides about the next one. There is no server that stores details: they are in the attempt,
and `again` gives them to the next.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cache
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import to_json
from temporalio import activity
from temporalio.api.common.v1 import Payload
from temporalio.exceptions import FailureError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from activities.execution.attempt import Attempt, Cancellation, attempting
from activities.execution.errors import WORKER_STOPPING, retryable_failure
from activities.execution.unexpected import unexpected_failure
from proto.temporal.failure_types import STEP_TIMED_OUT


@dataclass(slots=True, kw_only=True, eq=False)
class InProcessAttempt(Attempt):
    """An attempt that the process itself asks for; to be run once."""

    deliver: Callable[[str, Any], Awaitable[None]]
    """Takes a signal to the workflow: name and value. Raises WorkflowGone and NotDelivered."""
    headers: Mapping[str, Payload] = field(default_factory=dict)
    """For the interceptors."""
    said: Sequence[Any] = field(init=False)
    """The newest details, of this attempt or an earlier one."""
    _why: Cancellation = field(init=False, default=Cancellation.NONE)
    _stopping: asyncio.Event = field(init=False, default_factory=asyncio.Event)
    _task: asyncio.Task[Any] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.said = self.earlier

    def begin(self, work: Coroutine[Any, Any, Any], stopping: asyncio.Event) -> asyncio.Task[Any]:
        """Begin it; `stopping` is set when the worker begins to stop."""
        self._stopping = stopping
        self._task = asyncio.create_task(work, name=f"{self.key} of {self.workflow_id}")
        if self._why:
            self._task.cancel()
        return self._task

    def cancel(self, why: Cancellation) -> None:
        """Cancel it; the first reason counts. Its work goes on if another attempt may ask for it: the reason says so."""
        if self._why:
            return
        self._why = why
        if self._task is not None:
            self._task.cancel()

    def again(self) -> "InProcessAttempt":
        """Return the next try of the same action."""
        return replace(self, number=self.number + 1, earlier=self.said)

    def say(self, *details: Any) -> None:
        """Remember details."""
        self.said = details

    async def keep(self, details: Any) -> None:
        """Remember details."""
        self.say(details)

    async def tell(self, signal: str, value: Any) -> None:
        """Deliver a signal."""
        await self.deliver(signal, value)

    def cancellation(self) -> Cancellation:
        """Return the first reason."""
        return self._why

    def is_stopping(self) -> bool:
        """Report whether the worker has begun to stop."""
        return self._stopping.is_set()

    async def stopping(self) -> None:
        """Wait until the worker begins to stop."""
        await self._stopping.wait()

    async def has_workflow_completed(self) -> bool:
        """Report False: who asks cancels what is wanted no more."""
        return False


class InProcessActivities:
    """The activities of a process, by name; use it from one event loop."""

    def __init__(self, functions: Sequence[Callable[..., Any]], interceptors: Sequence[Interceptor]) -> None:
        """Take the functions and the interceptors of the worker, the outermost one first."""
        self._functions = dict(map(_named, functions))
        self._interceptors = interceptors
        self._stopping = asyncio.Event()
        self._running: dict[asyncio.Task[Any], InProcessAttempt] = {}

    async def run(self, attempt: InProcessAttempt, request: object) -> Any:
        """Return what the activity answers. Raises a FailureError, as the activity does, and CancelledError.

        A cancelled caller wants the action no more, and does not wait for its end. The activity gets a copy of the request, as it
        would read it from Temporal.
        """
        if self._stopping.is_set():
            raise retryable_failure(WORKER_STOPPING, f"the worker stops; the next one continues {attempt.key}")
        task = attempt.begin(self._execute(attempt, request), self._stopping)
        self._running[task] = attempt
        task.add_done_callback(self._ended)
        limit = attempt.limit.total_seconds() if attempt.limit is not None else None
        try:
            done, _ = await asyncio.wait([task], timeout=limit)
        except asyncio.CancelledError:
            attempt.cancel(Cancellation.CANCEL_REQUESTED)
            raise
        if not done:
            attempt.cancel(Cancellation.TIMED_OUT)
            raise retryable_failure(STEP_TIMED_OUT, f"{attempt.name}: no end within {attempt.limit}")
        return _result(attempt, task)

    async def stop(self, within: timedelta) -> None:
        """Begin no more attempts; cancel those that have not ended in time, and wait as long again for their end."""
        self._stopping.set()
        await self._ends(within)
        for attempt in self._running.values():
            attempt.cancel(Cancellation.WORKER_SHUTDOWN)
        await self._ends(within)

    async def _ends(self, within: timedelta) -> None:
        if self._running:
            await asyncio.wait(list(self._running), timeout=within.total_seconds())

    def _ended(self, task: asyncio.Task[Any]) -> None:
        del self._running[task]
        if not task.cancelled():
            task.exception()  # so that asyncio does not log one that nobody waits for

    async def _execute(self, attempt: InProcessAttempt, request: object) -> Any:
        function, kind = self._functions[attempt.name]
        chain: ActivityInboundInterceptor = _Calling()
        for interceptor in reversed(self._interceptors):
            chain = interceptor.intercept_activity(chain)
        copy = _reader(kind).validate_json(to_json(request))
        with attempting(attempt):
            return await chain.execute_activity(
                ExecuteActivityInput(fn=function, args=[copy], executor=None, headers=attempt.headers)
            )


class _Calling(ActivityInboundInterceptor):
    """The end of the chain."""

    def __init__(self) -> None:
        pass

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 - the SDK's name
        return await input.fn(*input.args)


def _named(function: Callable[..., Any]) -> tuple[str, tuple[Callable[..., Any], Any]]:
    """Return an activity's name, itself, and the type of its request."""
    definition = activity._Definition.must_from_callable(function)  # noqa: SLF001 - the SDK has no other way
    return definition.name or "", (function, next(iter(definition.arg_types or ()), Any))


@cache
def _reader(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _result(attempt: InProcessAttempt, task: asyncio.Task[Any]) -> Any:
    """Return or raise it; whoever asks ends with nothing but an answer, a failure or its own cancellation."""
    try:
        return task.result()
    except asyncio.CancelledError:
        if attempt.cancellation():
            raise
        raise retryable_failure("Superseded", f"what {attempt.key} waited for was cancelled") from None
    except FailureError:
        raise
    except Exception as error:
        raise unexpected_failure(error) from error
