"""Forgets the tickets of pods that are gone.

A run that completes gives its ticket up itself. But somebody may have terminated it, so that the pod's captured start would still
be worth something. So after each minute's listing, a ticket is forgotten whose workflow is not open and whose pod no source
lists or may list: after two listings have found it so, and the workflow's own record confirms it.
"""

import asyncio
import time
from collections.abc import Callable, Collection
from typing import Final

import structlog

from proto.temporal.names import PodWorkflowId
from worker.poller.calls.open_workflows import is_pod_of
from worker.poller.calls.pod_workflows import PodWorkflows
from worker.tickets.held import Held
from worker.tickets.tickets import Tickets

KEPT_SECONDS: Final = 3600.0
"""After a completion, which Temporal may have refused: then the run goes on with its ticket."""

_log: Final = structlog.get_logger(__name__)


class UnusedTickets:
    """Remembers the tickets that one listing has found unused."""

    def __init__(self, tickets: Tickets, workflows: PodWorkflows, node: str, is_wanted: Callable[[str], bool]) -> None:
        self._tickets, self._workflows, self._node, self._is_wanted = tickets, workflows, node, is_wanted
        self._seen: frozenset[str] = frozenset()

    async def look(self, open_pods: Collection[str]) -> None:
        """Take the ids of the open workflows; raises TemporalUnavailable or CallRefused."""
        unused = set[str]()
        for workflow_id, held, written_at in await asyncio.to_thread(lambda: list(self._tickets.all())):
            if not is_pod_of(self._node, workflow_id):
                continue
            if held.is_over:
                if time.time() - written_at > KEPT_SECONDS:
                    await self._forget(workflow_id, held)
            elif workflow_id not in open_pods and not self._is_listed(workflow_id):
                unused.add(workflow_id)
                if workflow_id in self._seen:
                    await self._forget_unless_open(workflow_id, held)
        self._seen = frozenset(unused)

    async def _forget_unless_open(self, workflow_id: str, held: Held) -> None:
        async with self._workflows.starts.hold(workflow_id):
            if not self._is_listed(workflow_id) and not await self._workflows.is_open(workflow_id):
                await self._forget(workflow_id, held)

    async def _forget(self, workflow_id: str, held: Held) -> None:
        try:
            await asyncio.to_thread(self._tickets.forget, workflow_id, held)
        except OSError as error:  # tried again after the next listing
            _log.warning("the ticket of a pod that is gone cannot be removed", workflow=workflow_id, err=str(error))

    def _is_listed(self, workflow_id: str) -> bool:
        return self._is_wanted(PodWorkflowId.parse(workflow_id).uid)
