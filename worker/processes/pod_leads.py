"""The stand-in's part of the worker process: what leads pods while Temporal is away, and what its workflows tell it.

Wires `worker/stand_in/` to the node's services. The Temporal worker gets `noticing` and `keep`.
"""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import structlog
from temporalio.api.common.v1 import Payload
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from activities.execution.attempt import NotDelivered, current_attempt
from activities.execution.attempts import AttachingAttempts
from activities.execution.in_process import InProcessActivities
from activities.execution.unexpected import UnexpectedErrors
from activities.hosted import activities
from activities.node_services import NodeServices
from proto.pod_snapshot import PodSnapshot
from proto.temporal.node import NodeStart
from proto.temporal.pod import PodStart
from worker.behaviours.runs import Numbered
from worker.daemon.background import in_background
from worker.daemon.config import NodeConfig
from worker.delivery.lead import Answer, LeadUnavailable, Message
from worker.delivery.server import LeadServer, socket_path
from worker.delivery.task_timeouts import may_be_due
from worker.host.temporal.first_look import FirstLook
from worker.payloads.receiving import ReceivingConverter
from worker.processes.before_polling import Phase
from worker.stand_in.answers import Answers
from worker.stand_in.away import ALONE_SECONDS, Limits
from worker.stand_in.comparing.comparing import Compared, Comparing
from worker.stand_in.comparing.fence import Fence
from worker.stand_in.comparing.looking import Looking
from worker.stand_in.dues import Dues
from worker.stand_in.failed_tasks import FailedTasks
from worker.stand_in.hand_back.returned import HandBack
from worker.stand_in.in_process_driver import Targets
from worker.stand_in.journal.journal import Journal
from worker.stand_in.journal.kept import Kept, Place, is_node
from worker.stand_in.leading import Leading
from worker.stand_in.led_pods import NodeName, Parts
from worker.stand_in.loop_lead import Means
from worker.stand_in.performing import converted
from worker.stand_in.pod_journal import PodJournal
from worker.stand_in.run_states import RunStates
from worker.temporal.keys import KeyFile
from worker.tickets.seal import HEADER, TicketSeal
from worker.tickets.tickets import Tickets
from workflows.extern import Decided
from workflows.loops.node_loop import REQUESTS as NODE_REQUESTS
from workflows.loops.node_loop import NodeLoop
from workflows.loops.operator_requests import REQUESTS
from workflows.loops.pod_loop import PodLoop

STATE: Final = "its state"
NOTE_EVERY: Final = 1.0
"""Seconds."""
_log: Final = structlog.get_logger(__name__)
SHAPES: Mapping[str, type] = {
    **NodeLoop.signal_shapes,
    **PodLoop.signal_shapes,
    **{name: request.shape for name, request in REQUESTS.items()},
    **NODE_REQUESTS,
}
"""The types of all messages, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadDependencies:
    """What PodLeads works with."""

    config: NodeConfig
    services: NodeServices
    tickets: Tickets
    seal: TicketSeal
    publish: Callable[[PodSnapshot], None]
    """Takes each snapshot."""
    interceptors: Sequence[Interceptor]
    """Of each work, besides those of every node."""
    temporal: HandBack
    phase: Phase
    name: NodeName
    is_stopping: Callable[[], bool]
    """Whether this process was asked to stop."""
    note: Callable[[str], None]
    """Takes what the process's status line says of Temporal."""
    task_timeout: timedelta
    """Of the workflow tasks of this node."""


class PodLeads:
    """Who leads the pods of this worker's node."""

    def __init__(self, dependencies: LeadDependencies) -> None:
        deps = self._deps = dependencies
        running, present = deps.services.running_actions, deps.services.present_attempts
        self._journal = Journal(deps.config.state_dir, KeyFile(deps.config.payload_key_file))
        self._recovered: tuple[Kept, ...] = ()
        """What an earlier worker knew, until it is looked at."""
        self._dues = Dues(present)
        self._failed = FailedTasks(deps.temporal.failed_tasks, self._dues.failed)
        self.fence = Fence()
        """Around what Temporal's runs do."""
        self._states = RunStates(deps.tickets, self._journal, self._accepted)
        self._worker_id = secrets.token_hex(4)
        around = [AttachingAttempts(running, present), *deps.interceptors, UnexpectedErrors()]
        self._activities = InProcessActivities(activities(deps.services), around)
        self._targets = Targets(deps.publish, running.settled, self._deliver, self._headers)
        self._leading = Leading(
            Parts(
                dues=self._dues,
                journal=self._journal,
                tickets=deps.tickets,
                means=self._means,
                newest=self._states.newest,
                temporal=deps.temporal,
                unsettled=running.unsettled,
                is_hosted=lambda: deps.phase.is_hosting,
                name=deps.name,
                is_replaying=lambda: deps.phase.is_replaying,
                is_stopping=deps.is_stopping,
            ),
            worker_id=self._worker_id,
            limits=Limits(
                away=may_be_due(deps.config.tempolet.temporal.away_after, deps.task_timeout).total_seconds(),
                alone=may_be_due(timedelta(seconds=ALONE_SECONDS), deps.task_timeout).total_seconds(),
            ),
        )
        self._comparing = Comparing(
            Compared(self._journal, self._leading.take_over, self._states.known_in, self._settle)
        )
        self.engine = self._leading.engine
        """What to tell of Temporal."""
        self.lead_instead = self._leading.lead_instead
        """Leads a pod whose open run this code cannot replay."""
        self.answers = Answers(self._leading)
        """Who leads a pod, for the senders of messages."""

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Lead pods when Temporal is away, and answer on the socket, while the block runs."""
        with self._journal:
            self._recovered = (await asyncio.to_thread(self._journal.read_all)).kept
            for one in self._recovered:
                if not one.is_complete:
                    _log.warning("a part of a pod's story cannot be read", workflow=one.workflow_id)
            server = LeadServer(self.answers, ReceivingConverter(), SHAPES)
            socket = socket_path(self._deps.config.state_dir)
            async with (
                in_background("leads of pods", self._lead),
                in_background("messages to the worker", lambda: server.serve(socket)),
                in_background("failed workflow tasks", self._failed.watch),
                in_background("what is told of Temporal", self._note),
            ):
                yield

    @property
    def noticing(self) -> Sequence[Interceptor]:
        """What the Temporal worker puts around each run and each activity, to notice whether Temporal works for them."""
        return self._failed.interceptor, _Begun(self._dues)

    async def compare(self, look: FirstLook) -> None:
        """Find out whether Temporal has what this node has, before the SDK's worker begins."""
        await self._comparing.compare(Looking(look))

    def numbers(self) -> Mapping[str, Numbered]:
        """Return the number that each of Temporal's runs follows whose state is known, by run id."""
        found = [(one, place.run_id, self._journal.behaviour(one)) for one, place in self._journal.places().items()]
        return {
            run_id: Numbered("node" if is_node(one) else "pods", behaviour)
            for one, run_id, behaviour in found
            if run_id and behaviour is not None
        }

    def shut(self) -> None:
        """Hold back what Temporal's runs do until the next comparison: the connection was lost."""
        self.fence.shut()
        self._leading.settle(False)  # noqa: FBT003 - the one thing that it takes

    def _settle(self, is_settled: bool) -> None:  # noqa: FBT001 - a fact
        self._leading.settle(is_settled)
        if is_settled:
            self.fence.open()

    def received(self, workflow_id: str, run_id: str, key: str) -> None:
        """Note that a run has an answer; called in the thread of its task."""
        self._deps.services.running_actions.received(workflow_id, run_id, key)

    def keep(self, workflow_id: str, decided: Decided, start: PodStart | NodeStart) -> None:
        """Keep the state of a run that leads its workflow; called in the thread of its task."""
        if self.fence.is_shut:  # the run changes its state as soon as it goes on
            start = converted(start, type(start))
        self.fence.say(workflow_id, STATE, lambda: self._states.keep(workflow_id, decided, start))

    def end(self, workflow_id: str, run_id: str, start: PodStart | NodeStart) -> None:
        """Forget a workflow that has ended by itself; called in the thread of its task. One that is led here is forgotten when its story is told."""
        self.fence.say(workflow_id, STATE, lambda: self._end(workflow_id, run_id, start))

    def _end(self, workflow_id: str, run_id: str, start: PodStart | NodeStart) -> None:
        if self._states.end(workflow_id, run_id, start):
            self._deps.services.running_actions.state_kept(workflow_id, run_id)
            self._leading.forget(workflow_id)
            self._dues.forget(workflow_id)

    def _accepted(self, workflow_id: str, decided: Decided) -> None:
        self._deps.services.running_actions.state_kept(workflow_id, decided.run_id)
        self._dues.decided(workflow_id, decided)

    async def _lead(self) -> None:
        kept, self._recovered = self._recovered, ()
        await self._leading.watch(kept)

    async def _note(self) -> None:
        """Keep the status line true."""
        while True:
            engine = self.engine()
            self._deps.note(
                f"Temporal: {engine.message()}" if engine and (engine.away_since or engine.pods_led) else ""
            )
            await asyncio.sleep(NOTE_EVERY)

    def _means(self, workflow_id: str, epoch: int, folded: int) -> Means:
        journal = PodJournal(self._journal, workflow_id, Place(), folded)
        return Means(self._activities, journal, self._targets, f"worker {self._worker_id}/{epoch}")

    def _headers(self, workflow_id: str, key: str) -> Mapping[str, Payload]:
        ticket = self._deps.tickets.of(workflow_id)
        return {HEADER: self._deps.seal.sealed(ticket, workflow_id, key)} if ticket else {}

    async def _deliver(self, workflow_id: str, name: str, value: Any) -> None:
        try:
            answer = await self.answers.deliver(Message(workflow_id, name, value, source="worker"))
        except LeadUnavailable as error:
            raise NotDelivered(str(error)) from error
        if answer is not Answer.TAKEN:
            raise NotDelivered("Temporal leads the pod again; it is told anew")


class _Begun(Interceptor):
    """Notes each activity that Temporal sends."""

    def __init__(self, dues: Dues) -> None:
        self._dues = dues

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002 - the SDK's name
        """Wrap every activity."""
        dues = self._dues

        class Noting(ActivityInboundInterceptor):
            async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 - the SDK's name
                if not current_attempt().is_local:
                    dues.begun()
                return await super().execute_activity(input)

        return Noting(next)
