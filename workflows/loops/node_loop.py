"""Manages what the pods of a node share: the images on its disk, and exclusive hardware.

The loop is that of a pod: begin what is due, publish, wait. `decide/node/` decides what is due. While there is nothing to
do, one long activity watches the images, and the loop rests. A pod that needs exclusive hardware is admitted by a request, which
is answered once the hardware is in the ledger; whoever asked repeats a request whose run has ended.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Final, NoReturn

from proto.temporal import names
from proto.temporal.away import NodeHandedBack
from proto.temporal.hardware.ledger import Admit, AllocateHardware
from proto.temporal.node import NodeConfigured, NodeObserved, NodeStart, NodeStatus
from proto.temporal.signals import BehaviourCommitted, PressureJudged
from workflows.decide.actions import Wake
from workflows.decide.node import ledger
from workflows.decide.node.actions import PREPULL, WATCH, NodeAction, node_key
from workflows.decide.node.node import (
    NodeAnswer,
    NodeSituation,
    carried,
    configured,
    fold_node,
    fold_node_failure,
    judged,
    node_actions,
    outdated,
)
from workflows.decide.record.hand_back import next_node_start
from workflows.decide.refusal import Refusal
from workflows.decide.versions import (
    NODE_BEHAVIOURS,
    NODE_CARRIED_PREPULL,
    NODE_DROPPED_SIGNALS_COUNT,
    NODE_GIVES_HARDWARE,
    NODE_TIMER_PER_WAIT,
    require_known,
)
from workflows.loops import taking_back
from workflows.loops.arrival_loop import NEXT_RUN
from workflows.loops.driver import Driver, Failed
from workflows.loops.node_card import node_card
from workflows.loops.taking_back import TakingBack

CANCEL_IGNORED: Final = (
    "a cancel of the node's workflow is ignored: terminate it instead, and the poller starts a new one when it starts"
)


@dataclass(slots=True, eq=False)
class Admission:
    """A request for hardware, and how it was decided."""

    asked: Admit
    is_decided: bool = False
    refusal: Refusal | None = None


Arrival = NodeConfigured | PressureJudged | Admission | tuple[NodeAction, NodeAnswer | Failed]
REQUESTS: Final[Mapping[str, type]] = {names.ADMIT: Admit}
"""The type of each request."""


class NodeLoop(TakingBack[Arrival, Driver]):
    """The loop of one node."""

    observed: NodeObserved
    subject = "the node's images"

    signal_shapes: ClassVar[Mapping[str, type]] = taking_back.NODE_SHAPES | {
        names.NODE_CONFIGURED: NodeConfigured,
        names.PRESSURE_JUDGED: PressureJudged,
        names.BEHAVIOUR_COMMITTED: BehaviourCommitted,
    }

    def __init__(self, start: NodeStart, driver: Driver) -> None:
        super().__init__(driver, start.ticket)
        self.start = start
        self.observed = start.observed or NodeObserved()
        self.under_way: dict[str, asyncio.Task[None]] = {}
        self.admissions: list[Admission] = []
        """Those that wait for hardware; the first one is chosen for."""
        self.unanswered = 0
        """Requests that have not been answered yet."""

    async def run(self) -> None:
        """Manage the node's images; never returns."""
        require_known(self.start.behaviour, NODE_BEHAVIOURS)
        await self.take_back_if_handed()
        while True:
            waits = self.begin_due_actions()
            self.driver.show(node_card(self.observed, frozenset(self.under_way), self.start.handed_back))
            self.driver.keep(self.state, waits, self.under_way)
            await self.next_event(waits)
            await self.take_back_if_handed()
            self.continue_as_new_if_due()

    def queue(self, arrival: Any) -> None:
        """Queue an arrival; decisions under pressure cost the commands that a release costs which drops them as unknown."""
        if isinstance(arrival, PressureJudged) and not self.counts_dropped_signals():
            judged(self.situation(), arrival)
        else:
            super().queue(arrival)

    def situation(self) -> NodeSituation:
        """Return everything that a decision depends on."""
        waiting = tuple(one.asked for one in self.admissions)
        return NodeSituation(self.observed, self.driver.now(), frozenset(self.under_way), waiting)

    def begin_due_actions(self) -> list[Wake]:
        """Begin every action that is due; returns the waits."""
        waits = []
        is_long = self.is_long()
        for answer in node_actions(self.situation()):
            if is_long and not isinstance(answer, AllocateHardware):
                continue
            if isinstance(answer, Wake):
                waits.append(answer)
            else:
                self.under_way[node_key(answer)] = asyncio.create_task(
                    self.queue_result(partial(self.result_of, answer))
                )
        return waits

    async def result_of(self, action: NodeAction) -> Arrival:
        """Carry out an action; returns it with its result."""
        return action, await self.driver.perform(action)

    async def next_event(self, waits: Sequence[Wake]) -> None:
        """Wait for a result, a signal or a timer, and record what has arrived."""
        if self.start.behaviour < NODE_TIMER_PER_WAIT:
            nearest = min(waits, key=lambda one: one.at, default=None)
            arrived = await self.next_arrival_or_wake(nearest, CANCEL_IGNORED)
        else:
            self.keep_timers(waits, complete=not self.is_long())
            arrived = await self.next_arrival(CANCEL_IGNORED)
        if arrived and not self.is_handed_back:
            self.record_all()

    def take_back(self, handed: NodeHandedBack) -> NoReturn:
        """Continue as new with what the node hands back, and with what else has arrived; what is under way ends here."""
        self.start, self.observed = next_node_start(self.start, handed), handed.observed
        self.under_way.clear()
        self.arrived = deque(one for one in self.arrived if not isinstance(one, tuple))
        self.record_all()
        self.driver.continue_as_new(replace(self.state(), behaviour=self.raised(self.start.behaviour)))

    def record_arrival(self, arrival: Arrival) -> None:
        """Record one result or signal."""
        match arrival:
            case NodeConfigured():
                configured(self.situation(), arrival)
                self.cancel_actions(outdated(self.situation()))
            case PressureJudged():
                self.observed.signals += 1
                judged(self.situation(), arrival)
            case Admission(asked):
                self.observed.signals += 1
                if ledger.admitted(self.observed, asked):
                    self.decide(arrival, None)
                else:
                    self.admissions.append(arrival)
            case (AllocateHardware() as action, answer):
                self.under_way.pop(node_key(action), None)
                self.allocated(action, answer)
            case (action, Failed(reason, message)):
                self.under_way.pop(node_key(action), None)
                fold_node_failure(self.situation(), action, reason, message)
            case (action, answer):
                self.under_way.pop(node_key(action), None)
                fold_node(self.situation(), action, answer)

    # --- exclusive hardware

    def refusal(self, asked: Admit) -> Refusal | None:
        """Return why a request is not possible now."""
        if self.start.behaviour < NODE_GIVES_HARDWARE:
            return ledger.TOO_OLD
        return self.why_refused() or (ledger.NEXT_RUN if self.is_long() else ledger.why_not(asked, self.unanswered))

    async def request(self, asked: Admit) -> Refusal | None:
        """Queue a request; returns once it is decided, with why the pod is rejected."""
        admission = Admission(asked)
        self.unanswered += 1
        try:
            self.queue(admission)
            await self.driver.wait(lambda: admission.is_decided)
        finally:
            self.unanswered -= 1
            self.is_due = True  # the run may be waiting for this to continue as new
            self.driver.notify()
        return admission.refusal

    def allocated(self, action: AllocateHardware, answer: Any) -> None:
        """Record what was chosen, or why nothing could be, and answer whoever waits for this pod."""
        if isinstance(answer, Failed):
            refusal: Refusal | None = Refusal(answer.reason, answer.message)
        elif (refusal := ledger.conflict(self.observed, action, answer)) is None:
            fold_node(self.situation(), action, answer)
        uid = ledger.uid_of(action.pod)
        for one in [one for one in self.admissions if ledger.uid_of(one.asked.pod) == uid]:
            self.admissions.remove(one)
            self.decide(one, refusal)

    def decide(self, admission: Admission, refusal: Refusal | None) -> None:
        """Answer a request."""
        admission.is_decided, admission.refusal = True, refusal
        self.driver.notify()

    # --- the next run

    def cancel_actions(self, keys: Iterable[str]) -> None:
        """Cancel the actions with these keys."""
        for key in keys:
            self.under_way.pop(key).cancel()

    def is_long(self) -> bool:
        """Report whether this run's history has grown so long that it should continue as new."""
        return self.driver.is_history_long(self.observed.signals)

    def continue_as_new_if_due(self) -> None:
        """Continue as new once nothing is under way but what the new run begins again: the watch, and a prepull."""
        behaviour = self.raised(self.start.behaviour)
        begun_again = (f"{WATCH}/", f"{PREPULL}/") if self.start.behaviour >= NODE_CARRIED_PREPULL else (f"{WATCH}/",)
        ending = [key for key in self.under_way if not key.startswith(begun_again)]
        wanted = self.is_long() or behaviour != self.start.behaviour
        if wanted and not self.arrived and not ending and not self.unanswered:
            if self.start.behaviour < NODE_CARRIED_PREPULL:
                self.cancel_actions(list(self.under_way))
            self.driver.keep(self.state, [Wake(self.driver.now(), NEXT_RUN)], self.under_way)
            self.driver.continue_as_new(replace(self.state(), behaviour=behaviour))

    def state(self) -> NodeStart:
        """Return the input with which another driver could go on now."""
        return replace(self.start, observed=carried(self.observed))

    def counts_dropped_signals(self) -> bool:
        """Report whether this run counts them."""
        return self.start.behaviour >= NODE_DROPPED_SIGNALS_COUNT

    def node_status(self) -> NodeStatus:
        """Return the state of the images."""
        known = self.observed
        return NodeStatus(
            known.disk,
            len(known.ages),
            known.too_full,
            known.to_prepull,
            known.news,
            known.prepull_failures,
            known.assignments,
        )
