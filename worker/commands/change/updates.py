"""Sends Updates to a pod's workflow; the response says what was done, a rejection says why not.

Used by every command that changes a pod. The pod's history shows who asked and what changed.
"""

import asyncio
import os
import pwd
import secrets
import socket
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final, TypeVar

from temporalio.client import (
    WorkflowHandle,
    WorkflowQueryFailedError,
    WorkflowQueryRejectedError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import QueryRejectCondition
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from proto.temporal import names
from proto.temporal.operator import OperatorRequest, Rejection
from worker.commands.access import temporal_access
from worker.commands.access.exits import CommandFailed, Exit
from worker.commands.access.led_pods import ask_pod, pod_here
from worker.commands.access.pod_selection import PodSelector, find_pods
from worker.daemon.config import NodeConfig
from worker.delivery.lead import Message, Reply

ASK_AGAIN: Final = timedelta(milliseconds=100)
WHY_NOT_WITHIN: Final = timedelta(seconds=2)
PAUSED_WORDS: Final = "workflow is paused"
"""Temporal's words; it has no status of its own for that."""
SOURCE: Final = "command"
"""Who numbers the requests."""
_NUMBER_BITS: Final = 53
"""What every reader of JSON keeps exactly."""
Answered = TypeVar("Answered")


class Refused(CommandFailed):
    """The workflow rejected the Update; the message says why and what to do."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message, Exit.NOT_FOUND if reason.startswith("NoSuch") else Exit.FAILED)
        self.reason = reason


class WorkflowPaused(CommandFailed):
    """Temporal refuses Updates of a workflow that somebody has paused."""

    def __init__(self, workflow_id: str) -> None:
        super().__init__(
            "the pod's workflow is paused, and takes no requests: first continue it with "
            f"`temporal workflow unpause --workflow-id {workflow_id}`"
        )


def numbered(asked: OperatorRequest) -> OperatorRequest:
    """Give a request the number by which a pod recognizes it if it comes twice."""
    return replace(asked, source=SOURCE, sequence=secrets.randbits(_NUMBER_BITS) or 1)


def update_id(asked: object) -> str | None:
    """Return the id by which a run recognizes a request that comes twice; None for one without a number."""
    number = getattr(asked, "sequence", 0)
    return f"{SOURCE}-{number}" if number else None


def operator() -> str:
    """Return who asks, as shown in the history: user@host."""
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


def update_pod(
    config: NodeConfig, selector: PodSelector, asked: OperatorRequest, *, update: str, answer: type[Answered]
) -> Answered:
    """Send an Update to the newest pod of this name; raises CommandFailed, or Refused if the pod rejects it."""
    return asyncio.run(_send_to_pod(config, selector, numbered(asked), update=update, answer=answer))


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


async def _send_to_pod(
    config: NodeConfig, selector: PodSelector, asked: OperatorRequest, *, update: str, answer: type[Answered]
) -> Answered:
    answered = await ask_pod(
        config,
        Message(pod_here(config, selector), update, asked, SOURCE, asked.sequence),
        lambda: _send_to_workflow(config, selector, asked, update=update, answer=answer),
        lambda lead, said: lead.update(said, answer),
    )
    if not isinstance(answered, Reply):
        return answered
    if answered.refusal:
        raise Refused(answered.refusal.message, answered.refusal.reason)
    if not isinstance(answered.value, answer):
        raise CommandFailed(f"the worker has answered the request to {selector} with something else")
    return answered.value


async def _send_to_workflow(
    config: NodeConfig, selector: PodSelector, asked: OperatorRequest, *, update: str, answer: type[Answered]
) -> Answered:
    client = await temporal_access.client_of(config)
    pod = (await find_pods(client, config, selector))[-1].pod
    handle = client.get_workflow_handle(str(pod))
    if rejection := await why_not(handle, asked, update):
        raise Refused(rejection.message, rejection.reason)
    try:
        async with asyncio.timeout(temporal_access.ANSWER_WITHIN.total_seconds()):
            return await send_update(handle, asked, update=update, answer=answer)
    except WorkflowUpdateFailedError as error:
        why = error.cause
        message, reason = (why.message, why.type or "") if isinstance(why, ApplicationError) else (str(why), "")
        raise Refused(message, reason) from error
    except (TimeoutError, WorkflowUpdateRPCTimeoutOrCancelledError) as error:
        # Temporal keeps an accepted Update and delivers it to the next worker
        error_shown = TimeoutError(f"{temporal_access.no_answer()}; the request is delivered when a worker starts")
        raise temporal_access.NoAnswer(temporal_access.no_worker(pod.node, error_shown)) from error
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            raise CommandFailed(f"{selector} is gone", Exit.NOT_FOUND) from error
        raise temporal_access.NoAnswer(temporal_access.no_worker(pod.node, error)) from error
