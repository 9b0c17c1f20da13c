"""Does the pure core lead every pod to where it belongs, whatever happens in whatever order?

A state machine drives `hear`, `pod_actions`, `fold` and `lifecycle` as PodWorkflow does, against a model of the runtime.
Actions take effect, fail, succeed without an answer and are tried again; hints come late, twice, in any order or never;
containers and sandboxes end, vanish and are pruned; the pod is deleted and listed again at any time.
"""

import copy
from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from kubernetes.client.models.v1_pod_spec import V1PodSpec

from proto.temporal.pod import ContainerState, Lifecycle, Observed
from proto.temporal.requests import (
    AwaitPredecessor,
    PullImage,
    RunPodSandbox,
    StartContainer,
)
from proto.temporal.signals import DeletionRequested, PodListed, RuntimeChanged
from tests.decide.runtime_model import Refused, RuntimeModel
from tests.decide.situations import KEY, NOW, pod
from workflows.decide import conditions, hints, lifecycle
from workflows.decide.actions import Action, Wake, key
from workflows.decide.fold import Answer, fold, fold_failure
from workflows.decide.instances import UNKNOWN_REASON
from workflows.decide.pod_actions import Plan, is_over, pod_actions
from workflows.decide.situation import Situation
from workflows.decide.status import pod_status

STEPS_TO_SETTLE = 400
TERMINAL = ("Succeeded", "Failed")


class PodMachine(RuleBasedStateMachine):
    """One pod, its core and its runtime."""

    @initialize(
        policy=st.sampled_from(["Always", "OnFailure", "Never"]),
        init=st.integers(0, 2),
        regular=st.integers(1, 2),
        pull=st.sampled_from(["IfNotPresent", "Always"]),
        head_start=st.sampled_from([0, 0, 1, 2, 3, 4, 5, 8, 13, 25]),
    )
    def listed(self, policy: str, init: int, regular: int, pull: str, head_start: int) -> None:
        """A source lists the pod."""
        first = [f"init{number}" for number in range(init)]
        names = [f"main{number}" for number in range(regular)]
        self.source = pod(*names, init=first, restartPolicy=policy)
        for one in (*self.source["spec"].get("initContainers", ()), *self.source["spec"]["containers"]):
            one["imagePullPolicy"] = pull
        spec = V1PodSpec.from_dict(self.source["spec"])
        assert spec is not None
        self.spec, self.now = spec, NOW
        self.runtime = RuntimeModel(tuple(first), NOW)
        self.hints: list[RuntimeChanged] = []
        self.lost_hints = False
        self.born()
        self.goes_well(head_start)

    def born(self) -> None:
        """Begin a life: nothing is known."""
        self.observed = Observed(started_at=self.now)
        self.under_way: dict[str, Action] = {}
        self.answers: dict[str, Answer] = {}
        self.wake: Wake | None = None
        self.restarts: dict[str, int] = {}
        self.known_exits: dict[str, int] = {}
        self.final_phase = ""
        self.over = False
        self.step()

    # --- the loop of PodWorkflow

    def situation(self) -> Situation:
        """Gather what a decision may look at."""
        return Situation(KEY, self.spec, self.source, self.observed, self.now, busy=dict(self.under_way))

    def step(self) -> None:
        """Move the lifecycle, begin what is due, build the status."""
        if self.over:
            return
        while event := lifecycle.next_event(self.situation()):
            self.observed.lifecycle = lifecycle.after(self.observed.lifecycle, event)
            for name, action in list(self.under_way.items()):
                if isinstance(action, PullImage | AwaitPredecessor):
                    del self.under_way[name]
                    self.answers.pop(name, None)
            self.observed.waiting_for = ""
        if is_over(self.situation()):
            self.end_of_life()
            return
        plan = self.decide()
        for action in plan.begin:
            assert key(action) not in self.under_way, "two actions of one key"
            if self.observed.deletion:
                assert not isinstance(action, StartContainer | RunPodSandbox | PullImage), (
                    "nothing begins after deletion"
                )
            self.under_way[key(action)] = action
        assert sum(isinstance(one, StartContainer) for one in self.under_way.values()) <= 1, "one start at a time"
        self.wake = plan.wake
        self.look_at_status()

    def decide(self) -> Plan:
        """Ask twice: the answer is the same, and nothing is written down by asking."""
        before = copy.deepcopy(self.observed)
        plan = pod_actions(self.situation())
        assert pod_actions(self.situation()) == plan
        assert self.observed == before
        return plan

    def end_of_life(self) -> None:
        """Nothing of a deleted pod is left; one that was listed again begins anew."""
        assert not self.under_way
        assert not self.runtime.sandboxes
        assert not self.runtime.containers
        assert not self.runtime.directories
        again, self.over = self.observed.listed_again, True
        self.hints.clear()
        if again:
            self.born()

    def look_at_status(self) -> None:
        """Counts only grow, known exits stay, a terminal phase is final."""
        status = pod_status(self.situation())
        conditions.settle(self.observed, status.conditions or [])
        for one in (*(status.init_container_statuses or ()), *(status.container_statuses or ())):
            assert one.restart_count >= self.restarts.get(one.name, 0)
            self.restarts[one.name] = one.restart_count
        for facts in self.observed.containers.values():
            for end in (facts.exit, facts.last_exit):
                if end is None:
                    continue
                assert self.known_exits.setdefault(end.container_id, end.exit_code) == end.exit_code
                if end.reason != UNKNOWN_REASON and end.container_id in self.runtime.exit_codes:
                    assert end.exit_code == self.runtime.exit_codes[end.container_id]
        if self.final_phase:
            assert status.phase == self.final_phase, "a terminal phase is final"
        elif status.phase in TERMINAL:
            self.final_phase = status.phase

    def effect(self, name: str) -> None:
        """Let an action do what it does; its answer is on the way."""
        try:
            self.answers[name] = self.runtime.do(self.under_way[name])
        except Refused as refused:
            self.answers.pop(name, None)
            fold_failure(self.situation(), self.under_way.pop(name), "RunContainerError", str(refused))
            self.step()

    def answer(self, name: str) -> None:
        """Let an answer arrive."""
        action, answer = self.under_way.pop(name), self.answers.pop(name)
        fold(self.situation(), action, answer)
        self.step()

    def later(self, by: timedelta) -> None:
        """Let time pass."""
        self.now += by
        self.runtime.now = self.now

    # --- what may happen

    def pick(self, data: st.DataObject, names: list[Any]) -> Any:
        """Choose one of these."""
        return data.draw(st.sampled_from(sorted(names, key=repr)))

    @rule(steps=st.integers(1, 6))
    def goes_well(self, steps: int) -> None:
        """Actions work at once, and init containers succeed."""
        for _ in range(steps):
            waits = [one for one in self.runtime.live() if one.name in self.runtime.init]
            if waits and not self.under_way:
                self.runtime.end(waits[0].container_id, 0)
                hints.hear(self.situation(), RuntimeChanged("event", exited=(waits[0].container_id,)))
                self.step()
            self.work_off()

    def work_off(self) -> None:
        """Let the oldest action under way work and answer."""
        if self.under_way:
            name = next(iter(self.under_way))
            self.effect(name)
            if name in self.answers:
                self.answer(name)

    @precondition(lambda self: self.under_way)
    @rule(data=st.data())
    def takes_effect(self, data: st.DataObject) -> None:
        """An activity does its work, perhaps for the second time; its answer may be lost."""
        self.effect(self.pick(data, list(self.under_way)))

    @precondition(lambda self: self.answers)
    @rule(data=st.data())
    def answers_arrive(self, data: st.DataObject) -> None:
        """An answer arrives."""
        self.answer(self.pick(data, list(self.answers)))

    @precondition(lambda self: self.under_way)
    @rule(data=st.data(), worked=st.booleans())
    def fails(self, data: st.DataObject, worked: bool) -> None:
        """An action fails; it may have done its work nevertheless."""
        name = self.pick(data, list(self.under_way))
        if worked:
            self.effect(name)
        self.answers.pop(name, None)
        if name not in self.under_way:
            return
        fold_failure(self.situation(), self.under_way.pop(name), "DeadlineExceeded", "no answer")
        self.step()

    @precondition(lambda self: self.runtime.live())
    @rule(data=st.data(), code=st.sampled_from([0, 0, 1, 137]))
    def container_ends(self, data: st.DataObject, code: int) -> None:
        """A container ends by itself."""
        container_id = self.pick(data, [one.container_id for one in self.runtime.live()])
        self.runtime.end(container_id, code)
        self.hints.append(RuntimeChanged("event", exited=(container_id,)))

    @precondition(lambda self: self.runtime.live())
    @rule(data=st.data())
    def container_becomes_unknown(self, data: st.DataObject) -> None:
        """The runtime loses sight of a container."""
        one = self.pick(data, self.runtime.live())
        self.runtime.containers[one.container_id] = replace(one, state=ContainerState.UNKNOWN)
        self.hints.append(RuntimeChanged("relist"))

    @precondition(lambda self: self.runtime.containers)
    @rule(data=st.data())
    def container_is_pruned(self, data: st.DataObject) -> None:
        """Somebody removes a container, dead or alive, from the runtime."""
        del self.runtime.containers[self.pick(data, list(self.runtime.containers))]
        self.hints.append(RuntimeChanged("relist"))

    @precondition(lambda self: self.runtime.ready())
    @rule(data=st.data())
    def sandbox_dies(self, data: st.DataObject) -> None:
        """A sandbox is not ready any more; what runs in it goes on."""
        self.runtime.lose_sandbox(self.pick(data, [one.sandbox_id for one in self.runtime.ready()]))
        self.hints.append(RuntimeChanged("event", sandbox_lost=True))

    @precondition(lambda self: self.runtime.sandboxes)
    @rule(data=st.data())
    def sandbox_is_removed(self, data: st.DataObject) -> None:
        """Somebody removes a sandbox with all that is in it."""
        self.runtime.remove_sandbox(self.pick(data, list(self.runtime.sandboxes)))
        self.hints.append(RuntimeChanged("relist", sandbox_lost=True))

    @precondition(lambda self: self.hints)
    @rule(data=st.data(), fate=st.sampled_from(["arrives", "arrives", "doubled", "lost"]))
    def hint(self, data: st.DataObject, fate: str) -> None:
        """A hint arrives in any order, arrives and comes once more, or is lost."""
        hint = self.pick(data, self.hints)
        if fate != "doubled":
            self.hints.remove(hint)
        if fate == "lost":
            self.lost_hints = True
        elif not self.over:
            hints.hear(self.situation(), hint)
            self.step()

    @rule(seconds=st.sampled_from([0.01, 1, 5, 10, 30, 301, 700]))
    def time_passes(self, seconds: float) -> None:
        """Time passes, and the timer may fire."""
        self.later(timedelta(seconds=seconds))
        if self.wake and self.wake.at <= self.now:
            self.step()

    @precondition(lambda self: not self.over)
    @rule(grace=st.sampled_from([None, 0, 5, 100]), really=st.sampled_from([False, False, True]))
    def deleted(self, grace: int | None, really: bool) -> None:
        """The pod shall go."""
        if not really:
            return
        asked = None if grace is None else timedelta(seconds=grace)
        hints.hear(self.situation(), DeletionRequested("file", "ManifestRemoved", grace=asked))
        self.step()

    @rule()
    def listed_again(self) -> None:
        """The source lists the pod once more."""
        if self.over:
            self.born()
            return
        hints.hear(self.situation(), PodListed("file"))
        self.step()

    @precondition(lambda self: not self.over and not self.under_way)
    @rule()
    def history_is_lost(self) -> None:
        """Temporal has forgotten the pod; its source lists it, and the runtime still holds what it held."""
        self.runtime.forgotten = True
        self.born()

    @rule()
    def quiet(self) -> None:
        """Nothing more happens for a while: the pod comes to rest where it belongs."""
        self.settle()
        if self.over:
            return
        assert not self.under_way
        assert self.wake is None, "with no news a pod at rest looks at nothing again"
        if self.observed.lifecycle is Lifecycle.SYNC:
            assert self.runtime.ready()
            self.hear_resync()
            assert list(self.under_way) == ["runtime"]
            self.effect("runtime")
            self.answer("runtime")
            assert not self.under_way, "a re-read tells a pod at rest nothing new"
        else:
            assert not self.runtime.live()
            assert not self.runtime.ready()

    def hear_resync(self) -> None:
        """The poller compared and found a difference."""
        hints.hear(self.situation(), RuntimeChanged("resync"))
        self.step()

    def settle(self) -> None:
        """Let everything that is on the way arrive, and every timer fire."""
        for _ in range(STEPS_TO_SETTLE):
            if self.over:
                return
            if self.hints:
                hints.hear(self.situation(), self.hints.pop(0))
                self.step()
            elif self.lost_hints:
                self.lost_hints = False
                self.hear_resync()
            elif self.under_way:
                self.work_off()
            elif self.wake:
                self.later(max(self.wake.at - self.now, timedelta()))
                self.step()
            else:
                return
        raise AssertionError(f"not at rest after {STEPS_TO_SETTLE} steps: {self.under_way}, {self.wake}")

    def teardown(self) -> None:
        """Whatever happened, a deleted pod goes and leaves nothing."""
        if not hasattr(self, "over") or self.over:
            return
        hints.hear(self.situation(), DeletionRequested("file", "ManifestRemoved"))
        self.step()
        self.settle()
        assert self.over

    # --- what always holds

    @invariant()
    def one_of_each(self) -> None:
        """One live sandbox, and one live instance of each container."""
        if hasattr(self, "runtime"):
            assert len(self.runtime.ready()) <= 1
            names = [one.name for one in self.runtime.live()]
            assert len(names) == len(set(names))


TestPodMachine = PodMachine.TestCase
TestPodMachine.settings = settings(
    max_examples=200,
    stateful_step_count=50,
    deadline=None,
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow],
)
