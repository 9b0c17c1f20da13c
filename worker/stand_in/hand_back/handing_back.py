"""Hands pods, and the node's images, back to Temporal: their workflows get the story of the outage, and then their state.

Called by the worker for each pod that it led, once Temporal answers. What Temporal has of the workflow is looked at first, so that
every step may have been done before by a worker that has ended since. Nothing is forced upon a run that an operator has paused.
"""

import asyncio
import hashlib
import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import structlog
from pydantic_core import to_json
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import (
    DescribeNamespaceRequest,
    GetWorkflowExecutionHistoryReverseRequest,
    SignalWorkflowExecutionRequest,
)
from temporalio.client import Client, WorkflowHistoryEventFilterType
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.converter import WorkflowSerializationContext
from temporalio.service import RPCError, RPCStatusCode

from proto.temporal import names
from proto.temporal.away import WhileAway
from proto.temporal.ticket import Ticket
from worker.delivery.task_timeouts import SHORTEST
from worker.stand_in.hand_back.returned import HandedOver, Returned
from worker.stand_in.hand_back.returns import FAILED_TASKS
from worker.stand_in.hand_back.story_parts import Told, told
from worker.stand_in.hand_back.subjects import State, begin_of, handed_on, waiting
from worker.stand_in.journal.kept import Start
from worker.temporal.call_budget import is_busy, is_full, is_too_large
from worker.temporal.executions import PAUSED, NewestRun, describe_execution, failed_tasks, newest_run

TAKEN_WITHIN: Final = timedelta(seconds=30)
"""How long a run may take to go on with the state that it was handed; then another run is started in its place."""
CALL_LIMIT: Final = timedelta(seconds=10)
LOOK_LIMIT: Final = timedelta(seconds=3)
"""For the question whether Temporal answers."""
LOOK_AGAIN: Final = 0.25
"""Seconds between two looks at a run that was just started."""
TRIES: Final = 4
"""Of one hand-back, while runs close under it or Temporal asks for fewer calls."""
FIRST_PAUSE: Final = timedelta(seconds=0.5)
"""Before the second try; doubled for each further one."""
_CALL_REFUSED: Final = frozenset(
    {
        RPCStatusCode.INVALID_ARGUMENT,
        RPCStatusCode.FAILED_PRECONDITION,
        RPCStatusCode.PERMISSION_DENIED,
        RPCStatusCode.UNAUTHENTICATED,
        RPCStatusCode.OUT_OF_RANGE,
        RPCStatusCode.UNIMPLEMENTED,
        RPCStatusCode.NOT_FOUND,
        RPCStatusCode.ABORTED,
    }
)
_CALL_AGAIN: Final = frozenset({RPCStatusCode.NOT_FOUND, RPCStatusCode.RESOURCE_EXHAUSTED, RPCStatusCode.ABORTED})

_log: Final = structlog.get_logger(__name__)


class HandingBack:
    """Hands the pods of one node back."""

    def __init__(
        self,
        client: Client,
        *,
        taken_within: timedelta = TAKEN_WITHIN,
        task_timeout: timedelta = SHORTEST,
        is_ours: Callable[[], Awaitable[bool]] | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`is_ours`: whether no other machine has taken this node's name."""
        self._client = client
        self._is_ours = is_ours
        self._taken_within = taken_within
        self._task_timeout = task_timeout
        self._now = now

    async def is_there(self) -> bool:
        """Report whether Temporal answers, and this node may go on there."""
        request = DescribeNamespaceRequest(namespace=self._client.namespace)
        try:
            await self._client.workflow_service.describe_namespace(request, retry=False, timeout=LOOK_LIMIT)
        except (RPCError, RuntimeError):  # the SDK's core raises the second one if it cannot connect
            return False
        return self._is_ours is None or await self._is_ours()

    async def failed_tasks(self, workflow_id: str) -> int | None:
        """Return how many tasks of the workflow have failed in a row; None if Temporal does not answer."""
        try:
            described = await describe_execution(self._client, workflow_id, limit=LOOK_LIMIT)
        except (RPCError, RuntimeError):
            return None
        return failed_tasks(described)

    async def hand_back(self, pod: Returned) -> HandedOver:
        """Tell the pod's workflow its story and its state; returns once the workflow leads the pod, or that it does not."""
        pause = FIRST_PAUSE
        for left in reversed(range(TRIES)):
            try:
                return await self._try(pod)
            except RPCError as error:
                if error.status in _CALL_AGAIN and left:
                    await asyncio.sleep(pause.total_seconds())
                    pause *= 2
                    continue
                return _given_up(pod, error, is_refused=is_refused(error))
            except RuntimeError as error:
                return _given_up(pod, error, is_refused=False)
        raise AssertionError("the last try has returned")

    async def _try(self, pod: Returned) -> HandedOver:
        seen, ticket = await self._look(pod.workflow_id), pod.start.ticket
        if _has(seen, ticket):
            return HandedOver.TAKEN
        if seen.status == PAUSED:
            return _paused(pod.workflow_id)
        if pod.start.observed is None:
            await self._start(pod.start, pod.workflow_id, WorkflowIDConflictPolicy.TERMINATE_EXISTING)
            return HandedOver.TAKEN
        run_id, is_foreign = seen.run_id, _is_foreign(seen, ticket)
        signals = told(pod, self._now(), seen.start.handed_back if seen.start and not is_foreign else None)
        if is_foreign or not seen.is_open:  # a run that is told a story does nothing before it has the state
            policy = WorkflowIDConflictPolicy
            conflict = policy.TERMINATE_EXISTING if is_foreign else policy.USE_EXISTING
            run_id = await self._start(
                waiting(pod.start),
                pod.workflow_id,
                conflict,
                WhileAway(ticket.epoch, 0, incarnation=ticket.incarnation),
            )
        may_take = pod.replays or is_foreign or not seen.is_open
        outcome = await self._tell(pod.workflow_id, run_id, signals, ticket if may_take else None)
        if outcome is not None:
            return outcome
        _log.warning("a run does not take back what is handed to it: another run replaces it", workflow=pod.workflow_id)
        start = handed_on(pod.start, signals.state)
        run_id = await self._start(start, pod.workflow_id, WorkflowIDConflictPolicy.TERMINATE_EXISTING)
        return await self._first_task(pod.workflow_id, run_id)

    async def _tell(self, workflow_id: str, run_id: str, signals: Told, ticket: Ticket | None) -> HandedOver | None:
        """Send a run the signals, and wait until it has the ticket, if one is given.

        Returns None if it does not take them in time, or takes no signal any more.
        """
        try:
            for part in signals.parts:
                await self._signal(workflow_id, run_id, part)
            await self._signal(workflow_id, run_id, signals.state)
            return await self._outcome(workflow_id, ticket) if ticket else None
        except RPCError as error:
            if not is_full(error):
                raise
            return None

    # --- what Temporal has

    async def _look(self, workflow_id: str) -> NewestRun:
        """Look at the newest run; raises RPCError."""
        return await newest_run(self._client, workflow_id, begin_of(workflow_id).shape, limit=CALL_LIMIT)

    async def _outcome(self, workflow_id: str, ticket: Ticket) -> HandedOver | None:
        """Wait until a run has this ticket; returns None if none has in time. Raises RPCError."""
        deadline = asyncio.get_running_loop().time() + self._taken_within.total_seconds()
        while True:
            seen = await self._look(workflow_id)
            if _has(seen, ticket):
                return HandedOver.TAKEN
            if seen.status == PAUSED:
                return _paused(workflow_id)
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0 or not seen.is_open or seen.failed_tasks >= FAILED_TASKS:
                return None
            await self._closed(workflow_id, seen.run_id, timedelta(seconds=left))

    async def _first_task(self, workflow_id: str, run_id: str) -> HandedOver:
        """Wait until a run that was just started has decided something, or its task has failed; raises RPCError.

        The run before it may have failed by its code, and this one runs the same. One that Temporal is slow with counts as taken.
        """
        deadline = asyncio.get_running_loop().time() + self._taken_within.total_seconds()
        while True:
            described = await describe_execution(self._client, workflow_id, limit=CALL_LIMIT)
            info, failures = described.workflow_execution_info, failed_tasks(described)
            if info.execution.run_id != run_id or not described.HasField("pending_workflow_task"):
                return HandedOver.TAKEN
            if failures >= FAILED_TASKS or (failures and await self._ends_with_failure(workflow_id, run_id)):
                _log.warning("the run that replaces another one fails, too: the node goes on", workflow=workflow_id)
                return HandedOver.FAILED
            if asyncio.get_running_loop().time() >= deadline:
                return HandedOver.TAKEN
            await asyncio.sleep(LOOK_AGAIN)

    async def _ends_with_failure(self, workflow_id: str, run_id: str) -> bool:
        """Report whether a task has failed, and was not only late; raises RPCError."""
        request = GetWorkflowExecutionHistoryReverseRequest(
            namespace=self._client.namespace,
            execution=WorkflowExecution(workflow_id=workflow_id, run_id=run_id),
            maximum_page_size=1,
        )
        page = await self._client.workflow_service.get_workflow_execution_history_reverse(
            request, retry=True, timeout=CALL_LIMIT
        )
        return any(one.HasField("workflow_task_failed_event_attributes") for one in page.history.events)

    async def _closed(self, workflow_id: str, run_id: str, within: timedelta) -> None:
        """Wait until a run is closed, or for this long; raises RPCError."""
        handle = self._client.get_workflow_handle(workflow_id, run_id=run_id)
        events = handle.fetch_history_events(
            wait_new_event=True,
            event_filter_type=WorkflowHistoryEventFilterType.CLOSE_EVENT,
            skip_archival=True,
            rpc_timeout=within + LOOK_LIMIT,
        )
        try:
            async with asyncio.timeout(within.total_seconds()):
                async for _ in events:
                    return
        except TimeoutError:
            return

    # --- what Temporal is told

    async def _start(
        self,
        start: Start,
        workflow_id: str,
        conflict: WorkflowIDConflictPolicy,
        signal: WhileAway | None = None,
    ) -> str:
        """Start a run; one that is open gets the signal, or is terminated. Returns the id of the run that is open. Raises RPCError."""
        begin = begin_of(workflow_id)
        handle = await self._client.start_workflow(
            begin.workflow,
            start,
            id=workflow_id,
            task_queue=begin.task_queue,
            task_timeout=self._task_timeout,
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
            id_conflict_policy=conflict,
            search_attributes=begin.search_attributes,
            static_summary=begin.summary,
            static_details=begin.details,
            start_signal=_name(signal) if signal else None,
            start_signal_args=[signal] if signal else [],
            rpc_timeout=CALL_LIMIT,
        )
        return handle.result_run_id or ""

    async def _signal(self, workflow_id: str, run_id: str, signal: WhileAway | State) -> None:
        """Signal this run, and no later one, which may have been told already; raises RPCError.

        A part of the story has an id of its positions and times, by which Temporal drops it if the run has it already.
        """
        request = SignalWorkflowExecutionRequest(
            namespace=self._client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=workflow_id, run_id=run_id),
            signal_name=_name(signal),
            identity=self._client.identity,
            request_id=_request_id(signal),
        )
        request.input.payloads.extend(await self._converter(workflow_id).encode([signal]))
        await self._client.workflow_service.signal_workflow_execution(request, retry=True, timeout=CALL_LIMIT)

    def _converter(self, workflow_id: str) -> Any:
        context = WorkflowSerializationContext(namespace=self._client.namespace, workflow_id=workflow_id)
        return self._client.data_converter.with_context(context)


def _is_foreign(seen: NewestRun, ticket: Ticket) -> bool:
    """Report whether the newest run is of another life: of another machine that had this node's name, or of an older database."""
    return seen.start is not None and not seen.start.ticket.is_of_life(ticket.incarnation)


def _has(seen: NewestRun, ticket: Ticket) -> bool:
    """Report whether the newest run was handed this state, or a later one."""
    return seen.start is not None and not _is_foreign(seen, ticket) and bool(seen.start.ticket.epoch >= ticket.epoch)


def is_refused(error: RPCError) -> bool:
    """Report whether Temporal refuses this workflow's call, and not those of others."""
    return error.status in _CALL_REFUSED or is_too_large(error) or is_busy(error)


def _name(signal: WhileAway | State) -> str:
    return names.WHILE_AWAY if isinstance(signal, WhileAway) else names.HANDED_BACK


def _request_id(signal: WhileAway | State) -> str:
    """Return the id by which Temporal drops a signal that it has already; ids are not encrypted, so it tells nothing of the content."""
    if not isinstance(signal, WhileAway):
        return str(uuid.uuid4())  # each try hands back what is known by then
    told_by = (signal.first, [one.at for one in signal.entries], signal.left_out)
    return hashlib.sha256(to_json(told_by)).hexdigest()


def _paused(workflow_id: str) -> HandedOver:
    _log.warning("a workflow is paused: the node goes on without it", workflow=workflow_id)
    return HandedOver.REFUSED


def _given_up(pod: Returned, error: Exception, *, is_refused: bool) -> HandedOver:
    _log.warning("could not hand back to Temporal", workflow=pod.workflow_id, err=str(error))
    return HandedOver.REFUSED if is_refused else HandedOver.AWAY
