"""One try of an activity: what it is told, and how it speaks to whoever asked for it.

Temporal asks, or the process itself while Temporal is away. Activities and their interceptors get the
attempt from `current_attempt` and ask Temporal's SDK for nothing, so they are the same for both.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Flag, auto
from typing import Any, Final

from temporalio import activity
from temporalio.client import AsyncActivityCancelledError, AsyncActivityHandle, Client, WorkflowExecutionStatus
from temporalio.converter import ActivitySerializationContext
from temporalio.service import RPCError, RPCStatusCode


class WorkflowGone(Exception):
    """The workflow has ended, or does not wait for this attempt any more."""


class NotDelivered(Exception):
    """Whoever asked cannot be reached; another try may succeed."""


class Cancellation(Flag):
    """Why an attempt was cancelled; several reasons may hold."""

    NONE = 0
    CANCEL_REQUESTED = auto()
    """The workflow wants the action no more."""
    WORKER_SHUTDOWN = auto()
    NOT_FOUND = auto()
    """Its run has ended, or others carry out the actions of the workflow now."""
    PAUSED = auto()
    RESET = auto()
    TIMED_OUT = auto()
    UNKNOWN = auto()
    """Temporal's SDK does not say why."""


@dataclass(slots=True, kw_only=True, eq=False)
class Attempt(ABC):
    """One try of an activity; use it on the event loop."""

    name: str
    """The activity's name."""
    workflow_id: str
    key: str
    """The action's key, which is the activity's id."""
    asker: tuple[str, Hashable]
    """The run, and what distinguishes its actions with one key. Attempts of one action have the same."""
    number: int = 1
    """Which try of the action it is."""
    limit: timedelta | None = None
    """How long it may take."""
    heartbeat_timeout: timedelta | None = None
    """How long it may be silent; None: it need not say anything."""
    earlier: Sequence[Any] = ()
    """The newest details that an earlier try said."""
    is_local: bool = False
    """It is part of a decision: nothing is retried, and nobody listens to its details."""

    @abstractmethod
    def say(self, *details: Any) -> None:
        """Send details with a heartbeat, for the next try; the newest ones replace those before."""

    @abstractmethod
    async def keep(self, details: Any) -> None:
        """Store details and return once they are stored. Raises WorkflowGone and NotDelivered."""

    @abstractmethod
    async def tell(self, signal: str, value: Any) -> None:
        """Send the workflow a signal. Raises WorkflowGone and NotDelivered."""

    @abstractmethod
    def cancellation(self) -> Cancellation:
        """Return why it was cancelled, if it was."""

    @abstractmethod
    def is_stopping(self) -> bool:
        """Report whether the worker has begun to stop."""

    @abstractmethod
    async def stopping(self) -> None:
        """Wait until the worker begins to stop."""

    async def ends_work(self) -> bool:
        """Report whether what this cancelled attempt waits for ends with it: nobody else will ask for it."""
        why = self.cancellation()
        if why & (Cancellation.CANCEL_REQUESTED | Cancellation.WORKER_SHUTDOWN):
            return True
        return bool(why & Cancellation.NOT_FOUND) and await self.has_workflow_completed()

    @abstractmethod
    async def has_workflow_completed(self) -> bool:
        """Report whether the workflow is known to have completed, so that no other run of it follows."""


@dataclass(slots=True, kw_only=True, eq=False)
class _TemporalAttempt(Attempt):
    """An attempt that Temporal asks for."""

    info: activity.Info
    context: Context = field(default_factory=copy_context)
    """Of the attempt; who calls may be in another one."""

    @classmethod
    def current(cls) -> "_TemporalAttempt":
        """Return the attempt of the SDK's current activity. Raises RuntimeError outside of one."""
        info = activity.info()
        return cls(
            name=info.activity_type,
            workflow_id=info.workflow_id or "",
            key=info.activity_id,
            asker=(info.workflow_run_id or "", info.scheduled_time),
            number=info.attempt,
            limit=info.start_to_close_timeout,
            heartbeat_timeout=info.heartbeat_timeout,
            earlier=info.heartbeat_details,
            is_local=info.is_local,
            info=info,
        )

    def say(self, *details: Any) -> None:
        self.context.run(activity.heartbeat, *details)

    async def keep(self, details: Any) -> None:
        """The SDK's own heartbeats wait up to two seconds; also details of a paused or cancelled attempt are stored."""
        with _delivering(), suppress(AsyncActivityCancelledError):
            await self._handle().heartbeat(details)

    async def tell(self, signal: str, value: Any) -> None:
        with _delivering():
            await self._client().get_workflow_handle(self.workflow_id).signal(signal, value)

    def cancellation(self) -> Cancellation:
        why = self.context.run(activity.cancellation_details)
        if why is None:
            return Cancellation.UNKNOWN if self.context.run(activity.is_cancelled) else Cancellation.NONE
        reasons = {
            Cancellation.CANCEL_REQUESTED: why.cancel_requested,
            Cancellation.WORKER_SHUTDOWN: why.worker_shutdown,
            Cancellation.NOT_FOUND: why.not_found,
            Cancellation.PAUSED: why.paused,
            Cancellation.RESET: why.reset,
            Cancellation.TIMED_OUT: why.timed_out,
        }
        known = Cancellation.NONE
        for reason, holds in reasons.items():
            known |= reason if holds else Cancellation.NONE
        return known or Cancellation.UNKNOWN

    def is_stopping(self) -> bool:
        return self.context.run(activity.is_worker_shutdown)

    async def stopping(self) -> None:
        await asyncio.create_task(activity.wait_for_worker_shutdown(), context=self.context)

    async def has_workflow_completed(self) -> bool:
        """After continue-as-new or a reset another run is open. A workflow that somebody ended is started again."""
        try:
            described = await self._client().get_workflow_handle(self.workflow_id).describe()
        except (RPCError, ValueError):  # ValueError: a status that the SDK does not know (paused)
            return False
        return described.status is WorkflowExecutionStatus.COMPLETED

    def _client(self) -> Client:
        return self.context.run(activity.client)

    def _handle(self) -> AsyncActivityHandle:
        """Return a handle on this very try; the SDK's own leaves out the workflow that payloads are encrypted for."""
        client, info = self._client(), self.info
        return client.get_async_activity_handle(task_token=info.task_token).with_context(
            ActivitySerializationContext(
                namespace=client.namespace,
                workflow_id=info.workflow_id,
                workflow_type=info.workflow_type,
                activity_id=info.activity_id,
                activity_type=info.activity_type,
                activity_task_queue=info.task_queue,
                is_local=False,
            )
        )


def current_attempt() -> Attempt:
    """Return the attempt that the caller is part of. Raises RuntimeError outside of one."""
    return _current.get() or _TemporalAttempt.current()


@contextmanager
def attempting(attempt: Attempt) -> Iterator[None]:
    """Make an attempt that Temporal does not know the current one of the block, and of the tasks that the block begins."""
    token = _current.set(attempt)
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def _delivering() -> Iterator[None]:
    try:
        yield
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            raise WorkflowGone(error.message) from error
        raise NotDelivered(error.message) from error


_current: Final[ContextVar[Attempt | None]] = ContextVar("attempt", default=None)
