"""Carries out an action as an activity; its answer or failure comes back as a fact.

Called for every action of a plan. Nothing is judged here: a failure keeps its reason (the type of the ApplicationError,
which is Kubernetes' own reason) and its message, and `decide/record/fold.py` records both. There is no case for an
activity that timed out: Temporal retries it without end, and the activity itself fails shortly before its limit.

Whoever reaches Temporal may answer an activity in its place. So an answer is taken as a raw value: one that this node has
not encrypted is a failure of the action, where the SDK would fail the workflow task at every retry.
"""

import asyncio
from typing import Any, Final

from temporalio import workflow
from temporalio.common import RawValue, RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, CancelledError, FailureError

from proto.temporal.failure_types import TICKET_REFUSED
from workflows.decide.action_type import ActionType
from workflows.decide.actions import Action
from workflows.decide.node.actions import NodeAction
from workflows.extern import RECEIVED, extern
from workflows.loops.calls import action_type, retry_of, time_limit
from workflows.loops.driver import Failed
from workflows.received import NOT_OURS, MessageRefused, converted

ANSWER_REFUSED: Final = "AnswerRefused"
"""The reason of an action whose answer tempolet has not written."""

ONCE: Final = RetryPolicy(maximum_attempts=1)
"""For a read as a local activity: what does not answer then becomes an activity, which the UI shows."""

SUMMARY_LIMIT: Final = 200
"""Temporal takes 400 bytes of summary."""


async def carry_out(action: Action | NodeAction, *, encrypted: bool) -> Any:
    """Carry out an action; returns its answer or `Failed`. Raises asyncio.CancelledError if the workflow itself cancelled it.

    `encrypted`: the answer of a stranger is a failure.
    """
    row = action_type(action)
    if row.at_once and (read := await read_at_once(row, action)) is not None:
        return read
    return await execute(row, action, encrypted=encrypted)


async def execute(row: ActionType, action: Action | NodeAction, *, encrypted: bool) -> Any:
    """Call an activity; returns its answer, or why it failed."""
    try:
        raw: RawValue | None = await workflow.execute_activity(
            row.name,
            action,
            result_type=RawValue,
            activity_id=row.key(action),
            start_to_close_timeout=time_limit(action),
            heartbeat_timeout=row.heartbeat,
            retry_policy=retry_policy(action),
            summary=row.summary(action)[:SUMMARY_LIMIT],
        )
    except ActivityError as error:
        if isinstance(error.cause, CancelledError) and (is_cancelled() or not encrypted):
            raise asyncio.CancelledError from None
        failed = failure(error)
        if failed.reason != TICKET_REFUSED:  # else the action itself has not answered
            receive(row.key(action))
        return failed
    try:
        answer = answer_of(raw, row.result, row.key(action), encrypted=encrypted)
    except MessageRefused as refused:
        return Failed(ANSWER_REFUSED, f"the answer of {row.name} is refused: {refused}")
    receive(row.key(action))
    return answer


def retry_policy(action: Action | NodeAction) -> RetryPolicy:
    """Return how Temporal retries an action."""
    retry = retry_of(action)
    return RetryPolicy(initial_interval=retry.initial, backoff_coefficient=retry.factor, maximum_interval=retry.longest)


def is_cancelled() -> bool:
    """Report whether the workflow itself has cancelled the action; else somebody failed it with a cancellation."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def answer_of(raw: RawValue | None, result: Any, activity_id: str, *, encrypted: bool) -> Any:
    """Convert an answer; raises MessageRefused. This node names activity and type in each, and encrypts an empty one, too."""
    if raw is not None:
        return converted(raw, result, activity_id=activity_id, named=encrypted)
    if encrypted:
        raise MessageRefused(NOT_OURS)
    return None


def receive(key: str) -> None:
    """Tell the process that this run has the answer of this action."""
    if tell := extern(RECEIVED):
        info = workflow.info()
        tell(info.workflow_id, info.run_id, key)


async def read_at_once(row: ActionType, action: Action | NodeAction) -> Any:
    """Read within the workflow task, by a local activity; None when that failed.

    No two local activities of one kind run side by side, since an action's key allows only one.
    """
    try:
        return await workflow.execute_local_activity(
            row.name,
            action,
            result_type=row.result,
            schedule_to_close_timeout=row.at_once,
            retry_policy=ONCE,
            summary=row.summary(action),
        )
    except CancelledError:
        raise asyncio.CancelledError from None
    except FailureError:  # a local activity raises its own error, not an ActivityError that wraps it
        return None


def failure(error: ActivityError) -> Failed:
    """Read the reason out of an activity's error."""
    match error.cause:
        case ApplicationError(type=str(reason), message=message):
            return Failed(reason, message)
        case cause:
            return Failed(type(cause).__name__, str(cause))
