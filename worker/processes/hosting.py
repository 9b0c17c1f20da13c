"""The worker's part in Temporal: the SDK's worker, and what looks after its attempts, histories and behaviours.

It begins when Temporal answers, after what has to be done before (`before_polling.py`). A fatal error of the SDK's worker (the namespace is gone, permissions were taken away) ends it,
and it begins anew with another connection, so neither needs another process. All else that the worker process does for pods
goes on meanwhile. An attempt that an ended worker has left counts as that of an earlier process: each connection has an
identity of its own.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import structlog
from temporalio.client import Client
from temporalio.worker import Worker

from activities.execution.present_attempts import PresentAttempts
from proto.temporal.names import node_workflow_id
from worker.behaviours.commitment import Commitment
from worker.behaviours.raising import Raising, raising_behaviours
from worker.behaviours.runs import Numbered
from worker.daemon.background import in_background
from worker.daemon.config import NodeConfig
from worker.daemon.node_client import NodeClient
from worker.daemon.service import Service
from worker.host.pod_cache import PodCache
from worker.host.temporal.history_limit import limiting_history
from worker.host.temporal.lost_attempts import LostAttempts, failing_lost_attempts
from worker.host.temporal.lost_connection import until_lost, until_there
from worker.host.temporal.node_name import NodeName
from worker.host.temporal.paused_activities import PausedActivities, watching_paused_activities
from worker.processes.before_polling import BeforePolling, Phase
from worker.temporal.call_budget import CallBudget

ENDED_WITHIN: Final = timedelta(seconds=8)
"""Longer than what running activities get on a stop."""

_log: Final = structlog.get_logger(__name__)


class HostingEnded(Exception):
    """The SDK's worker has ended, or its namespace is gone; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostingDependencies:
    """What Hosting works with."""

    config: NodeConfig
    node: NodeClient
    service: Service
    name: NodeName
    worker: Callable[[Client], Worker]
    """Makes the SDK's worker."""
    before: BeforePolling
    phase: Phase
    shut: Callable[[], None]
    """Holds back what Temporal's runs do until the next comparison."""
    cache: PodCache
    present: PresentAttempts
    budget: CallBudget
    show_history: Callable[[int, int], None]
    numbers: Callable[[], Mapping[str, Numbered]]
    """Returns the number that each of this node's runs follows, by run id, as far as the node knows it by itself."""


class Hosting:
    """Hosts this node's workflows and activities."""

    def __init__(self, dependencies: HostingDependencies) -> None:
        self._deps = dependencies

    async def run(self) -> None:
        """Wait for Temporal, then host until cancelled; raises HostingEnded, after which it may run again."""
        deps = self._deps
        await deps.node.reach()
        client = deps.node.client
        await deps.name.until_ours(waits=deps.node.waits, refused=deps.node.refused)
        deps.node.goes_on()
        taken = await deps.before.run(client)
        lost = LostAttempts(
            client,
            deps.present,
            deps.cache.snapshots,
            node_workflow=node_workflow_id(deps.config.node_name),
            unknown=taken.unknown,
        )
        async with running(deps.worker(client)) as worker, self._looking_after(client), failing_lost_attempts(lost):
            _log.info("worker started", node=deps.config.node_name, taken_over=taken.attempts)
            deps.service.status(f"working for node {deps.config.node_name}")
            deps.phase.is_hosting = True
            try:
                why = await self._end_of(worker)
            finally:
                deps.phase.is_hosting = False
        deps.service.note(f"Temporal: {why}; trying again")
        raise HostingEnded(why)

    @contextlib.asynccontextmanager
    async def _looking_after(self, client: Client) -> AsyncIterator[None]:
        """Run the loops that call Temporal for its own sake while the block runs."""
        config, deps, every = self._deps.config, self._deps, self._deps.config.sync_frequency
        commitment = Commitment(config.state_dir)
        raising = Raising(client, config.node_name, commitment, numbers=deps.numbers, budget=deps.budget)
        paused = PausedActivities(
            client, config.node_name, deps.cache.snapshots, root_dir=config.root_dir, budget=deps.budget
        )
        async with (
            in_background("the connection to Temporal", lambda: self._comparing(client)),
            raising_behaviours(raising, every),
            watching_paused_activities(paused, every),
            limiting_history(client, config.tempolet, deps.show_history),
            deps.name.watched(),
        ):
            yield

    async def _comparing(self, client: Client) -> None:
        """Compare again whenever the connection was lost: another database may answer next."""
        while True:
            why = await until_lost(client, self._deps.config.node_name)
            self._deps.shut()
            _log.info("the connection to Temporal was lost", err=why)
            await until_there(client)
            await self._deps.before.compare_again(client)

    async def _end_of(self, worker: "asyncio.Task[None]") -> str:
        """Wait until the worker has ended, the namespace is gone, or another machine has this node's name; returns why."""
        gone = asyncio.create_task(self._deps.node.namespace_gone.wait())
        taken = asyncio.create_task(self._deps.name.taken.wait())
        try:
            await asyncio.wait({worker, gone, taken}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            taken.cancel()
        if not worker.done():
            return self._deps.name.taken_by or "the namespace is gone"
        error = worker.exception()
        return f"the worker has ended: {error}" if error else "the worker has ended"


@contextlib.asynccontextmanager
async def running(worker: Worker) -> AsyncIterator["asyncio.Task[None]"]:
    """Run the SDK's worker while the block runs, then shut it down; yields its task, which a fatal error ends early.

    A Temporal that does not answer does not hold up the end: the SDK would tell it the last results for minutes.
    """
    task = asyncio.create_task(worker.run(), name="the SDK's worker")
    try:
        yield task
    finally:
        ending = asyncio.create_task(worker.shutdown(), name="the end of the SDK's worker")
        await asyncio.wait({ending}, timeout=ENDED_WITHIN.total_seconds())
        for one in (ending, task):
            one.cancel()
        await asyncio.wait({ending, task}, timeout=1)
