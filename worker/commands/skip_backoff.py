"""`tempolet skip-backoff NAMESPACE/POD [CONTAINER]`: restart a crash-looping container now, pull a missing image now.

An Update of the pod's workflow, so it is answered with what it did or why there was nothing to do, and it stands in the
pod's history with who asked. What the wait was earned by stays: the next back-off is as long as it would have been.
"""

import asyncio
import os
import pwd
import socket
from datetime import timedelta
from typing import Any, Final

from temporalio.client import WorkflowHandle, WorkflowUpdateFailedError, WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from proto.temporal import names
from proto.temporal.operator import BackoffsSkipped, SkipBackoff
from worker.commands import temporal_access
from worker.commands.exits import CommandFailed, Exit
from worker.commands.explain import no_worker
from worker.commands.printable import printable
from worker.commands.told import seconds
from worker.commands.wanted import Wanted, lives_of
from worker.config import NodeConfig

ASK_AGAIN: Final = timedelta(milliseconds=100)


def run(config: NodeConfig, wanted: Wanted, container: str) -> None:
    """Skip the back-offs of one container or of all that wait; raises CommandFailed when none does."""
    answer = asyncio.run(_skip(config, wanted, SkipBackoff(operator(), container)))
    for one in answer.skipped:
        print(printable(f"{one} begins now, {seconds(one.left)} before its time"))
    if not answer.skipped:
        print(f"{wanted}: the back-off was over already")


def operator() -> str:
    """Say who asks, as the history will tell it: user@host."""
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


async def ask(handle: WorkflowHandle[Any, Any], asked: SkipBackoff) -> BackoffsSkipped:
    """Send the Update until it is heard.

    Temporal gives an Update back unheard (FAILED_PRECONDITION) when signals arrive while a run is being continued as new.
    """
    while True:
        try:
            answer: BackoffsSkipped = await handle.execute_update(
                names.SKIP_BACKOFF, asked, result_type=BackoffsSkipped
            )
        except RPCError as error:
            if error.status is not RPCStatusCode.FAILED_PRECONDITION:
                raise
            await asyncio.sleep(ASK_AGAIN.total_seconds())
        else:
            return answer


async def _skip(config: NodeConfig, wanted: Wanted, asked: SkipBackoff) -> BackoffsSkipped:
    client = await temporal_access.client_of(config)
    pod = (await lives_of(client, config, wanted))[-1].pod
    handle = client.get_workflow_handle(str(pod))
    try:
        async with asyncio.timeout(temporal_access.ANSWER_WITHIN.total_seconds()):
            return await ask(handle, asked)
    except WorkflowUpdateFailedError as error:
        why = error.cause
        code = Exit.NOT_FOUND if isinstance(why, ApplicationError) and why.type == "NoSuchContainer" else Exit.FAILED
        raise CommandFailed(why.message if isinstance(why, ApplicationError) else str(why), code) from error
    except (TimeoutError, WorkflowUpdateRPCTimeoutOrCancelledError) as error:
        raise CommandFailed(no_worker(pod, TimeoutError("no answer to the update"))) from error
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            raise CommandFailed(f"{wanted} is gone: nothing of it starts again", Exit.NOT_FOUND) from error
        raise CommandFailed(no_worker(pod, error)) from error
