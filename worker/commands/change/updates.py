"""Sends Updates to a pod's workflow; the response says what was done, a rejection says why not.

Used by every command that changes a pod. The pod's history shows who asked and what changed.
"""

import asyncio
import os
import pwd
import socket
from dataclasses import replace
from typing import Final, TypeVar

from temporalio.client import WorkflowUpdateFailedError, WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.service import RPCError, RPCStatusCode

from proto.temporal.operator import OperatorRequest
from worker.commands.access import temporal_access
from worker.commands.access.exits import CommandFailed, Exit
from worker.commands.access.led_pods import ask_pod, pod_here
from worker.commands.access.pod_selection import PodSelector, find_pods
from worker.daemon.config import NodeConfig
from worker.delivery.lead import Message, Reply
from worker.delivery.workflow_updates import WorkflowPaused, new_number, rejection_of, send_update, why_not

SOURCE: Final = "command"
"""Who numbers the requests."""
Answered = TypeVar("Answered")


class Refused(CommandFailed):
    """The workflow rejected the Update; the message says why and what to do."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message, Exit.NOT_FOUND if reason.startswith("NoSuch") else Exit.FAILED)
        self.reason = reason


def numbered(asked: OperatorRequest) -> OperatorRequest:
    """Give a request the number by which a pod recognizes it if it comes twice."""
    return replace(asked, source=SOURCE, sequence=new_number())


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
        rejected = rejection_of(error)
        raise Refused(rejected.message, rejected.reason) from error
    except WorkflowPaused as error:
        raise CommandFailed(
            "the pod's workflow is paused, and takes no requests: first continue it with "
            f"`temporal workflow unpause --workflow-id {handle.id}`"
        ) from error
    except (TimeoutError, WorkflowUpdateRPCTimeoutOrCancelledError) as error:
        # Temporal keeps an accepted Update and delivers it to the next worker
        error_shown = TimeoutError(f"{temporal_access.no_answer()}; the request is delivered when a worker starts")
        raise temporal_access.NoAnswer(temporal_access.no_worker(pod.node, error_shown)) from error
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            raise CommandFailed(f"{selector} is gone", Exit.NOT_FOUND) from error
        raise temporal_access.NoAnswer(temporal_access.no_worker(pod.node, error)) from error
