"""Does the pure core bring every pod to the expected state, whatever happens in whatever order?

A state machine drives `hear`, `pod_actions`, `fold` and `lifecycle` as PodWorkflow does, against a model of the runtime.
Actions take effect, fail, succeed without a result and are retried; hints arrive late, twice, in any order or never;
containers and sandboxes exit, vanish and are pruned; the pod is deleted and listed again at any time.
"""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from proto.kubernetes.pod_containers import used_volumes
from proto.temporal.activities.requests import ProbeContainer, RunHook, RunPodSandbox, StartContainer
from proto.temporal.pod import ContainerState, Lifecycle, ProbeKind
from proto.temporal.signals import REBOOT, ProbeVerdict, RuntimeChanged
from tests.workflows.decide.driven_pod import GATE
from tests.workflows.decide.hooks.hook_watch import is_before_start
from tests.workflows.decide.situations import IMAGE, pod
from tests.workflows.decide.volumes.refreshed_pod import RefreshedPod
from tests.workflows.decide.volumes.shown_objects import VOLUMES
from workflows.decide.containers.standing import Standing, standing
from workflows.decide.hooks.hooks import is_starting
from workflows.decide.hooks.own_hooks import any_pending
from workflows.decide.record.fold import fold_failure
from workflows.decide.resources.allocation import figures
from workflows.decide.resources.resources import resources_by_name
from workflows.decide.steps.containers import next_in_line
from workflows.decide.versions import (
    BEHAVIOURS,
    LOOKS_FOR_STARTS,
    REBOOT_ENDS_BACKOFFS,
    RESIZES_WHAT_RUNS,
    USED_VOLUMES_ONLY,
)

RESTART_ON_1 = {"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}
NOT_TAKEN = {"sysctls": [{"name": "kernel.sem", "value": "1"}]}
RESTART_ALL_ON_137 = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [137]}}


class PodMachine(RefreshedPod, RuleBasedStateMachine):
    """One pod, its state and its runtime."""

    @initialize(
        policy=st.sampled_from(["Always", "OnFailure", "Never"]),
        init=st.lists(st.sampled_from(["init", "+side"]), max_size=3),
        own=st.sampled_from([None, None, None, "Always", "OnFailure", "Never"]),
        rules=st.sampled_from([[], [RESTART_ON_1], [RESTART_ALL_ON_137]]),
        regular=st.integers(1, 2),
        pull=st.sampled_from(["IfNotPresent", "Always"]),
        head_start=st.sampled_from([0, 0, 1, 2, 3, 4, 5, 8, 13, 25]),
        behaviour=st.sampled_from(sorted(BEHAVIOURS, reverse=True)),
        present=st.booleans(),
        deadline=st.sampled_from([None, None, None, 1, 20, 400]),
        probes=st.sets(st.sampled_from(ProbeKind)),
        hooked=st.sampled_from([(), (), ("postStart",), ("preStop",), ("postStart", "preStop")]),
        own_hooks=st.sampled_from([(), (), ("preStart",), ("postStop",), ("preStart", "postStop")]),
        gated=st.booleans(),
        restarts=st.booleans(),
        used=st.sampled_from([None, None, 4, 4, 2, 0]),
        security=st.sampled_from([{}, {}, {}, {}, NOT_TAKEN]),
        from_api=st.booleans(),
        stopped_with=st.sampled_from([143, 0]),
    )
    def listed(
        self,
        policy: str,
        init: list[str],
        own: str | None,
        rules: list[dict[str, Any]],
        regular: int,
        pull: str,
        head_start: int,
        behaviour: int,
        present: bool,
        deadline: int | None,
        probes: set[ProbeKind],
        hooked: tuple[str, ...],
        own_hooks: tuple[str, ...],
        gated: bool,
        restarts: bool,
        used: int | None,
        security: dict[str, Any],
        from_api: bool,
        stopped_with: int,
    ) -> None:
        """A source lists the pod."""
        first = [f"{kind}{number}" for number, kind in enumerate(init)]
        names = [f"main{number}" for number in range(regular)]
        source = pod(*names, init=first, restartPolicy=policy, activeDeadlineSeconds=deadline)
        if own:
            source["spec"]["containers"][0] |= {"restartPolicy": own, "restartPolicyRules": rules}
        for one in (*source["spec"].get("initContainers", ()), *source["spec"]["containers"]):
            one["imagePullPolicy"] = pull
        sidecars = [one for one in source["spec"].get("initContainers", ()) if one.get("restartPolicy")]
        for one in (*sidecars, *source["spec"]["containers"]):
            one.update({kind.field: {"tcpSocket": {"port": 80}} for kind in sorted(probes)})
        lasting = [one for one in source["spec"].get("initContainers", ()) if one.get("restartPolicy") == "Always"]
        for one in (*lasting, *source["spec"]["containers"]) if hooked else ():
            one["lifecycle"] = {hook: {"sleep": {"seconds": 1}} for hook in hooked}
        for one in (*source["spec"].get("initContainers", ()), *source["spec"]["containers"]) if own_hooks else ():
            wanted = {f"{hook}.tempolet.dev/{one['name']}": '{"tcpSocket": {"port": 80}}' for hook in own_hooks}
            source["metadata"].setdefault("annotations", {}).update(wanted)
        for one in (*source["spec"].get("initContainers", ()), *source["spec"]["containers"]):
            one["resources"] = {"requests": {"memory": "64Mi"}, "limits": {"memory": "128Mi"}}
        for one in (*lasting, *source["spec"]["containers"]) if restarts and policy != "Never" else ():
            one["resizePolicy"] = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
        if used is not None:
            shown = {"reference": "tool:1", "pullPolicy": pull}
            source["spec"]["volumes"] = [*VOLUMES, {"name": "tool", "image": shown}]
            mounts = [{"name": one["name"], "mountPath": f"/{one['name']}"} for one in source["spec"]["volumes"]]
            source["spec"]["containers"][0]["volumeMounts"] = mounts[:used]
        source["spec"]["securityContext"] = security
        source["spec"]["readinessGates"] = [{"conditionType": GATE}] * gated
        self.from_api = from_api
        self.is_listed(source, tuple(name.removeprefix("+") for name in first), behaviour)
        self.runtime.stopped_with = stopped_with
        if present:
            self.runtime.images.add(IMAGE)
        self.goes_well(head_start)

    # --- what may happen

    @rule(steps=st.integers(1, 6))
    def goes_well(self, steps: int) -> None:
        """Actions succeed at once, and init containers succeed."""
        for _ in range(steps):
            ends = set(self.runtime.init) - set(self.runtime.sidecars)
            waits = [one for one in self.runtime.live() if one.name in ends]
            if waits and not self.due():
                self.runtime.end(waits[0].container_id, 0)
                self.hears(RuntimeChanged("event", exited=(waits[0].container_id,)))
            self.finish_oldest_action()

    @precondition(lambda self: self.under_way)
    @rule(data=st.data())
    def takes_effect(self, data: st.DataObject) -> None:
        """An activity takes effect, perhaps for the second time; its result may be lost."""
        self.effect(self.pick(data, list(self.under_way)))

    @precondition(lambda self: self.answers)
    @rule(data=st.data())
    def answers_arrive(self, data: st.DataObject) -> None:
        """A result arrives."""
        self.answer(self.pick(data, list(self.answers)))

    @precondition(lambda self: self.under_way)
    @rule(data=st.data(), worked=st.booleans())
    def fails(self, data: st.DataObject, worked: bool) -> None:
        """An action fails, perhaps after it took effect."""
        name = self.pick(data, list(self.under_way))
        if worked:
            self.effect(name)
        self.answers.pop(name, None)
        if name not in self.under_way:
            return
        if isinstance(self.under_way[name], RunHook) and not is_before_start(self.under_way[name]):
            self.hooks_known.add(name)
        if isinstance(self.under_way[name], RunPodSandbox) and self.behaviour < RESIZES_WHAT_RUNS:
            self.cgroup_unknown = True
        action = self.under_way.pop(name)
        fold_failure(self.situation(), action, "DeadlineExceeded", "no answer")
        if isinstance(action, StartContainer) and self.behaviour < LOOKS_FOR_STARTS:
            known = {facts.container_id for facts in self.observed.containers.values()}
            started = [one.container_id for one in self.runtime.live() if one.name == action.container["name"]]
            self.runtime.overlooked |= {*started} - known
        self.step()

    @precondition(lambda self: self.runtime.live())
    @rule(data=st.data())
    def hook_will_fail(self, data: st.DataObject) -> None:
        """A container's hooks will fail."""
        self.runtime.hooks_fail.add(self.pick(data, [one.container_id for one in self.runtime.live()]))

    @rule(data=st.data())
    def next_own_hook_will_fail(self, data: st.DataObject) -> None:
        """The hook before a container's next start, or after its next exit, will fail."""
        self.runtime.hooks_fail.add(self.pick(data, [one.name for one in self.situation().all_containers]))

    @precondition(lambda self: self.runtime.live())
    @rule(data=st.data(), code=st.sampled_from([0, 0, 1, 137]))
    def container_ends(self, data: st.DataObject, code: int) -> None:
        """A container exits by itself."""
        container_id = self.pick(data, [one.container_id for one in self.runtime.live()])
        self.runtime.end(container_id, code)
        self.hints.append(RuntimeChanged("event", exited=(container_id,)))

    @rule(codes=st.lists(st.sampled_from([0, 0, 1, 137]), min_size=1, max_size=3))
    def ends_come_early(self, codes: list[int]) -> None:
        """The next init containers exit before their starts have returned."""
        self.runtime.early_ends = codes

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
        """A container is removed from the runtime by others, dead or alive."""
        del self.runtime.containers[self.pick(data, list(self.runtime.containers))]
        self.hints.append(RuntimeChanged("relist"))

    @precondition(lambda self: self.runtime.ready())
    @rule(data=st.data())
    def sandbox_dies(self, data: st.DataObject) -> None:
        """A sandbox is no longer ready; its containers keep running."""
        self.runtime.lose_sandbox(self.pick(data, [one.sandbox_id for one in self.runtime.ready()]))
        self.hints.append(RuntimeChanged("event", sandbox_lost=True))

    @precondition(lambda self: self.runtime.sandboxes)
    @rule(data=st.data())
    def sandbox_is_removed(self, data: st.DataObject) -> None:
        """A sandbox is removed by others, with its containers."""
        self.runtime.remove_sandbox(self.pick(data, list(self.runtime.sandboxes)))
        self.hints.append(RuntimeChanged("relist", sandbox_lost=True))

    @precondition(lambda self: not self.over)
    @rule()
    def machine_restarts(self) -> None:
        """Every sandbox goes with its containers; from behaviour 5 on nothing waits for a back-off any longer."""
        for one in self.runtime.ready():
            self.runtime.stop_sandbox(one.sandbox_id)
        self.hears(RuntimeChanged(REBOOT))
        if self.behaviour >= REBOOT_ENDS_BACKOFFS:
            assert not [facts for facts in self.observed.containers.values() if facts.backoff]
            assert not [image for image in self.observed.images.values() if image.backoff]

    @precondition(lambda self: self.hints)
    @rule(data=st.data(), fate=st.sampled_from(["arrives", "arrives", "doubled", "lost"]))
    def hint(self, data: st.DataObject, fate: str) -> None:
        """A hint arrives in any order, arrives and will arrive once more, or is lost."""
        hint = self.pick(data, self.hints)
        told_for_sure = isinstance(hint, ProbeVerdict)
        if fate == "lost" and told_for_sure:
            return
        if fate != "doubled":
            self.hints.remove(hint)
        if fate == "lost":
            self.lost_hints = True
        elif not self.over:
            self.hears(hint)

    @precondition(lambda self: any(isinstance(one, ProbeContainer) for one in self.under_way.values()))
    @rule(data=st.data(), success=st.booleans())
    def probe_speaks(self, data: st.DataObject, success: bool) -> None:
        """A probe reports a verdict; its container may have exited meanwhile."""
        probing = [one for one in self.under_way.values() if isinstance(one, ProbeContainer)]
        asked: ProbeContainer = self.pick(data, probing)
        kind = self.pick(data, [kind for kind in ProbeKind if kind.field in asked.container])
        self.sequence += 1
        self.hints.append(ProbeVerdict(asked.name, asked.container_id, kind, success, "", self.sequence))

    @rule(seconds=st.sampled_from([0.01, 1, 5, 10, 30, 301, 700]))
    def time_passes(self, seconds: float) -> None:
        """Time passes, and a timer may fire."""
        self.advance(timedelta(seconds=seconds))
        if self.wake and self.wake.at <= self.now:
            self.step()

    @precondition(lambda self: not self.over and not self.due())
    @rule()
    def history_is_lost(self) -> None:
        """Temporal has lost the pod's history; its source lists it, and the runtime still holds its containers."""
        self.runtime.forgotten = True
        self.unsized = {*self.runtime.containers}
        self.reset()

    @rule()
    def quiet(self) -> None:
        """When nothing more happens, the pod settles in the expected state."""
        self.settle()
        if self.over:
            return
        assert not self.due()
        assert self.wake is None, "with no news a pod at rest looks at nothing again"
        if self.observed.lifecycle is Lifecycle.SYNC:
            assert self.runtime.ready()
            assert self.runtime.mounted == self.volumes_wanted()
            self.volumes_show_what_is_there()
            self.check_probing()
            self.everyone_has_its_share()
            self.nothing_is_outdated()
            for one in next_in_line(self.situation()):
                stands = standing(self.situation(), one)
                assert one.name not in self.runtime.sidecars or stands is Standing.UP, f"{one.name} runs on"
            everyone = (*(self.spec.init_containers or ()), *self.spec.containers)
            assert not any_pending(self.situation()), "a postStop hook was skipped"
            assert not [one.name for one in everyone if is_starting(self.situation(), one)], "a hook was skipped"
            self.hear_resync()
            assert self.due() == ["runtime"]
            self.effect("runtime")
            self.answer("runtime")
            assert not self.due(), "a re-read tells a pod at rest nothing new"
        else:
            assert not self.runtime.live()
            assert not self.runtime.ready()

    def volumes_wanted(self) -> set[str]:
        """Name the volumes that are to be mounted at rest."""
        every = {one["name"] for one in self.source["spec"].get("volumes", ())}
        return every & used_volumes(self.source["spec"]) if self.behaviour >= USED_VOLUMES_ONLY else every

    def everyone_has_its_share(self) -> None:
        """Every running container and the pod have the resources of the spec, except containers from before a lost history."""
        resize = self.observed.resize
        assert resize is None or self.behaviour < RESIZES_WHAT_RUNS
        in_doubt = resize.containers.keys() if resize else set()
        assert bool(in_doubt) == bool(resize), "a resize is over with its last container"
        assert not in_doubt & {one.name for one in self.runtime.live()}, "of a failed start, its next one settles this"
        wanted = resources_by_name(self.source)
        for one in self.runtime.live():
            if one.container_id not in self.unsized | self.forgotten_starts and one.name in wanted:
                assert self.runtime.resources[one.container_id] == wanted[one.name]
        assert self.unsized or self.cgroup_unknown or in_doubt or self.runtime.cgroup == figures(self.source)

    def teardown(self) -> None:
        """Whatever happened, a deleted pod is removed and leaves nothing."""
        if not hasattr(self, "over") or self.over:
            return
        self.is_deleted()
        self.settle()
        assert self.over

    # --- invariants

    @invariant()
    def what_is_in_doubt_is_looked_for(self) -> None:
        """A re-read is due or under way while a start is in doubt."""
        if hasattr(self, "observed") and self.observed.starts_in_doubt:
            assert self.observed.runtime_stale or "runtime" in self.under_way or self.over

    @invariant()
    def one_of_each(self) -> None:
        """At most one live sandbox, and one live instance of each container."""
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
