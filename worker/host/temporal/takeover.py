"""Fails the activity attempts of the previous worker when a worker starts, so that Temporal retries them at once.

After kill -9 Temporal notices a lost attempt only by its missing heartbeat, seconds later. But a worker that holds the
node's lock is the only one, so it fails every attempt that another identity started. Temporal starts the next attempt
here, with the heartbeat details and without an event in the history.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import structlog
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from proto.temporal.names import POD_WORKFLOW
from worker.temporal.executions import HELD_BY_A_WORKER, OPEN, describe_execution, list_executions
from worker.temporal.temporal_client import activity_of

AT_A_TIME: Final = 16
FIRST_ANSWER: Final = timedelta(seconds=5)
"""If Temporal's visibility takes longer, only the workflows that this node knows by itself are taken over."""

_log: Final = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class TakenOver:
    """What a starting worker took over."""

    attempts: int
    unknown: frozenset[str]
    """The workflows of which Temporal said nothing; `lost_attempts` asks again."""


async def open_pods(client: Client, node: str) -> set[str] | None:
    """List the ids of this node's open pod workflows; None if visibility does not answer."""
    query = f"WorkflowType = '{POD_WORKFLOW}' AND PodNode = '{node}' AND {OPEN}"
    try:
        async with asyncio.timeout(FIRST_ANSWER.total_seconds()):
            return {execution.id async for execution in list_executions(client, query)}
    except (RPCError, RuntimeError, TimeoutError) as error:  # RuntimeError: the SDK's core could not connect
        _log.warning("visibility does not answer: only what this node knows itself is looked at", err=str(error))
        return None


async def take_over(client: Client, node: str, identity: str, known: Iterable[str] = ()) -> TakenOver:
    """Fail every attempt of an earlier worker of this node. The caller must hold the node's lock.

    `known` adds workflows that visibility may not list yet: pods started just before a crash.
    """
    limit = asyncio.Semaphore(AT_A_TIME)
    unknown: set[str] = set()

    def is_other(_: str, pending: PendingActivityInfo) -> bool:
        return pending.last_worker_identity != identity

    async def one(workflow_id: str) -> int:
        async with limit:
            try:
                return await fail_attempts(client, workflow_id, is_other)
            except Exception as error:  # noqa: BLE001 - one odd workflow must not keep the worker from starting
                unknown.add(workflow_id)
                _log.warning("could not take over activities; trying again", workflow=workflow_id, err=str(error))
                return 0

    workflow_ids = {*known, *(await open_pods(client, node) or ())}
    attempts = sum(await asyncio.gather(*map(one, sorted(workflow_ids))))
    return TakenOver(attempts, frozenset(unknown))


async def fail_attempts(client: Client, workflow_id: str, is_lost: Callable[[str, PendingActivityInfo], bool]) -> int:
    """Fail the lost attempts of one workflow; returns their number. Raises RPCError if Temporal does not answer.

    `is_lost` is given the run's id and each attempt that Temporal takes for running.
    """
    failed = 0
    try:
        described = await describe_execution(client, workflow_id)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return 0  # closed and deleted in the meantime
        raise
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
