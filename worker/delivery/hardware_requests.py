"""Asks the node's workflow, or the worker that leads it, to give a new pod exclusive hardware.

Used by the poller, for one pod after the other. The Update is accepted at once and answered when the hardware was chosen, which
may take as long as a device plugin does. Whatever becomes of a try, the next one with the same number is the same request. If somebody
has ended the workflow, `absent` is called, so that it is started again.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, Final

import structlog
from temporalio.client import (
    Client,
    WorkflowQueryFailedError,
    WorkflowQueryRejectedError,
    WorkflowUpdateFailedError,
    WorkflowUpdateHandle,
    WorkflowUpdateRPCTimeoutOrCancelledError,
    WorkflowUpdateStage,
)
from temporalio.service import RPCError, RPCStatusCode

from proto.temporal import names
from proto.temporal.hardware.ledger import FOR_GOOD, Admit, PodAssignment
from proto.temporal.node import NodeStatus
from proto.temporal.operator import Rejection
from proto.temporal.pod import PodJson
from proto.temporal.pod_inputs import Rejected
from worker.delivery.deliveries import Deliveries
from worker.delivery.lead import LeadUnavailable, Message, Reply
from worker.delivery.pod_requests import SOURCE, UNANSWERED
from worker.delivery.workflow_updates import new_number, rejection_of, update_id, why_not
from worker.temporal.call_budget import CallBudget

ACCEPTED_WITHIN: Final = timedelta(seconds=10)
ANSWERED_WITHIN: Final = timedelta(minutes=1)
"""Then the answer is asked for anew."""
_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 10.0
_LONGEST_WHY: Final = 300

_log: Final = structlog.get_logger(__name__)
Accepted = WorkflowUpdateHandle[Any] | Rejection | None


class HardwareRequests:
    """Sends requests for hardware; used from one event loop."""

    def __init__(self, client: Client, budget: CallBudget, deliveries: Deliveries, workflow_id: str) -> None:
        """Take the client and the budget of the process's calls, what knows who leads, and the id of the node's workflow."""
        self._client, self._budget, self._deliveries = client, budget, deliveries
        self._workflow_id = workflow_id
        self._turn = asyncio.Lock()
        self.absent: Callable[[], None] = lambda: None
        """Called at each try for which Temporal has no open workflow of the node."""
        self._waiting: dict[str, str] = {}
        """The pods that are being asked for, by uid, and what came of their last try."""
        self._first: tuple[str, str] = ("", "")
        """Whose turn it is: uid and name."""

    async def admit(self, pod: PodJson, counting: Callable[[], Iterable[str]]) -> Rejected | None:
        """Return why a pod is rejected for good, None if it has its hardware; repeated until one of both is known.

        `pod` is its `hardware_slice`. `counting` returns the uids of the other pods that may have hardware; it is called for each try,
        because they end meanwhile.
        """
        uid = pod["metadata"]["uid"]
        self._waiting[uid] = ""
        try:
            return await self._admitted(pod, counting)
        finally:
            self._waiting.pop(uid, None)

    def why_waits(self, uid: str) -> str:
        """Return what a pod waits for that is being asked for; empty for another one."""
        if uid not in self._waiting:
            return ""
        if why := self._waiting[uid]:
            return f"it waits for its hardware: {why}"
        first, name = self._first
        if first in {"", uid}:
            return "its hardware is being chosen; a device plugin may take long to answer"
        return f"its hardware is chosen after that of {name}: pods have theirs chosen one after the other"

    async def given(self) -> Mapping[str, PodAssignment]:
        """Return what each pod was given, by uid; repeated until the workflow, or the worker that leads it, has answered."""
        pause = _FIRST_PAUSE
        while True:
            try:
                told = await self._deliveries.ask(
                    Message(self._workflow_id, names.NODE_STATUS),
                    self._status,
                    lambda said: self._deliveries.lead.query(said, NodeStatus),
                )
            except UNANSWERED as error:
                _log.debug("nobody tells who has which hardware", err=f"{type(error).__name__}: {error}"[:_LONGEST_WHY])
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
                continue
            status = told.value if isinstance(told, Reply) else told
            return status.assignments if isinstance(status, NodeStatus) else {}

    async def _status(self) -> NodeStatus | None:
        """Ask the workflow; None if there is none, so that nobody was given anything."""
        handle = self._client.get_workflow_handle(self._workflow_id)
        try:
            async with self._budget.call(), asyncio.timeout(ACCEPTED_WITHIN.total_seconds()):
                status: NodeStatus = await handle.query(names.NODE_STATUS, result_type=NodeStatus)
        except (TimeoutError, WorkflowQueryRejectedError, WorkflowQueryFailedError) as error:
            raise LeadUnavailable(f"{self._workflow_id} does not answer: {error}") from error
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return None
            raise
        return status

    async def _admitted(self, pod: PodJson, counting: Callable[[], Iterable[str]]) -> Rejected | None:
        uid, name = pod["metadata"]["uid"], f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        number, pause = new_number(), _FIRST_PAUSE
        while True:
            async with self._turn:  # one that waits for its device plugin lets the others pass
                self._first = (uid, name)
                request = Admit(pod, tuple(sorted(counting())), SOURCE, number)
                try:
                    rejection = await self._ask(request)
                except UNANSWERED as error:
                    why = (
                        f"the worker of this node, which chooses it, does not answer ({error or type(error).__name__})"
                    )
                else:
                    if rejection is None:
                        return None
                    if rejection.reason in FOR_GOOD:
                        return Rejected(rejection.reason, rejection.message)
                    why, number = f"{rejection.reason}: {rejection.message}", new_number()
                finally:
                    self._first = ("", "")
            self._waiting[uid] = why = why[:_LONGEST_WHY]
            _log.warning("a pod waits for its hardware", pod=name, podUID=uid, err=why)
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    async def _ask(self, asked: Admit) -> Rejection | None:
        told = await self._deliveries.ask(
            Message(self._workflow_id, names.ADMIT, asked, SOURCE, asked.sequence),
            lambda: self._accepted(asked),
            lambda said: self._deliveries.lead.update(said, Any),
        )
        if isinstance(told, Reply):
            return told.refusal
        return await _answer(told) if isinstance(told, WorkflowUpdateHandle) else told

    async def _accepted(self, asked: Admit) -> Accepted:
        """Send the Update; returns once it is in the history, or with why it is refused."""
        handle = self._client.get_workflow_handle(self._workflow_id)
        async with self._budget.call(), asyncio.timeout(ACCEPTED_WITHIN.total_seconds()):
            if rejection := await why_not(handle, asked, names.ADMIT):
                return rejection
            try:
                return await handle.start_update(
                    names.ADMIT, asked, id=update_id(asked), wait_for_stage=WorkflowUpdateStage.ACCEPTED
                )
            except (TimeoutError, WorkflowUpdateRPCTimeoutOrCancelledError) as error:
                raise LeadUnavailable(f"{self._workflow_id} does not answer") from error
            except RPCError as error:
                if error.status is RPCStatusCode.NOT_FOUND:
                    self.absent()
                raise


async def _answer(accepted: WorkflowUpdateHandle[Any]) -> Rejection | None:
    try:
        async with asyncio.timeout(ANSWERED_WITHIN.total_seconds()):
            await accepted.result()
    except WorkflowUpdateFailedError as error:
        return rejection_of(error)
    except (TimeoutError, RPCError, WorkflowUpdateRPCTimeoutOrCancelledError) as error:
        if (here := asyncio.current_task()) and here.cancelling():  # which the SDK turns into an error of its own
            raise asyncio.CancelledError from error
        raise LeadUnavailable(f"no answer: {error}") from error
    return None
