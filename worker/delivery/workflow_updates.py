"""Sends Updates to a pod's workflow in Temporal, for the operator's commands and for the node itself.

The pod's history shows who asked and what changed.
"""

import asyncio
import secrets
from datetime import timedelta
from typing import Any, Final, TypeVar

from temporalio.client import (
    WorkflowHandle,
    WorkflowQueryFailedError,
    WorkflowQueryRejectedError,
    WorkflowUpdateFailedError,
)
from temporalio.common import QueryRejectCondition
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from proto.temporal import names
from proto.temporal.operator import Rejection

ASK_AGAIN: Final = timedelta(milliseconds=100)
WHY_NOT_WITHIN: Final = timedelta(seconds=2)
PAUSED_WORDS: Final = "workflow is paused"
"""Temporal's words; it has no status of its own for that."""
_NUMBER_BITS: Final = 53
"""What every reader of JSON keeps exactly."""
Answered = TypeVar("Answered")


class WorkflowPaused(Exception):
    """Temporal refuses Updates of a workflow that somebody has paused; the message names it."""


def new_number() -> int:
    """Return a number by which a pod recognizes a request if it comes twice."""
    return secrets.randbits(_NUMBER_BITS) or 1


def update_id(asked: object) -> str | None:
    """Return the id by which a run recognizes a request that comes twice; None for one without a number."""
    number = getattr(asked, "sequence", 0)
    return f"{getattr(asked, 'source', '')}-{number}" if number else None


async def why_not(handle: WorkflowHandle[Any, Any], asked: object, update: str) -> Rejection | None:
    """Ask the workflow why it would reject an Update; None also if it does not answer in time.

    Asked before the Update is sent, because a rejected Update leaves a workflow task that a replay may merge with the next one
    (docs/architecture.md). A query leaves nothing.
    """
    try:
        rejection: Rejection | None = await handle.query(
            names.WHY_NOT,
            args=[update, asked],
            result_type=Rejection | None,  # type: ignore[arg-type]  # the converter takes unions, the SDK's types do not
            reject_condition=QueryRejectCondition.NOT_OPEN,
            rpc_timeout=WHY_NOT_WITHIN,
        )
    except (RPCError, WorkflowQueryFailedError, WorkflowQueryRejectedError, ValueError):
        return None  # ValueError: the status of a paused workflow, which the SDK does not know
    return rejection


async def send_update(
    handle: WorkflowHandle[Any, Any], asked: object, *, update: str, answer: type[Answered]
) -> Answered:
    """Send the Update until it is accepted; raises WorkflowPaused.

    Temporal returns FAILED_PRECONDITION without delivering the Update if signals arrive while a run continues as new, and
    for a paused workflow.
    """
    while True:
        try:
            answered: Answered = await handle.execute_update(update, asked, id=update_id(asked), result_type=answer)
        except RPCError as error:
            if error.status is not RPCStatusCode.FAILED_PRECONDITION:
                raise
            if PAUSED_WORDS in error.message.lower():
                raise WorkflowPaused(handle.id) from error
            await asyncio.sleep(ASK_AGAIN.total_seconds())
        else:
            return answered


def rejection_of(error: WorkflowUpdateFailedError) -> Rejection:
    """Return why the workflow has rejected an Update."""
    why = error.cause
    return Rejection(why.type or "", why.message) if isinstance(why, ApplicationError) else Rejection("", str(why))
