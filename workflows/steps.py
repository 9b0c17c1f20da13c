"""Carries out an action as an activity; its answer or failure comes back as a fact.

Called for every action of a plan. Nothing is judged here: a failure keeps its reason (the type of the ApplicationError,
which is Kubernetes' own reason) and its message, and `decide/record/fold.py` records both. There is no case for an
activity that timed out: Temporal retries it without end, and the activity itself fails shortly before its limit.

Whoever reaches Temporal may answer an activity in its place. So an answer is taken as a raw value: one that this node has
not encrypted is a failure of the action, where the SDK would fail the workflow task at every retry.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError, ApplicationError, CancelledError, FailureError

from proto.temporal.failure_types import TICKET_REFUSED
from workflows.calls import ONCE, SUMMARY_LIMIT, action_type, retry_policy, time_limit
from workflows.decide.action_type import ActionType
from workflows.decide.actions import Action
from workflows.decide.node.actions import NodeAction
from workflows.decide.node.node import NodeAnswer
from workflows.decide.record.fold import Answer
from workflows.received import NOT_OURS, MessageRefused, converted

ANSWER_REFUSED: Final = "AnswerRefused"
"""The reason of an action whose answer tempolet has not written."""

SETTLED: Final = "tempolet_action_settled"
"""An extern function: (workflow id, key) -> None. The history has the answer of this action."""


@dataclass(frozen=True, slots=True)
class Failed:
    """Why an action failed."""

    reason: str
    message: str


async def carry_out(action: Action, *, encrypted: bool) -> Answer | Failed:
    """Carry out an action; raises only if the workflow itself cancelled it."""
    row = action_type(action)
    if row.at_once and (read := await read_at_once(row, action)) is not None:
        return read
    answer: Answer | Failed = await execute(row, action, encrypted=encrypted)
    return answer


async def carry_out_node(action: NodeAction, *, encrypted: bool) -> NodeAnswer | Failed:
    """Carry out an action of a node's workflow; raises only if the workflow itself cancelled it."""
    answer: NodeAnswer | Failed = await execute(action_type(action), action, encrypted=encrypted)
    return answer


async def execute(row: ActionType, action: Action | NodeAction, *, encrypted: bool) -> Any:
    """Call an activity; returns its answer, or why it failed. `encrypted`: an answer of a stranger is a failure."""
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
            raise error.cause from None
        failed = failure(error)
        if failed.reason != TICKET_REFUSED:  # else the action itself has not answered
            settle(row.key(action))
        return failed
    try:
        answer = answer_of(raw, row.result, row.key(action), encrypted=encrypted)
    except MessageRefused as refused:
        return Failed(ANSWER_REFUSED, f"the answer of {row.name} is refused: {refused}")
    settle(row.key(action))
    return answer


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


def settle(key: str) -> None:
    """Tell the process that it need not keep the answer of this action any more; a replay tells nothing."""
    tell: Callable[[str, str], None] | None = workflow.extern_functions().get(SETTLED)
    if tell is not None and not workflow.unsafe.is_replaying():
        tell(workflow.info().workflow_id, key)


async def read_at_once(row: ActionType, action: Action) -> Answer:
    """Read within the workflow task, by a local activity; None when that failed.

    No two local activities of one kind run side by side, since an action's key allows only one.
    """
    try:
        answer: Answer = await workflow.execute_local_activity(
            row.name,
            action,
            result_type=row.result,
            schedule_to_close_timeout=row.at_once,
            retry_policy=ONCE,
            summary=row.summary(action),
        )
    except CancelledError:
        raise
    except FailureError:  # a local activity raises its own error, not an ActivityError that wraps it
        return None
    return answer


def failure(error: ActivityError) -> Failed:
    """Read the reason out of an activity's error."""
    match error.cause:
        case ApplicationError(type=str(reason), message=message):
            return Failed(reason, message)
        case cause:
            return Failed(type(cause).__name__, str(cause))
