"""The poller's calls to Temporal, and what their errors mean.

Errors are classified by what the caller may do: after `TemporalUnavailable` it retries, after `CallRefused` it does
not. That a workflow does not exist is a return value, not an error. An unavailable Temporal is logged once, and once
when it is back.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

import structlog
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionResponse
from temporalio.client import Client
from temporalio.common import (
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)
from temporalio.service import RPCError, RPCStatusCode

from activities.execution.pod_locks import PodLocks
from proto.cri.ownership import NODE_ANNOTATION
from proto.temporal import names
from proto.temporal.names import PodWorkflowId
from proto.temporal.node import NodeConfigured, NodeStart
from proto.temporal.pod import PodJson, PodStart
from proto.temporal.signals import DeletionRequested, ObjectsChanged, PodListed, RuntimeChanged, StatusGiven
from worker.behaviours.commitment import Commitment
from worker.poller.calls.open_workflows import OpenWorkflows, sort_out
from worker.temporal.call_budget import CallBudget, is_busy, is_throttling
from worker.temporal.executions import OPEN, describe_execution, is_open, last_event_time, list_executions
from worker.temporal.signal_numbers import SignalNumbers

TASK_TIMEOUT: Final = timedelta(seconds=3)
"""How soon another worker takes over a workflow task after the first was killed."""
CALL_LIMIT: Final = timedelta(seconds=10)
MOST_CALLS: Final = 16
"""Concurrent calls: 110 manifests at once would otherwise time out on a small node's Temporal."""
VISIBILITY_LAGS: Final = 10.0
"""Seconds for which visibility may not list a workflow that was just started or signalled."""
ENDED_FULL: Final = "it has taken as many signals as Temporal allows in one run; the poller starts another"
_IS_FULL: Final = "limit for signal events"  # of Temporal's message: history.maximumSignalsPerExecution
_NOT_PASSING: Final = frozenset(
    {
        RPCStatusCode.INVALID_ARGUMENT,
        RPCStatusCode.FAILED_PRECONDITION,
        RPCStatusCode.PERMISSION_DENIED,
        RPCStatusCode.OUT_OF_RANGE,
    }
)
_log: Final = structlog.get_logger(__name__)


class TemporalUnavailable(Exception):
    """Temporal did not answer: the call may or may not have arrived, and must be repeated later."""


class CallRefused(Exception):
    """Temporal refuses this call and would refuse it again; the message is Temporal's."""


@dataclass(frozen=True, slots=True)
class OpenPod:
    """A pod whose workflow is open; its source and the path of its manifest if they are known."""

    workflow_id: str
    path: str = ""
    source: str = ""
    """file, http or api; empty if not known."""

    @property
    def id(self) -> PodWorkflowId:
        """The parts of the workflow id."""
        return PodWorkflowId.parse(self.workflow_id)


class PodWorkflows:
    """The pod workflows of one node, called by one client."""

    def __init__(self, client: Client, node: str, numbers: SignalNumbers, commitment: Commitment) -> None:
        self.numbers = numbers
        """Sequence numbers of all signals sent by this process."""
        self._commitment = commitment
        self._client = client
        self._node = node
        self.starts = PodLocks()
        """Held, by workflow id, while a workflow is started, and while what a pod without one has left is removed."""
        self._permits = asyncio.Semaphore(MOST_CALLS)
        self._budget = CallBudget()
        self._settling = asyncio.Lock()
        self._away_since: float | None = None

    async def start(self, start: PodStart, said: PodListed | DeletionRequested) -> None:
        """Start the pod's workflow; if it is open, signal it that its pod is listed or its deletion requested.

        A new one follows the behaviour that the node is committed to.
        """
        async with self.starts.hold(str(self._id_of(start))):
            await self._start(start, said)

    async def _start(self, start: PodStart, said: PodListed | DeletionRequested) -> None:
        start = replace(start, behaviour=self._commitment.numbers.pods)
        workflow_id = self._id_of(start)
        name = f"{workflow_id.namespace}/{workflow_id.name}"
        where = f"`{start.path}`" if start.path else "the API server"
        await self._settle_numbers(said.sequence)
        async with self._call(f"start {name}", str(workflow_id)):
            await self._client.start_workflow(
                names.POD_WORKFLOW,
                start,
                id=str(workflow_id),
                task_queue=names.node_task_queue(self._node),
                task_timeout=TASK_TIMEOUT,
                id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                start_signal=names.POD_LISTED if isinstance(said, PodListed) else names.DELETION_REQUESTED,
                start_signal_args=[said],
                search_attributes=_search_attributes(workflow_id),
                static_summary=f"{name} on {self._node}",
                static_details=f"Listed by {where}, pod UID `{workflow_id.uid}`",
                rpc_timeout=CALL_LIMIT,
            )

    async def configure_node(self, configured: NodeConfigured) -> None:
        """Start the node's workflow, or signal it the current configuration if it is open."""
        async with self._call("start the node's workflow", names.node_workflow_id(self._node)):
            await self._client.start_workflow(
                names.NODE_WORKFLOW,
                NodeStart(self._node, self._commitment.numbers.node),
                id=names.node_workflow_id(self._node),
                task_queue=names.node_task_queue(self._node),
                task_timeout=TASK_TIMEOUT,
                id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                start_signal=names.NODE_CONFIGURED,
                start_signal_args=[configured],
                search_attributes=TypedSearchAttributes(
                    [SearchAttributePair(SearchAttributeKey.for_keyword("PodNode"), self._node)]
                ),
                static_summary=f"node {self._node}",
                static_details="The images on its disk: what is removed and why, what is pulled before a pod asks",
                rpc_timeout=CALL_LIMIT,
            )

    async def request_deletion(self, workflow_id: str, request: DeletionRequested) -> bool:
        """Request the deletion of a pod from its workflow; False if the workflow does not exist."""
        return await self._signal(workflow_id, names.DELETION_REQUESTED, request)

    async def hint(self, workflow_id: str, hint: RuntimeChanged) -> bool:
        """Signal a change in the runtime; False if the workflow does not exist: a hint never starts one."""
        return await self._signal(workflow_id, names.RUNTIME_CHANGED, hint)

    async def objects_changed(self, workflow_id: str, hint: ObjectsChanged) -> bool:
        """Signal new versions of objects; False if the workflow does not exist."""
        return await self._signal(workflow_id, names.OBJECTS_CHANGED, hint)

    async def status_given(self, workflow_id: str, given: StatusGiven) -> bool:
        """Signal what others have written into the pod's status; False if the workflow does not exist."""
        return await self._signal(workflow_id, names.STATUS_GIVEN, given)

    async def list_open(self) -> OpenWorkflows:
        """List this node's open workflows by visibility, which may lag a second."""
        types = f"'{names.POD_WORKFLOW}', '{names.NODE_WORKFLOW}'"
        query = f"WorkflowType IN ({types}) AND PodNode = '{self._node}' AND {OPEN}"
        async with self._call("list the open workflows"):
            found = [one async for one in list_executions(self._client, query, limit=CALL_LIMIT)]
        return sort_out(found, self._node)

    async def is_open(self, workflow_id: str) -> bool:
        """Report whether a workflow is open, by its own record instead of visibility."""
        found = await self.described(workflow_id)
        return found is not None and is_open(found.workflow_execution_info.status)

    async def described(self, workflow_id: str) -> DescribeWorkflowExecutionResponse | None:
        """Describe a workflow; None if it does not exist."""
        async with self._call(f"describe {workflow_id}"):
            try:
                return await describe_execution(self._client, workflow_id, limit=CALL_LIMIT)
            except RPCError as error:
                if error.status is RPCStatusCode.NOT_FOUND:
                    return None
                raise

    async def _settle_numbers(self, drawn: int) -> None:
        """Find out once where numbers of signals begin if that is not known.

        Raises TemporalUnavailable if the number that the caller has drawn already turns out to be too low.
        """
        if self.numbers.unsettled:
            async with self._settling:
                if self.numbers.unsettled:
                    self.numbers.settle(await self._last_heard())
        if 0 < drawn <= self.numbers.outdated:
            raise TemporalUnavailable("the numbers of signals were just settled; calling again with another one")

    async def _last_heard(self) -> int:
        """Return when any open pod's last event was written, in milliseconds; 0 if that is not to be had."""
        try:
            return max([await self._last_event(one) for one in (await self.list_open()).pods], default=0)
        except CallRefused as error:
            _log.warning("when pods were last signalled cannot be found out; trusting the clock", err=str(error))
            return 0

    async def _last_event(self, workflow_id: str) -> int:
        """Return when a workflow's last event was written, in milliseconds; 0 if it does not exist."""
        async with self._call(f"read the last event of {workflow_id}"):
            try:
                at = await last_event_time(self._client, workflow_id, limit=CALL_LIMIT)
            except RPCError as error:
                if error.status is RPCStatusCode.NOT_FOUND:
                    return 0
                raise
            return int(at.timestamp() * 1000)

    async def _signal(
        self, workflow_id: str, name: str, argument: DeletionRequested | RuntimeChanged | ObjectsChanged | StatusGiven
    ) -> bool:
        await self._settle_numbers(argument.sequence)
        async with self._call(f"signal {workflow_id}", workflow_id):
            try:
                handle = self._client.get_workflow_handle(workflow_id)
                await handle.signal(name, argument, rpc_timeout=CALL_LIMIT)
            except RPCError as error:
                if error.status is RPCStatusCode.NOT_FOUND:
                    return False
                raise
            return True

    @asynccontextmanager
    async def _call(self, doing: str, workflow_id: str = "") -> AsyncIterator[None]:
        async with self._permits:
            try:
                async with self._budget.call():
                    yield
            except RPCError as error:
                if is_throttling(error) or is_busy(error):
                    raise TemporalUnavailable(error.message) from error  # logged by the budget
                if workflow_id and _IS_FULL in error.message:
                    await self._end_full(workflow_id)
                    raise TemporalUnavailable(f"{workflow_id} was ended, and can be started anew") from error
                if error.status in _NOT_PASSING or "larger than max" in error.message:
                    self._note_back()
                    raise CallRefused(f"Temporal refuses to {doing}: {error.message}") from error
                self._note_away(doing, error)
                raise TemporalUnavailable(error.message) from error
            except RuntimeError as error:  # raised by the SDK's core if it cannot connect
                self._note_away(doing, error)
                raise TemporalUnavailable(str(error)) from error
            self._note_back()

    async def _end_full(self, workflow_id: str) -> None:
        """End a run that takes no signal any more, also no deletion; the next one finds the pod in the runtime."""
        _log.warning("ending a run that has taken as many signals as Temporal allows", workflow=workflow_id)
        with suppress(RPCError):  # the repeated call asks again
            await self._client.get_workflow_handle(workflow_id).terminate(reason=ENDED_FULL, rpc_timeout=CALL_LIMIT)

    def _note_away(self, doing: str, error: Exception) -> None:
        if self._away_since is None:
            self._away_since = asyncio.get_running_loop().time()
            _log.warning("Temporal is unavailable: pods keep running, retrying", doing=doing, err=str(error))

    def _note_back(self) -> None:
        if self._away_since is not None:
            seconds = asyncio.get_running_loop().time() - self._away_since
            self._away_since = None
            _log.info("Temporal is available again", away_seconds=round(seconds, 1))

    def _id_of(self, start: PodStart) -> PodWorkflowId:
        metadata = start.pod["metadata"]
        return PodWorkflowId(start.node, metadata["namespace"], metadata["name"], metadata["uid"])


def marked(pod: PodJson, node: str) -> PodJson:
    """Add the annotation that marks the pod as this node's."""
    metadata = pod["metadata"]
    annotations = {**(metadata.get("annotations") or {}), NODE_ANNOTATION: node}
    return {**pod, "metadata": {**metadata, "annotations": annotations}}


def _search_attributes(workflow_id: PodWorkflowId) -> TypedSearchAttributes:
    """Return the pod's search attributes and their initial values; the workflow upserts only what differs."""
    keyword, number = SearchAttributeKey.for_keyword, SearchAttributeKey.for_int
    return TypedSearchAttributes(
        [
            SearchAttributePair(keyword("PodNamespace"), workflow_id.namespace),
            SearchAttributePair(keyword("PodName"), workflow_id.name),
            SearchAttributePair(keyword("PodUID"), workflow_id.uid),
            SearchAttributePair(keyword("PodNode"), workflow_id.node),
            SearchAttributePair(keyword("PodPhase"), "Pending"),
            SearchAttributePair(keyword("PodReady"), "False"),
            SearchAttributePair(number("PodRestarts"), 0),
        ]
    )
