"""Fails the activity attempts of the previous worker when a worker starts, so that Temporal retries them at once.

After kill -9 Temporal notices a lost attempt only by its missing heartbeat, seconds later. But a worker that holds the
node's lock is the only one, so it fails every attempt that another identity started. Temporal starts the next attempt
here, with the heartbeat details and without an event in the history.
"""

import asyncio
from collections.abc import Iterable
from datetime import timedelta
from typing import Final

import structlog
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from proto.temporal.names import POD_WORKFLOW
from worker.temporal.executions import OPEN, describe_execution, list_executions
from worker.temporal.temporal_client import activity_of

AT_A_TIME: Final = 16
FIRST_ANSWER: Final = timedelta(seconds=5)
"""If Temporal's visibility takes longer, only the workflows that this node knows by itself are taken over."""

BEGUN: Final = frozenset(
    {
        PendingActivityState.PENDING_ACTIVITY_STATE_STARTED,
        PendingActivityState.PENDING_ACTIVITY_STATE_PAUSE_REQUESTED,
    }
)
"""States of an attempt that a worker has; a pause takes effect when it ends."""

_log: Final = structlog.get_logger(__name__)


async def open_pods(client: Client, node: str) -> set[str]:
    """List the ids of this node's open pod workflows; empty if visibility does not answer."""
    query = f"WorkflowType = '{POD_WORKFLOW}' AND PodNode = '{node}' AND {OPEN}"
    try:
        async with asyncio.timeout(FIRST_ANSWER.total_seconds()):
            return {execution.id async for execution in list_executions(client, query)}
    except (RPCError, RuntimeError, TimeoutError) as error:  # RuntimeError: the SDK's core could not connect
        _log.warning("visibility does not answer: taking over the pods that this node has snapshots of", err=str(error))
        return set()


async def take_over(client: Client, node: str, identity: str, known: Iterable[str] = ()) -> int:
    """Fail every attempt of an earlier worker of this node; returns their number. The caller must hold the node's lock.

    `known` adds workflows that visibility may not list yet: pods started just before a crash.
    """
    limit = asyncio.Semaphore(AT_A_TIME)

    async def one(workflow_id: str) -> int:
        async with limit:
            try:
                return await free_attempts(client, workflow_id, identity)
            except Exception:  # noqa: BLE001 - one odd workflow must not keep the worker from starting
                _log.exception("could not take over the activities of a workflow", workflow=workflow_id)
                return 0

    workflow_ids = {*known, *await open_pods(client, node)}
    return sum(await asyncio.gather(*map(one, sorted(workflow_ids))))


async def free_attempts(client: Client, workflow_id: str, identity: str) -> int:
    """Fail the attempts of one workflow that other workers started; returns their number."""
    freed = 0
    try:
        described = await describe_execution(client, workflow_id)
    except RPCError:
        return 0  # closed in the meantime
    for pending in described.pending_activities:
        if pending.state not in BEGUN or pending.last_worker_identity == identity:
            continue
        try:
            await activity_of(client, workflow_id, pending.activity_id).fail(
                ApplicationError(f"its worker {pending.last_worker_identity} is gone", type="WorkerGone")
            )
            freed += 1
        except RPCError:
            continue  # completed in the meantime
    return freed
