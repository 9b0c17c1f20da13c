"""A pod driven by the state machine as PodWorkflow drives it, but synchronously, with the invariants checked after every step.

`test_machine` decides what happens to the pod; here are the loop, the model of the runtime behind it, and the assertions.
"""

import pickle
from datetime import datetime, timedelta

from kubernetes.client.models.v1_pod_spec import V1PodSpec
from kubernetes.client.models.v1_pod_status import V1PodStatus

from proto.temporal.activities.requests import (
    AwaitPredecessor,
    ProbeContainer,
    PullImage,
    ReadImages,
    ReadPodRuntime,
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
from proto.temporal.resources import ResizeVerdict
from proto.temporal.signals import DeletionRequested, ObjectsChanged, PodListed, ProbeVerdict, RuntimeChanged
from tests.workflows.decide.hooks.hook_watch import check_hooks, is_before_start, starts_under_way
from tests.workflows.decide.runtime_model import Lasting, Refused, RuntimeModel
from tests.workflows.decide.situations import KEY, NOW
from workflows.decide.actions import Action, Wake, key
from workflows.decide.containers.instances import UNKNOWN_REASON
from workflows.decide.containers.restart import failed_probe
from workflows.decide.containers.termination_order import live_containers
from workflows.decide.ending.grace import SHORTEST
from workflows.decide.hooks import hooks, own_hooks
from workflows.decide.lifecycle import lifecycle
from workflows.decide.operator import ephemeral
from workflows.decide.record import signals
from workflows.decide.record.fold import Answer, fold, fold_failure
from workflows.decide.record.listing import without_ephemeral
from workflows.decide.situation import Situation, gathered
from workflows.decide.status import conditions
from workflows.decide.status.status import pod_status
from workflows.decide.steps.pod_actions import Plan, is_over, pod_actions
from workflows.decide.versions import LOOKS_FOR_STARTS, RESIZES_WHAT_RUNS, TIMER_PER_WAIT

STEPS_TO_SETTLE = 400
OWN_GRACE = timedelta(seconds=30)
"""The grace period of `situations.pod`."""
TERMINAL = ("Succeeded", "Failed")
GATE = "example.com/gate"
"""The readiness gate of a pod that has one."""


class DrivenPod:
    """One pod, its state and its runtime."""

    from_api = False
    """Whether the API keeps its object; its edits come as from a manifest all the same."""

    def is_listed(self, source: PodJson, init: tuple[str, ...], behaviour: int) -> None:
        """Let a source list the pod, which follows this behaviour."""
        self.use_spec(source)
        self.now, self.behaviour = NOW, behaviour
        lasting = [one.name for one in self.spec.init_containers or () if one.restart_policy == "Always"]
        self.runtime = RuntimeModel(init, NOW, sidecars=tuple(lasting), bounded=behaviour >= RESIZES_WHAT_RUNS)
        self.hints: list[RuntimeChanged | ProbeVerdict | ObjectsChanged] = []
        self.sequence = 0
        self.lost_hints = False
        self.unsized: set[str] = set()
        """Containers that existed when a history was lost: their sizes are unknown."""
        self.forgotten_starts: set[str] = set()
        """Before behaviour 7, containers that a failed start created before an edit: they keep what they had, and may come up late."""
        self.cgroup_unknown = False
        """Before behaviour 7 a failed start of a sandbox may have given the pod's cgroup what is edited since."""
        self.reset()

    def hears(self, signal: signals.Signal) -> None:
        """Receive a signal; an edit in place replaces the pod's spec."""
        if edited := signals.apply_signal(self.situation(), signal):
            self.use_spec(edited)
        self.step()

    def use_spec(self, source: PodJson) -> None:
        """Use this spec from now on."""
        spec = V1PodSpec.from_dict(source["spec"])
        assert spec is not None
        self.source, self.spec, self.gathered = source, spec, gathered(spec)

    def reset(self) -> None:
        """Start a life with nothing observed."""
        self.observed = Observed(started_at=self.now)
        self.under_way: dict[str, Action] = {}
        self.answers: dict[str, Answer] = {}
        self.waits: tuple[Wake, ...] = ()
        self.restarts: dict[str, int] = {}
        self.known_exits: dict[str, int] = {}
        self.guessed: set[str] = set()
        self.hooks_known: set[str] = set()
        self.final_phase = ""
        self.requested_graces: set[tuple[datetime, timedelta]] = set()
        self.over = False
        self.step()

    # --- the loop of PodWorkflow

    def situation(self) -> Situation:
        """Build the input of the decisions."""
        return Situation(
            KEY,
            self.spec,
            self.source,
            self.observed,
            self.now,
            NodeSettings(),
            self.behaviour,
            busy=dict(self.under_way),
            from_api=self.from_api,
            gathered=self.gathered,
        )

    def step(self) -> None:
        """Advance the lifecycle, start the actions that are due, build the status."""
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
            check_hooks(self.situation(), action, self.hooks_known, self.runtime)
            self.under_way[key(action)] = action
        assert starts_under_way(self.situation()) <= 1, "one start at a time, its preStart hook included"
        self.waits = self.timers_after(plan)
        self.check_status()

    def timers_after(self, plan: Plan) -> tuple[Wake, ...]:
        """Return the running timers: one for the nearest wait, or from behaviour 3 on one for each; incomplete plans keep the old ones."""
        if self.behaviour < TIMER_PER_WAIT:
            return () if plan.wake is None else (plan.wake,)
        kept = () if plan.complete else tuple(one for one in self.waits if one.at > self.now)
        return tuple(dict.fromkeys((*kept, *plan.waits)))

    @property
    def wake(self) -> Wake | None:
        """The next timer to fire."""
        return min(self.waits, key=lambda one: one.at, default=None)

    def graces(self) -> set[tuple[datetime, timedelta]]:
        """Return the requested grace periods: of a deletion, an eviction or a finished pod."""
        eviction, finished_at = self.observed.eviction, self.observed.finished_at
        asked = {(eviction.at, eviction.grace or OWN_GRACE)} if eviction else set()
        return self.requested_graces | asked | ({(finished_at, OWN_GRACE)} if finished_at else set())

    def add_ephemeral_container(self, asked: AddEphemeralContainer) -> None:
        """Let an operator add an ephemeral container, with the workflow's validation."""
        if ephemeral.why_not(self.situation(), asked) is None:
            self.runtime.ephemeral.add(asked.container["name"])
            self.hears(asked)

    def is_deleted(self, grace: timedelta | None = None) -> None:
        """Let the source delete the pod."""
        self.requested_graces.add((self.now, OWN_GRACE if grace is None else max(grace, SHORTEST)))
        self.hears(DeletionRequested("file", "ManifestRemoved", grace=grace))

    def is_edited(self, source: PodJson, decided: ResizeVerdict | None = None) -> None:
        """Let the source edit the pod; if that needs a new pod, this one is deleted with its own grace period."""
        self.requested_graces.add((self.now, OWN_GRACE))
        self.forgotten_starts |= self.runtime.overlooked
        self.hears(PodListed("file", pod=source, in_place=True, resize=decided))

    def decide(self) -> Plan:
        """Decide twice: the plan is the same, and deciding changes nothing."""
        before = pickle.loads(pickle.dumps(self.observed))  # a copy, as copy.deepcopy makes it, in a fifth of the time
        plan = pod_actions(self.situation())
        assert pod_actions(self.situation()) == plan
        assert self.observed == before
        if self.behaviour >= LOOKS_FOR_STARTS:
            stopped = [one.name for one in plan.begin if isinstance(one, StopContainer)]
            assert {*stopped} <= {*live_containers(self.situation())}, "only what lives is stopped"
        return plan

    def end_of_life(self) -> None:
        """Nothing of a deleted pod is left; a pod that was listed again starts over.

        Only a read may still be under way: a relist may begin it while the pod's object is being deleted.
        """
        assert not [one for one in self.due() if not isinstance(self.under_way[one], ReadPodRuntime)]
        assert not self.runtime.sandboxes
        assert not self.runtime.containers
        assert not self.runtime.directories
        again, self.over = self.observed.listed_again, True
        self.hints.clear()
        if again:
            self.start_over()

    def start_over(self) -> None:
        """Start another life, without ephemeral containers."""
        self.use_spec(without_ephemeral(self.observed.listed_pod or self.source))
        self.runtime.ephemeral.clear()
        self.reset()

    def check_status(self) -> None:
        """Restart counts only grow, known exits stay, a terminal phase is final."""
        status = pod_status(self.situation())
        conditions.settle(self.observed, status.conditions or [])
        self.check_readiness({one.type: one.status for one in status.conditions or []})
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
                    self.guessed.add(end.container_id)  # even if another reason replaces it later
                elif end.container_id in self.runtime.exit_codes.keys() - self.guessed:
                    assert end.exit_code == self.runtime.exit_codes[end.container_id]
        if self.observed.eviction:
            self.check_evicted(status)
            assert self.observed.eviction.grace is None or self.observed.eviction.grace <= OWN_GRACE
        if self.final_phase:
            assert status.phase == self.final_phase, "a terminal phase is final"
        elif status.phase in TERMINAL and not self.forgotten_starts:
            self.final_phase = status.phase

    def check_evicted(self, status: V1PodStatus) -> None:
        """What its node ends has failed, unless it is a pod of the API whose containers have all exited with 0."""
        if status.phase == "Succeeded":
            assert self.observed.eviction is not None
            assert self.observed.eviction.may_succeed
            ends = [facts.exit for one in self.spec.containers if (facts := self.situation().facts(one.name))]
            assert [end.exit_code if end else None for end in ends] == [0] * len(self.spec.containers)
            assert not status.reason

    def check_readiness(self, shown: dict[str, str]) -> None:
        """Ready is true exactly when all containers are ready and all gates are true."""
        gates = [shown.get(one.condition_type, "") for one in self.spec.readiness_gates or ()]
        assert (shown["Ready"] == "True") == all(one == "True" for one in [shown["ContainersReady"], *gates])

    def due(self) -> list[str]:
        """Return the keys of the pending actions that will end: not the probing of a live container."""
        return [
            name
            for name, action in self.under_way.items()
            if not (isinstance(action, ProbeContainer) and self.runtime.lives(action.container_id))
        ]

    def effect(self, name: str) -> None:
        """Let an action take effect; its result is pending."""
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
        """Deliver a result."""
        action, answer = self.under_way.pop(name), self.answers.pop(name)
        if isinstance(action, RunHook) and not is_before_start(action):
            self.hooks_known.add(name)
        fold(self.situation(), action, answer)
        self.step()

    def advance(self, by: timedelta) -> None:
        """Advance the time."""
        self.now += by
        self.runtime.now = self.now

    def finish_oldest_action(self) -> None:
        """Let the oldest pending action take effect and return."""
        if due := self.due():
            name = due[0]
            self.effect(name)
            if name in self.answers:
                self.answer(name)

    def hear_resync(self) -> None:
        """Send the hint of a resync that found a difference."""
        self.hears(RuntimeChanged("resync"))

    def settle(self) -> None:
        """Deliver everything that is pending, and fire every timer."""
        for _ in range(STEPS_TO_SETTLE):
            if self.over:
                return
            if self.hints:
                self.hears(self.hints.pop(0))
            elif self.lost_hints:
                self.lost_hints = False
                self.hear_resync()
            elif self.due():
                self.finish_oldest_action()
            elif self.wake:
                self.advance(max(self.wake.at - self.now, timedelta()))
                self.step()
            else:
                return
        raise AssertionError(f"not at rest after {STEPS_TO_SETTLE} steps: {self.under_way}, {self.wake}")

    def check_probing(self) -> None:
        """Every running container that has probes is probed, and has failed neither its liveness nor its startup probe."""
        sidecars = [one for one in self.spec.init_containers or () if one.name in self.runtime.sidecars]
        for one in (*sidecars, *self.spec.containers):
            facts = self.observed.containers.get(one.name)
            if facts and facts.state is ContainerState.RUNNING:
                assert failed_probe(facts) is None
                probed = one.liveness_probe or one.readiness_probe or one.startup_probe
                assert bool(probed) == (f"probe/{one.name}" in self.under_way)
