"""How a decided action is carried out: as an activity, whose answer or failure comes back as a fact.

Called by PodWorkflow for every action of a plan. Nothing is judged here: a failure keeps its reason (the ApplicationError's
type, Kubernetes' own word) and its message, and `decide.fold` writes both down.
"""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, CancelledError, FailureError
from temporalio.exceptions import TimeoutError as ActivityTimedOut

from workflows.calls import CALLS, NODE_CALLS, ONCE, Call, retry_policy, time_limit
from workflows.decide.actions import Action, key
from workflows.decide.node.node import NodeAction, NodeAnswer, node_key
from workflows.decide.record.fold import Answer

SUMMARY_LIMIT: Final = 200
"""Temporal takes 400 bytes of summary."""


@dataclass(frozen=True, slots=True)
class Failed:
    """Why an action could not be done."""

    reason: str
    message: str


async def carry_out(action: Action) -> Answer | Failed:
    """Carry an action out; raises only when the workflow itself gave it up."""
    call = CALLS[type(action)]
    if call.at_once and (read := await read_at_once(call, action)) is not None:
        return read
    answer: Answer | Failed = await execute(
        replace(call, retry=retry_policy(action)), action, key(action), time_limit(action)
    )
    return answer


async def carry_out_node(action: NodeAction) -> NodeAnswer | Failed:
    """Carry out an action of a node's workflow; raises only when the workflow itself gave it up."""
    call = NODE_CALLS[type(action)]
    answer: NodeAnswer | Failed = await execute(call, action, node_key(action), call.within)
    return answer


async def execute(call: Call, action: Any, activity_id: str, within: timedelta) -> Any:
    """Call an activity; answers what it answers, or why it failed."""
    try:
        return await workflow.execute_activity(
            call.name,
            action,
            result_type=call.result,
            activity_id=activity_id,
            start_to_close_timeout=within,
            heartbeat_timeout=call.heartbeat,
            retry_policy=call.retry,
            summary=call.summary(action)[:SUMMARY_LIMIT],
        )
    except ActivityError as error:
        if isinstance(error.cause, CancelledError):
            raise error.cause from None
        return failure(error)


async def read_at_once(call: Call, action: Action) -> Answer:
    """Read inside the workflow task; None when that did not work out. One action of a kind at a time asks (design §4.8)."""
    try:
        answer: Answer = await workflow.execute_local_activity(
            call.name,
            action,
            result_type=call.result,
            schedule_to_close_timeout=call.at_once,
            retry_policy=ONCE,
            summary=call.summary(action),
        )
    except CancelledError:
        raise
    except FailureError:  # a local activity's own error comes as it is, not as the cause of an ActivityError
        return None
    return answer


def failure(error: ActivityError) -> Failed:
    """Read the reason out of an activity's error."""
    match error.cause:
        case ApplicationError(type=str(reason), message=message):
            return Failed(reason, message)
        case ActivityTimedOut() as timeout:
            return Failed("DeadlineExceeded", f"{error.activity_type} gave no answer: {timeout.message}")
        case cause:
            return Failed(type(cause).__name__, str(cause))
