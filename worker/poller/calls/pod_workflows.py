"""The poller's messages to pods' workflows, and what it asks Temporal about them.

What Temporal does not take goes to the worker, which may lead the pod (`worker/delivery/`). That a workflow does not exist is
a return value, not an error.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Final, TypeVar

import structlog
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionResponse
from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.service import RPCError, RPCStatusCode

from activities.execution.pod_locks import PodLocks
from proto.cri.ownership import NODE_ANNOTATION
from proto.temporal import names
from proto.temporal.names import PodWorkflowId
from proto.temporal.node import NodeConfigured, NodeStart
from proto.temporal.pod import PodJson, PodStart
from proto.temporal.signals import DeletionRequested, ObjectsChanged, PodListed, RuntimeChanged, StatusGiven
from worker.behaviours.commitment import Commitment
from worker.delivery.deliveries import Ask, Deliveries
from worker.delivery.hardware_requests import HardwareRequests
from worker.delivery.lead import Lead, LeadUnavailable, Message, NameTaken, TemporalLeads
from worker.delivery.pod_requests import PodRequests
from worker.delivery.task_timeouts import SHORTEST
from worker.delivery.workflow_signals import is_away as answers_not
from worker.poller.calls.open_workflows import OpenWorkflows, sort_out, with_led
from worker.poller.calls.start_tickets import ticket_to_start
from worker.poller.calls.temporal_calls import (
    CallRefused,
    NumberOutdated,
    RunFull,
    TemporalCalls,
    TemporalUnavailable,
    is_away,
)
from worker.temporal.connection import pause
from worker.temporal.executions import OPEN, describe_execution, is_open, last_event_time, list_executions
from worker.temporal.pod_attributes import initial_attributes, node_attributes
from worker.temporal.signal_numbers import SignalNumbers
from worker.tickets.tickets import Tickets

SENDER: Final = "poller"
"""Who numbers the signals."""
CALL_LIMIT: Final = timedelta(seconds=10)
VISIBILITY_LAGS: Final = 10.0
"""Seconds for which visibility may not list a workflow that was just started or signalled."""
ENDED_FULL: Final = "it has taken as many signals as Temporal allows in one run; the poller starts another"
Taken = TypeVar("Taken")
_log: Final = structlog.get_logger(__name__)


class PodWorkflows:
    """The pod workflows of one node, called by one client."""

    def __init__(  # noqa: PLR0913 - the node's files that a start needs are shared with others
        self,
        client: Client,
        node: str,
        numbers: SignalNumbers,
        commitment: Commitment,
        *,
        tickets: Tickets,
        lead: Lead | None = None,
        task_timeout: timedelta = SHORTEST,
    ) -> None:
        """Take what the calls need; without a `lead`, Temporal leads all pods."""
        self.deliveries = Deliveries(lead or TemporalLeads(), _is_away)
        self.started: Callable[[str], None] = lambda _: None
        """Called with the workflow id of a pod whose start was taken."""
        self._tickets = tickets
        self.numbers = numbers
        """Sequence numbers of all signals sent by this process."""
        self._commitment = commitment
        self._client = client
        self._node = node
        self._task_timeout = task_timeout
        self.starts = PodLocks()
        """Held, by workflow id, while a workflow is started, and while what a pod without one has left is removed."""
        self._calls = TemporalCalls(self.deliveries.require_name)
        self.requests = PodRequests(client, self._calls.budget, self.deliveries, reads_answers=False)
        """The Updates of the node itself to pods."""
        self.hardware = HardwareRequests(client, self._calls.budget, self.deliveries, names.node_workflow_id(node))
        """The requests for hardware of new pods, to the node's own workflow."""
        self._settling = asyncio.Lock()

    async def start(self, start: PodStart, said: PodListed | DeletionRequested) -> None:
        """Start the pod's workflow; if it is open, signal it that its pod is listed or its deletion requested.

        A new one follows the behaviour that the node is committed to.
        """
        workflow_id = str(self._id_of(start))
        start, said = replace(start, behaviour=self._commitment.numbers.pods), replace(said, sender=SENDER)
        name = names.POD_LISTED if isinstance(said, PodListed) else names.DELETION_REQUESTED
        message = Message(workflow_id, name, said, SENDER, said.sequence)
        async with self.starts.hold(workflow_id):
            await self._send(
                message, partial(self._start, start, message), None, lambda one: self.deliveries.lead.start(start, one)
            )
        self.started(workflow_id)

    async def _start(self, start: PodStart, said: Message) -> None:
        workflow_id = self._id_of(start)
        start = replace(start, ticket=await ticket_to_start(self._tickets, self.deliveries, str(workflow_id)))
        name = f"{workflow_id.namespace}/{workflow_id.name}"
        where = f"`{start.path}`" if start.path else "the API server"
        await self._settle_numbers(said.number)
        async with self._call(f"start {name}", str(workflow_id)):
            await self._client.start_workflow(
                names.POD_WORKFLOW,
                start,
                id=str(workflow_id),
                task_queue=names.node_task_queue(self._node),
                task_timeout=self._task_timeout,
                id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                start_signal=said.name,
                start_signal_args=[said.value],
                search_attributes=initial_attributes(workflow_id),
                static_summary=f"{name} on {self._node}",
                static_details=f"Listed by {where}, pod UID `{workflow_id.uid}`",
                rpc_timeout=CALL_LIMIT,
            )

    async def configure_node(self, configured: NodeConfigured) -> None:
        """Start the node's workflow, or signal it the current configuration if it is open."""
        start = NodeStart(self._node, self._commitment.numbers.node)
        message = Message(names.node_workflow_id(self._node), names.NODE_CONFIGURED, configured, SENDER)
        await self._send(
            message,
            partial(self._configure_node, start, configured),
            None,
            lambda one: self.deliveries.lead.start(start, one),
        )

    async def _configure_node(self, start: NodeStart, configured: NodeConfigured) -> None:
        workflow_id = names.node_workflow_id(self._node)
        ticket = await asyncio.to_thread(self._tickets.draw, workflow_id)
        async with self._call("start the node's workflow", workflow_id):
            await self._client.start_workflow(
                names.NODE_WORKFLOW,
                replace(start, ticket=ticket),
                id=workflow_id,
                task_queue=names.node_task_queue(self._node),
                task_timeout=self._task_timeout,
                id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                start_signal=names.NODE_CONFIGURED,
                start_signal_args=[configured],
                search_attributes=node_attributes(self._node),
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
        """List this node's open workflows: by visibility, which may lag a second, and those that the worker leads."""
        types = f"'{names.POD_WORKFLOW}', '{names.NODE_WORKFLOW}'"
        query = f"WorkflowType IN ({types}) AND PodNode = '{self._node}' AND {OPEN}"
        async with self._calls.call("list the open workflows"):
            found = [one async for one in list_executions(self._client, query, limit=CALL_LIMIT)]
        return with_led(sort_out(found, self._node), self.deliveries.led_by_worker, self._node)

    async def pause(self, seconds: float) -> None:
        """Wait for so long, or until Temporal is reached (again) by another connection."""
        await pause(self._client, seconds)

    async def is_open(self, workflow_id: str) -> bool:
        """Report whether a workflow is open, by its own record instead of visibility, or led by the worker."""
        if workflow_id in self.deliveries.led_by_worker:
            return True
        found = await self.described(workflow_id)
        return found is not None and is_open(found.workflow_execution_info.status)

    async def described(self, workflow_id: str) -> DescribeWorkflowExecutionResponse | None:
        """Describe a workflow; None if it does not exist."""
        async with self._calls.call(f"describe {workflow_id}"):
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
            raise NumberOutdated("the numbers of signals were just settled; calling again with another one")

    async def _last_heard(self) -> int:
        """Return when any open pod's last event was written, in milliseconds; 0 if that is not to be had."""
        try:
            return max([await self._last_event(one) for one in (await self.list_open()).pods], default=0)
        except CallRefused as error:
            _log.warning("when pods were last signalled cannot be found out; trusting the clock", err=str(error))
            return 0

    async def _last_event(self, workflow_id: str) -> int:
        """Return when a workflow's last event was written, in milliseconds; 0 if it does not exist."""
        async with self._calls.call(f"read the last event of {workflow_id}"):
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
        message = Message(workflow_id, name, replace(argument, sender=SENDER), SENDER, argument.sequence)
        return await self._send(message, partial(self._signal_workflow, message), taken=True)

    async def _signal_workflow(self, message: Message) -> bool:
        await self._settle_numbers(message.number)
        async with self._call(f"signal {message.workflow_id}", message.workflow_id):
            try:
                handle = self._client.get_workflow_handle(message.workflow_id)
                await handle.signal(message.name, message.value, rpc_timeout=CALL_LIMIT)
            except RPCError as error:
                if error.status is RPCStatusCode.NOT_FOUND:
                    return False
                raise
            return True

    async def _send(
        self, message: Message, call: Callable[[], Awaitable[Taken]], taken: Taken, ask: Ask | None = None
    ) -> Taken:
        try:
            return await self.deliveries.send(message, call, taken=taken, ask=ask)
        except NameTaken as error:
            raise TemporalUnavailable(str(error)) from error
        except LeadUnavailable as error:
            raise TemporalUnavailable(f"the worker leads the pod, and did not answer: {error}") from error

    @asynccontextmanager
    async def _call(self, doing: str, workflow_id: str) -> AsyncIterator[None]:
        """Make a call to a workflow; a run that takes no signal any more, also no deletion, is ended: the next one finds the pod in the runtime."""
        try:
            async with self._calls.call(doing):
                yield
        except RunFull as full:
            _log.warning("ending a run that has taken as many signals as Temporal allows", workflow=workflow_id)
            with suppress(RPCError):  # the repeated call asks again
                await self._client.get_workflow_handle(workflow_id).terminate(reason=ENDED_FULL, rpc_timeout=CALL_LIMIT)
            raise RunFull(f"{workflow_id} was ended, and can be started anew") from full

    def _id_of(self, start: PodStart) -> PodWorkflowId:
        metadata = start.pod["metadata"]
        return PodWorkflowId(start.node, metadata["namespace"], metadata["name"], metadata["uid"])


def _is_away(error: Exception) -> bool:
    """Report whether a call, or a request to a pod, failed because Temporal did not answer."""
    return is_away(error) or answers_not(error)


def marked(pod: PodJson, node: str) -> PodJson:
    """Add the annotation that marks the pod as this node's."""
    metadata = pod["metadata"]
    annotations = {**(metadata.get("annotations") or {}), NODE_ANNOTATION: node}
    return {**pod, "metadata": {**metadata, "annotations": annotations}}
