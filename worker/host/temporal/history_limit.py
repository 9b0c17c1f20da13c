"""Keeps the database of an embedded Temporal below its limit: the histories that closed first are deleted first.

Used by the worker of a standalone node. Temporal deletes a closed run after the namespace's retention, and a shorter
retention would only apply to runs that close later (temporalio/temporal#1598). So while the database is nearly full, closed
runs are deleted as if the retention were half as long, then a quarter, and so on. Open runs are never deleted: if they alone
exceed the limit, an error is logged, and the node process shows the condition HistoryPressure.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final

import structlog
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from proto.temporal.names import RETENTION_DAYS
from worker.daemon.background import in_background, repeat
from worker.settings.tempolet_configuration import TempoletConfiguration
from worker.temporal.database_size import limit_bytes, used_bytes

PRUNED_ABOVE: Final = 0.9
"""Of the limit, so that it is not reached."""
SHORTEST: Final = timedelta(hours=1)
"""A run that closed later than this ago is kept."""
EVERY: Final = timedelta(minutes=1)
"""Longer than Temporal takes to free the pages of what was deleted (up to 12 s), so that not more is deleted than needed."""
AT_A_TIME: Final = 4
_CALL_LIMIT: Final = timedelta(seconds=10)

_log: Final = structlog.get_logger(__name__)


def shorter_retentions(full: timedelta = timedelta(days=RETENTION_DAYS)) -> Iterator[timedelta]:
    """Return the retentions to try, each half of the one before, down to the shortest."""
    retention = full / 2
    while retention > SHORTEST:
        yield retention
        retention /= 2
    yield SHORTEST


class HistoryLimit:
    """Measures the database, prunes it and sounds the alarm."""

    def __init__(self, client: Client, file: Path, limit: int, show: Callable[[int, int], None]) -> None:
        """Take the client, the database and its limit, and a function that gets the bytes in use and the limit."""
        self._client, self._file, self._limit, self._show = client, file, limit, show
        self._was_over = False

    async def enforce(self) -> None:
        """Measure once, and prune if needed; what fails is tried again the next time."""
        try:
            used = await asyncio.to_thread(used_bytes, self._file)
            self._show(used, self._limit)
            if used > PRUNED_ABOVE * self._limit:
                await self.prune(datetime.now(UTC))
            self._sound_alarm(used)
        except (ValueError, RPCError) as error:
            _log.warning("the database of histories could not be measured or pruned", err=str(error))

    async def prune(self, now: datetime) -> int:
        """Delete the closed runs of the longest of the shorter retentions that has any; returns their number."""
        for retention in shorter_retentions():
            if deleted := await self._delete_closed_before(now - retention):
                _log.warning(
                    "deleted histories because the database is nearly full", retention=str(retention), runs=deleted
                )
                return deleted
        return 0

    async def _delete_closed_before(self, time: datetime) -> int:
        limit = asyncio.Semaphore(AT_A_TIME)

        async def delete(run: WorkflowExecution) -> None:
            async with limit:
                await self._delete(run)

        return len(await asyncio.gather(*[delete(run) async for run in self._closed_before(time)]))

    async def _closed_before(self, time: datetime) -> AsyncIterator[WorkflowExecution]:
        query = f"ExecutionStatus != 'Running' AND CloseTime < '{time.isoformat(timespec='seconds')}'"
        async for found in self._client.list_workflows(query, rpc_timeout=_CALL_LIMIT):
            if found.close_time is not None:
                yield WorkflowExecution(workflow_id=found.id, run_id=found.run_id)

    async def _delete(self, run: WorkflowExecution) -> None:
        request = DeleteWorkflowExecutionRequest(namespace=self._client.namespace, workflow_execution=run)
        try:
            await self._client.workflow_service.delete_workflow_execution(request, timeout=_CALL_LIMIT)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:  # its retention was over in the meantime
                raise

    def _sound_alarm(self, used: int) -> None:
        """Log once that the limit is exceeded, and once that it is not any more."""
        over = used > self._limit
        if over and not self._was_over:
            _log.error(
                "the database of histories exceeds its limit: raise history.databaseLimit, or look for the pods whose "
                "histories grow, such as ones that crash for ever",
                path=str(self._file),
                bytes=used,
                limit=self._limit,
            )
        elif self._was_over and not over:
            _log.info("the database of histories is below its limit again", bytes=used, limit=self._limit)
        self._was_over = over


def limiting_history(
    client: Client, configuration: TempoletConfiguration, show: Callable[[int, int], None]
) -> AbstractAsyncContextManager[None]:
    """Keep the database below its limit while the block runs, if it is known."""
    file, limit = configuration.temporal.database_file, limit_bytes(configuration.history.database_limit)
    if file is None:
        return nullcontext()
    return in_background("history limit", partial(repeat, EVERY, HistoryLimit(client, file, limit, show).enforce))
