"""Fails the activity attempts of the previous worker when a worker starts, so that Temporal retries them at once.

After kill -9 Temporal notices a lost attempt only by its missing heartbeat, seconds later. But a worker that holds the
node's lock is the only one, so it fails every attempt that another identity started. Temporal starts the next attempt
here, with the heartbeat details and without an event in the history. That is done before this worker asks for work: later an
attempt of its own could be meant.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import structlog
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionResponse
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from worker.host.temporal.first_look import FirstLook
from worker.temporal.executions import HELD_BY_A_WORKER, describe_execution
from worker.temporal.temporal_client import activity_of

AT_A_TIME: Final = 16
WITHIN: Final = timedelta(seconds=10)
"""For all workflows: a Temporal that throttles or answers late keeps no worker from starting."""

_log: Final = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class TakenOver:
    """What a starting worker took over."""

    attempts: int
    unknown: frozenset[str]
    """The workflows of which Temporal said nothing; `lost_attempts` asks again."""


async def take_over(look: FirstLook, identity: str, known: Iterable[str] = ()) -> TakenOver:
    """Fail every attempt of an earlier worker of this node. The caller must hold the node's lock, and not ask for work yet.

    `known` adds workflows that visibility may not list yet: pods started just before a crash.
    """
    turns = asyncio.Semaphore(AT_A_TIME)
    left, failed = {*known, *(await look.open_pods() or ())}, list[int]()

    def is_other(_: str, pending: PendingActivityInfo) -> bool:
        return pending.last_worker_identity != identity

    async def one(workflow_id: str) -> None:
        async with turns:
            try:
                described = await look.describe(workflow_id)
                if described:
                    failed.append(await fail_described(look.client, workflow_id, described, is_other))
                left.discard(workflow_id)
            except Exception as error:  # noqa: BLE001 - one odd workflow must not keep the worker from starting
                _log.warning("could not take over activities; trying again", workflow=workflow_id, err=str(error))

    try:
        async with asyncio.timeout(WITHIN.total_seconds()):
            await asyncio.gather(*map(one, sorted(left)))
    except TimeoutError:
        _log.warning("Temporal is slow: the attempts of an earlier worker are looked for later", workflows=len(left))
    return TakenOver(sum(failed), frozenset(left))


async def fail_attempts(client: Client, workflow_id: str, is_lost: Callable[[str, PendingActivityInfo], bool]) -> int:
    """Fail the lost attempts of one workflow; returns their number. Raises RPCError if Temporal does not answer.

    `is_lost` is given the run's id and each attempt that Temporal takes for running.
    """
    try:
        described = await describe_execution(client, workflow_id)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return 0  # closed and deleted in the meantime
        raise
    return await fail_described(client, workflow_id, described, is_lost)


async def fail_described(
    client: Client,
    workflow_id: str,
    described: DescribeWorkflowExecutionResponse,
    is_lost: Callable[[str, PendingActivityInfo], bool],
) -> int:
    """Do the same with what Temporal has just said of the workflow."""
    failed = 0
    run_id = described.workflow_execution_info.execution.run_id
    for pending in described.pending_activities:
        if pending.state not in HELD_BY_A_WORKER or not is_lost(run_id, pending):
            continue
        why = f"its worker {pending.last_worker_identity} does not run it any more"
        try:
            await activity_of(client, workflow_id, pending.activity_id).fail(ApplicationError(why, type="WorkerGone"))
            failed += 1
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:  # else completed in the meantime
                raise
    return failed
