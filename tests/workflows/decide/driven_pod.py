"""A pod that the state machine leads as PodWorkflow does, synchronously, and what must hold of it after every step.

`test_machine` decides what happens to it; here stands the loop, the model of the runtime behind it, and the assertions.
"""

import copy
from datetime import datetime, timedelta

from kubernetes.client.models.v1_pod_spec import V1PodSpec

from proto.temporal.activities.requests import (
    AwaitPredecessor,
    ProbeContainer,
    PullImage,
    ReadImages,
    RunHook,
    RunPodSandbox,
    RuntimeContainer,
    ShortenStop,
    StartContainer,
    StopContainer,
)
from proto.temporal.activities.resize import UpdateContainerResources
from proto.temporal.operator import AddEphemeralContainer
from proto.temporal.pod import ContainerState, Lifecycle, NodeSettings, Observed, PodJson
from proto.temporal.signals import DeletionRequested, ObjectsChanged, PodListed, ProbeVerdict, RuntimeChanged
from tests.workflows.decide.hooks.hook_watch import is_before_start, look_at_hooks, starts_under_way
from tests.workflows.decide.runtime_model import Lasting, Refused, RuntimeModel
from tests.workflows.decide.situations import KEY, NOW
from workflows.decide.actions import Action, Wake, key
from workflows.decide.containers.instances import UNKNOWN_REASON
from workflows.decide.containers.restart import failed_probe
from workflows.decide.ending.grace import SHORTEST
from workflows.decide.hooks import hooks, own_hooks
from workflows.decide.lifecycle import lifecycle
from workflows.decide.operator import ephemeral
from workflows.decide.record import signals
from workflows.decide.record.fold import Answer, fold, fold_failure
from workflows.decide.record.listing import without_ephemeral
from workflows.decide.situation import Situation
from workflows.decide.status import conditions
from workflows.decide.status.status import pod_status
from workflows.decide.steps.pod_actions import Plan, is_over, pod_actions
from workflows.decide.versions import TIMER_PER_WAIT

STEPS_TO_SETTLE = 400
OWN_GRACE = timedelta(seconds=30)
"""What `situations.pod` asks for."""
TERMINAL = ("Succeeded", "Failed")
GATE = "example.com/gate"
"""The readiness gate of a pod that has one."""


class DrivenPod:
    """One pod, its core and its runtime."""

    def is_listed(self, source: PodJson, init: tuple[str, ...], behaviour: int) -> None:
        """Let a source list it, to be led by this behaviour."""
        self.takes_over(source)
        self.now, self.behaviour = NOW, behaviour
        lasting = [one.name for one in self.spec.init_containers or () if one.restart_policy == "Always"]
        self.runtime = RuntimeModel(init, NOW, sidecars=tuple(lasting))
        self.hints: list[RuntimeChanged | ProbeVerdict | ObjectsChanged] = []
        self.sequence = 0
        self.lost_hints = False
        self.unsized: set[str] = set()
        """Containers that were there when a history was lost, which tells of no size."""
        self.born()

    def hears(self, signal: signals.Signal) -> None:
        """Let a signal arrive; an edit in place is the pod from then on."""
        if edited := signals.apply_signal(self.situation(), signal):
            self.takes_over(edited)
        self.step()

    def takes_over(self, source: PodJson) -> None:
        """Go on with the pod as this says."""
        spec = V1PodSpec.from_dict(source["spec"])
        assert spec is not None
        self.source, self.spec = source, spec

    def born(self) -> None:
        """Begin a life: nothing is known."""
        self.observed = Observed(started_at=self.now)
        self.under_way: dict[str, Action] = {}
        self.answers: dict[str, Answer] = {}
        self.waits: tuple[Wake, ...] = ()
        self.restarts: dict[str, int] = {}
        self.known_exits: dict[str, int] = {}
        self.guessed: set[str] = set()
        self.hooks_known: set[str] = set()
        self.final_phase = ""
        self.wishes: set[tuple[datetime, timedelta]] = set()
        self.over = False
        self.step()

    # --- the loop of PodWorkflow

    def situation(self) -> Situation:
        """Gather what a decision may look at."""
        return Situation(
            KEY,
            self.spec,
            self.source,
            self.observed,
            self.now,
            NodeSettings(),
            self.behaviour,
            busy=dict(self.under_way),
        )

    def step(self) -> None:
        """Move the lifecycle, begin what is due, build the status."""
        if self.over:
            return
        while event := lifecycle.next_event(self.situation()):
            lifecycle.happened(self.situation(), event)
            for name, action in list(self.under_way.items()):
                if isinstance(action, PullImage | AwaitPredecessor):
                    del self.under_way[name]
                    self.answers.pop(name, None)
        for name in (*hooks.abandoned(self.situation()), *own_hooks.abandoned(self.situation())):
            self.hooks_known.add(name)
            del self.under_way[name]
            self.answers.pop(name, None)
        if is_over(self.situation()):
            self.end_of_life()
            return
        plan = self.decide()
        for action in plan.begin:
            assert key(action) not in self.under_way, "two actions of one key"
            if self.observed.lifecycle is not Lifecycle.SYNC:
                begins = (
                    StartContainer | RunPodSandbox | ReadImages | PullImage | ProbeContainer | UpdateContainerResources
                )
                assert not isinstance(action, begins), "nothing begins in a pod that goes"
                if isinstance(action, StopContainer | ShortenStop):
                    assert (action.asked_at, action.grace) in self.graces(), "a grace that somebody asked for"
            look_at_hooks(self.situation(), action, self.hooks_known, self.runtime)
            self.under_way[key(action)] = action
        assert starts_under_way(self.situation()) <= 1, "one start at a time, its preStart hook included"
        self.waits = self.timers_after(plan)
        self.look_at_status()

    def timers_after(self, plan: Plan) -> tuple[Wake, ...]:
        """Say which timers run: the nearest wait's, or from behaviour 3 on one a wait, kept while not all is asked."""
        if self.behaviour < TIMER_PER_WAIT:
            return () if plan.wake is None else (plan.wake,)
        kept = () if plan.complete else tuple(one for one in self.waits if one.at > self.now)
        return tuple(dict.fromkeys((*kept, *plan.waits)))

    @property
    def wake(self) -> Wake | None:
        """The next timer to fire."""
        return min(self.waits, key=lambda one: one.at, default=None)

    def graces(self) -> set[tuple[datetime, timedelta]]:
        """Say which graces were asked for: by a deletion, or by the pod itself when it was evicted or had finished."""
        eviction, finished_at = self.observed.eviction, self.observed.finished_at
        asked = {(eviction.at, eviction.grace or OWN_GRACE)} if eviction else set()
        return self.wishes | asked | ({(finished_at, OWN_GRACE)} if finished_at else set())

    def is_looked_into(self, asked: AddEphemeralContainer) -> None:
        """Let an operator add an ephemeral container, as the workflow does for him."""
        if ephemeral.why_not(self.situation(), asked) is None:
            self.runtime.ephemeral.add(asked.container["name"])
            self.hears(asked)

    def is_deleted(self, grace: timedelta | None = None) -> None:
        """Let its source want it gone."""
        self.wishes.add((self.now, OWN_GRACE if grace is None else max(grace, SHORTEST)))
        self.hears(DeletionRequested("file", "ManifestRemoved", grace=grace))

    def is_edited(self, source: PodJson) -> None:
        """Let its source list it otherwise; if that takes another pod, this one goes by its own grace."""
        self.wishes.add((self.now, OWN_GRACE))
        self.hears(PodListed("file", pod=source, in_place=True))

    def decide(self) -> Plan:
        """Ask twice: the answer is the same, and nothing is written down by asking."""
        before = copy.deepcopy(self.observed)
        plan = pod_actions(self.situation())
        assert pod_actions(self.situation()) == plan
        assert self.observed == before
        return plan

    def end_of_life(self) -> None:
        """Nothing of a deleted pod is left; one that was listed again begins anew."""
        assert not self.due()
        assert not self.runtime.sandboxes
        assert not self.runtime.containers
        assert not self.runtime.directories
        again, self.over = self.observed.listed_again, True
        self.hints.clear()
        if again:
            self.begins_anew()

    def begins_anew(self) -> None:
        """Begin another life, into which nobody looks yet."""
        self.takes_over(without_ephemeral(self.observed.listed_pod or self.source))
        self.runtime.ephemeral.clear()
        self.born()

    def look_at_status(self) -> None:
        """Counts only grow, known exits stay, a terminal phase is final."""
        status = pod_status(self.situation())
        conditions.settle(self.observed, status.conditions or [])
        self.look_at_readiness({one.type: one.status for one in status.conditions or []})
        looking_in = status.ephemeral_container_statuses or ()
        for one in (*(status.init_container_statuses or ()), *(status.container_statuses or ()), *looking_in):
            assert one.restart_count >= self.restarts.get(one.name, 0)
            self.restarts[one.name] = one.restart_count
        for facts in self.observed.containers.values():
            for end in (facts.exit, facts.last_exit):
                if end is None:
                    continue
                assert self.known_exits.setdefault(end.container_id, end.exit_code) == end.exit_code
                if end.reason == UNKNOWN_REASON:
                    self.guessed.add(end.container_id)  # whatever the end is called later, as by a restart of all
                elif end.container_id in self.runtime.exit_codes.keys() - self.guessed:
                    assert end.exit_code == self.runtime.exit_codes[end.container_id]
        if self.observed.eviction:
            assert status.phase != "Succeeded", "what its node ends has failed"
            assert self.observed.eviction.grace is None or self.observed.eviction.grace <= OWN_GRACE
        if self.final_phase:
            assert status.phase == self.final_phase, "a terminal phase is final"
        elif status.phase in TERMINAL:
            self.final_phase = status.phase

    def look_at_readiness(self, shown: dict[str, str]) -> None:
        """Ready is no more than containers and gates together, and no less."""
        gates = [shown.get(one.condition_type, "") for one in self.spec.readiness_gates or ()]
        assert (shown["Ready"] == "True") == all(one == "True" for one in [shown["ContainersReady"], *gates])

    def due(self) -> list[str]:
        """The keys of what is under way and comes to an end: not the probing of a container that lives."""
        return [
            name
            for name, action in self.under_way.items()
            if not (isinstance(action, ProbeContainer) and self.runtime.lives(action.container_id))
        ]

    def effect(self, name: str) -> None:
        """Let an action do what it does; its answer is on the way."""
        try:
            self.answers[name] = answer = self.runtime.do(self.under_way[name])
            if isinstance(answer, RuntimeContainer) and answer.state is ContainerState.EXITED:
                self.hints.append(RuntimeChanged("event", exited=(answer.container_id,)))  # the poller saw it, too
        except Lasting:
            self.answers.pop(name, None)
        except Refused as refused:
            self.answers.pop(name, None)
            fold_failure(self.situation(), self.under_way.pop(name), "RunContainerError", str(refused))
            self.step()

    def answer(self, name: str) -> None:
        """Let an answer arrive."""
        action, answer = self.under_way.pop(name), self.answers.pop(name)
        if isinstance(action, RunHook) and not is_before_start(action):
            self.hooks_known.add(name)
        fold(self.situation(), action, answer)
        self.step()

    def later(self, by: timedelta) -> None:
        """Let time pass."""
        self.now += by
        self.runtime.now = self.now

    def work_off(self) -> None:
        """Let the oldest action under way work and answer."""
        if due := self.due():
            name = due[0]
            self.effect(name)
            if name in self.answers:
                self.answer(name)

    def hear_resync(self) -> None:
        """The poller compared and found a difference."""
        self.hears(RuntimeChanged("resync"))

    def settle(self) -> None:
        """Let everything that is on the way arrive, and every timer fire."""
        for _ in range(STEPS_TO_SETTLE):
            if self.over:
                return
            if self.hints:
                self.hears(self.hints.pop(0))
            elif self.lost_hints:
                self.lost_hints = False
                self.hear_resync()
            elif self.due():
                self.work_off()
            elif self.wake:
                self.later(max(self.wake.at - self.now, timedelta()))
                self.step()
            else:
                return
        raise AssertionError(f"not at rest after {STEPS_TO_SETTLE} steps: {self.under_way}, {self.wake}")

    def everyone_is_probed(self) -> None:
        """Whatever runs and has probes is probed, and has failed none that it lives by."""
        sidecars = [one for one in self.spec.init_containers or () if one.name in self.runtime.sidecars]
        for one in (*sidecars, *self.spec.containers):
            facts = self.observed.containers.get(one.name)
            if facts and facts.state is ContainerState.RUNNING:
                assert failed_probe(facts) is None
                probed = one.liveness_probe or one.readiness_probe or one.startup_probe
                assert bool(probed) == (f"probe/{one.name}" in self.under_way)
