"""The life of one pod on this node, from its first listing until nothing of it is left.

The loop decides what is due, begins it, publishes the status, and waits for the next event. `decide/` decides what is due,
and a driver carries it out. It never fails: every failure is recorded as a fact. It does not end while the runtime still
has anything of the pod.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, NoReturn

from kubernetes.client.models.v1_pod_spec import V1PodSpec

from proto.temporal import names
from proto.temporal.activities.requests import AwaitPredecessor, PullImage
from proto.temporal.away import HandedBack
from proto.temporal.operator import Explanation, OperatorRequest
from proto.temporal.pod import Observed, PodJson, PodKey, PodOutcome, PodStart
from proto.temporal.pod_inputs import CarriedAction
from proto.temporal.signals import BehaviourCommitted
from workflows.decide import carrying
from workflows.decide.actions import Action, Wake, is_endless, key
from workflows.decide.explain.explain import explanation
from workflows.decide.hooks import hooks, own_hooks
from workflows.decide.lifecycle import lifecycle
from workflows.decide.record import signals
from workflows.decide.record.first_sight import initially_observed, observed_again
from workflows.decide.record.fold import Answer, fold, fold_failure
from workflows.decide.record.hand_back import next_start
from workflows.decide.record.listing import without_ephemeral
from workflows.decide.record.numbers import already_taken
from workflows.decide.record.reread import look_for_earlier_starts
from workflows.decide.refusal import Refusal
from workflows.decide.situation import Gathered, Situation, gathered
from workflows.decide.status import conditions, status
from workflows.decide.steps.pod_actions import Plan, is_over, pod_actions
from workflows.decide.steps.termination import is_stopping
from workflows.decide.versions import CARRIED_ACTIONS, DROPPED_SIGNALS_COUNT, TIMER_PER_WAIT, require_known
from workflows.loops import taking_back
from workflows.loops.arrival_loop import NEXT_RUN
from workflows.loops.calls import summary
from workflows.loops.card import card, outage_words, strangers_words, with_outage
from workflows.loops.driver import Failed, PodDriver
from workflows.loops.operator_requests import REQUESTS
from workflows.loops.snapshot import snapshot
from workflows.loops.taking_back import TakingBack

Arrival = signals.Signal | tuple[Action, Answer | Failed]
"""What the loop waits for: a signal, an Update, or the answer of an action."""


def gathered_of(pod: PodJson) -> Gathered:
    """Convert the spec from its source's JSON, and gather from it; fields that this release does not know are dropped."""
    spec = V1PodSpec.from_dict(pod["spec"])
    assert spec is not None
    return gathered(spec)


class PodLoop(TakingBack[Arrival, PodDriver]):
    """The loop of one pod."""

    observed: Observed

    signal_shapes: ClassVar[Mapping[str, type]] = (
        signals.SHAPES | taking_back.SHAPES | {names.BEHAVIOUR_COMMITTED: BehaviourCommitted}
    )

    def __init__(self, start: PodStart, driver: PodDriver) -> None:
        super().__init__(driver, start.ticket)
        meta = start.pod["metadata"]
        self.start = start
        self.pod = PodKey(meta["namespace"], meta["name"], meta["uid"])
        self.gathered = gathered_of(start.pod)
        self.observed = start.observed or initially_observed(start, self.gathered.spec, driver.now())
        self.under_way: dict[str, tuple[Action, asyncio.Task[None]]] = {}
        self.has_begun = False
        """False: what the run was handed under way is still in its input alone."""
        self.refused_requests = 0
        """Malformed requests since the loop was created; the history has none of them."""

    async def run(self) -> PodOutcome:
        """Run the pod as its source wants it, until it is deleted and gone."""
        require_known(self.start.behaviour)
        await self.take_back_if_handed()
        self.begin([self.driver.converted(one.request, carrying.kind_of(one)) for one in self.start.under_way])
        self.has_begun = True
        look_for_earlier_starts(self.situation())
        if self.start.handed_back and is_over(self.situation()):
            self.publish_status()  # nobody else would say how the pod ended
        while not is_over(self.situation()):
            self.advance_lifecycle()
            plan = self.begin_due_actions()
            self.publish_status()
            self.driver.keep(self.state, plan.waits, self.under_way)
            await self.next_event(plan)
            await self.take_back_if_handed()
            self.continue_as_new_if_due()
        if self.observed.listed_again:
            self.start_again()
        return self.outcome()

    # --- the steps of the loop, in order

    def situation(self) -> Situation:
        """Return everything that a decision depends on."""
        return Situation(
            key=self.pod,
            spec=self.gathered.spec,
            source=self.start.pod,
            observed=self.observed,
            now=self.driver.now(),
            settings=self.start.settings,
            behaviour=self.start.behaviour,
            busy={name: action for name, (action, _) in self.under_way.items()},
            from_api=self.start.source == names.API_SOURCE,
            gathered=self.gathered,
        )

    def advance_lifecycle(self) -> None:
        """Move through sync, terminating and terminated as far as the facts allow."""
        situation = self.situation()
        while event := lifecycle.next_event(situation):
            lifecycle.happened(situation, event)
            self.cancel_waits()
            situation = self.situation()
        self.cancel_actions([*hooks.abandoned(situation), *own_hooks.abandoned(situation)])

    def cancel_waits(self) -> None:
        """Cancel waits for images and predecessors: a terminating pod needs none, and a new run begins them again."""
        waits = [
            name for name, (action, _) in self.under_way.items() if isinstance(action, PullImage | AwaitPredecessor)
        ]
        self.cancel_actions(waits)

    def cancel_actions(self, names: list[str]) -> None:
        """Cancel the actions with these keys."""
        for name in names:
            _, task = self.under_way.pop(name)
            task.cancel()

    def begin_due_actions(self) -> Plan:
        """Begin every action that is due; while continue-as-new has to wait, only those of a pod that is being stopped."""
        situation = self.situation()
        plan = Plan(complete=False) if self.holds_back() and not is_stopping(situation) else pod_actions(situation)
        self.begin(plan.begin)
        return plan

    def begin(self, actions: Iterable[Action]) -> None:
        """Begin these actions."""
        for action in actions:
            task = asyncio.create_task(self.queue_result(partial(self.result_of, action)))
            self.under_way[key(action)] = (action, task)

    async def result_of(self, action: Action) -> Arrival:
        """Carry out an action; returns it with its result."""
        return action, await self.driver.perform(action)

    def publish_status(self) -> None:
        """Publish the pod's status: the node's cache, the search attributes and the UI's card."""
        if self.observed.unseen:
            return  # before the first read of the runtime, the API and the cache know more about the pod
        situation = self.situation()
        pod_status = status.pod_status(situation)
        conditions.settle(self.observed, pod_status.conditions or [])
        line = status.pod_summary(situation, pod_status)
        words = outage_words(self.start.handed_back) + strangers_words(self.observed.dropped, self.refused_requests)
        self.driver.show(card(pod_status, line, situation.busy) + words)
        self.driver.publish(line, partial(snapshot, self.start, situation, pod_status, line))

    async def next_event(self, plan: Plan) -> None:
        """Wait for a result, a signal, an update or a timer, and record what has arrived."""
        when_cancelled = f"a cancel of {self.pod} is ignored: remove its manifest instead"
        if self.start.behaviour < TIMER_PER_WAIT:
            arrived = await self.next_arrival_or_wake(plan.wake, when_cancelled)
        else:
            self.keep_timers(plan.waits, complete=plan.complete)
            arrived = await self.next_arrival(when_cancelled)
        if arrived and not self.is_handed_back:
            self.record_all()

    def take_back(self, handed: HandedBack) -> NoReturn:
        """Continue as new with what the node hands back, and with what else has arrived; what is under way ends here."""
        self.start = next_start(self.start, handed)
        self.observed, self.gathered = handed.observed, gathered_of(handed.pod)
        self.under_way.clear()
        self.arrived = deque(one for one in self.arrived if not isinstance(one, tuple))
        self.record_all()
        self.observed.signals = 0
        self.continue_with(self.observed, self.start.pod, self.start.under_way)

    def record_arrival(self, arrival: Arrival) -> None:
        """Record one result or signal in `Observed`."""
        match arrival:
            case (action, Failed(reason, message)):
                self.under_way.pop(key(action), None)
                fold_failure(self.situation(), action, reason, message)
            case (action, answer):
                self.under_way.pop(key(action), None)
                fold(self.situation(), action, answer)
            case signal:
                if edited := signals.apply_signal(self.situation(), signal):
                    self.replace_pod(edited)

    def replace_pod(self, pod: PodJson) -> None:
        """Replace the pod's definition after an edit in place; continue-as-new passes it on."""
        self.start, self.gathered = replace(self.start, pod=pod), gathered_of(pod)

    def is_long(self) -> bool:
        """Report whether this run's history has grown so long that it should continue as new."""
        return self.driver.is_history_long(self.observed.signals)

    def continue_as_new_if_due(self) -> None:
        """Continue as new if the history is long, or to raise the behaviour, once nothing is left to record.

        What is under way goes on in the next run. Behaviours before CARRIED_ACTIONS wait until nothing is under way that
        ends by itself; waits are cancelled for a long history.
        """
        is_raised = self.raised(self.start.behaviour) != self.start.behaviour and not is_over(self.situation())
        if not self.is_long() and not is_raised:
            return
        if self.is_long() and self.start.behaviour < CARRIED_ACTIONS:
            self.cancel_waits()
        carried = self.carried()
        if carried is not None and not self.arrived:
            self.keep_last()
            self.observed.signals = 0
            self.continue_with(self.observed, self.start.pod, carried)

    def holds_back(self) -> bool:
        """Report whether nothing more may begin, so that continue-as-new becomes possible."""
        return self.is_long() and (self.start.behaviour < CARRIED_ACTIONS or self.carried() is None)

    def carried(self) -> tuple[CarriedAction, ...] | None:
        """Return what the next run begins with; None while continue-as-new has to wait."""
        actions = [action for action, _ in self.under_way.values()]
        if self.start.behaviour < CARRIED_ACTIONS:
            return () if all(is_endless(one) for one in actions) else None
        return carrying.carried(actions)

    def keep_last(self) -> None:
        """Keep the state of a run that continues as new: the next run is due at once, and must get none of this run's answers."""
        self.driver.keep(self.state, [Wake(self.driver.now(), NEXT_RUN)], self.under_way)

    def state(self) -> PodStart:
        """Return the input with which another driver could go on now: what continue-as-new would carry, as far as it fits."""
        actions = [action for action, _ in self.under_way.values()]
        under_way = carrying.what_fits(actions) if self.has_begun else self.start.under_way
        return self.next_start(replace(self.observed, signals=0), self.start.pod, under_way)

    def start_again(self) -> NoReturn:
        """Start the pod again as its source now lists it, in a new run."""
        self.keep_last()
        pod = without_ephemeral(self.observed.listed_pod or self.start.pod)
        self.continue_with(observed_again(self.observed, pod, self.driver.now(), self.start.behaviour), pod)

    def continue_with(self, observed: Observed, pod: PodJson, under_way: tuple[CarriedAction, ...] = ()) -> NoReturn:
        """Continue as new with these."""
        start = self.next_start(observed, pod, under_way)
        self.driver.continue_as_new(replace(start, behaviour=self.raised(self.start.behaviour)))

    def next_start(self, observed: Observed, pod: PodJson, under_way: tuple[CarriedAction, ...]) -> PodStart:
        """Build the input of a run that goes on with this one's pod."""
        return replace(self.start, pod=pod, observed=observed, first_sight=None, under_way=under_way)

    def outcome(self) -> PodOutcome:
        """Return the result of the workflow."""
        situation = self.situation()
        line = status.pod_summary(situation, status.pod_status(situation))
        why = self.observed.eviction or self.observed.deletion or line
        return PodOutcome(line.phase, why.reason, line.restarts, why.message)

    # --- dropped signals

    def counts_dropped_signals(self) -> bool:
        """Report whether this run counts them."""
        return self.start.behaviour >= DROPPED_SIGNALS_COUNT

    # --- what an operator asks

    def refusal(self, name: str, asked: Any) -> Refusal | None:
        """Return why a request is not possible now."""
        situation = self.situation()
        return self.why_refused() or already_taken(situation, asked) or REQUESTS[name].why_not(situation, asked)

    def request(self, name: str, asked: OperatorRequest) -> Any:
        """Queue a request and answer what it will do; returns a Refusal if it has become impossible since its validation."""
        request = REQUESTS[name]
        self.record_all()
        self.queue(asked)
        before = self.situation()
        refusal = already_taken(before, asked)
        if refusal is None and request.checked_again:
            refusal = request.why_not(before, asked)
        return refusal or request.answer(before, asked)

    def explain(self) -> Explanation:
        """Explain what the pod waits for and what would happen next."""
        return with_outage(explanation(self.situation(), summary), self.start.handed_back, self.why_refused())

    def pod_status(self) -> dict[str, Any]:
        """Return V1PodStatus as JSON."""
        return status.pod_status(self.situation()).model_dump(by_alias=True, exclude_none=True, mode="json")
