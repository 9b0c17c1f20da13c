"""Does each hook run in its turn, once per instance, and do the right actions wait for it?

The situations are those of TestLifeCycleHook and TestKillContainer (pkg/kubelet/kuberuntime/kuberuntime_container_test.go),
and those after a worker's death.
"""

from datetime import timedelta
from typing import Any

import pytest

from proto.temporal.activities.requests import RunHook, StopContainer
from proto.temporal.hooks import Hook, HookEnded, HookOutcome
from proto.temporal.pod import ContainerFacts, ContainerState, Lifecycle, PodJson
from tests.workflows.decide.situations import (
    DEFAULT_CONTEXT,
    KEY,
    Context,
    at,
    container,
    deletion,
    describe_all,
    down,
    pod,
    sandbox,
    situation,
    starting,
    stopping,
    up,
)
from workflows.decide.actions import holds_reread
from workflows.decide.containers.readiness import is_ready, is_started
from workflows.decide.hooks.hooks import abandoned
from workflows.decide.record.fold import fold, fold_failure
from workflows.decide.situation import Situation
from workflows.decide.status.container_status import container_status
from workflows.decide.steps.pod_actions import pod_actions

BOTH = {"postStart": {"exec": {"command": ["ready"]}}, "preStop": {"sleep": {"seconds": 5}}}
POST = {"postStart": BOTH["postStart"]}
PRE = {"preStop": BOTH["preStop"]}
GOING: dict[str, Any] = {"lifecycle": Lifecycle.TERMINATING, "deletion": deletion()}


def hooked(lifecycle: dict[str, Any], *others: str, **spec: Any) -> PodJson:
    """Build a pod whose container web has these hooks."""
    return pod(containers=[container("web", lifecycle=lifecycle), *map(container, others)], **spec)


def ended(container_id: str = "web-0", *, well: bool = True, seconds: float = 0) -> HookOutcome:
    """Build the outcome of a hook that was requested at NOW."""
    return HookOutcome(container_id, well, "" if well else "exit code 3", at(0), at(seconds))


def running(hook: Hook, *, grace: float = 30) -> RunHook:
    """Build the request of a pending hook."""
    since = at(0) if hook is Hook.PRE_STOP else None
    return RunHook(KEY, "web", "web-0", hook, {}, asked_at=since, grace=timedelta(seconds=grace))


DONE = ended()
FAILED = ended(well=False)
POST_START = "RunHook web/postStart/web-0"
PRE_STOP = "RunHook web/preStop/web-0"


@pytest.mark.parametrize(
    ("facts", "busy", "begun"),
    [
        pytest.param(up(), (), [POST_START], id="runs-once-the-container-is-up"),
        pytest.param(up(), (running(Hook.POST_START),), [], id="the-next-container-waits-for-it"),
        pytest.param(up(post_start=DONE), (), ["StartContainer side 0"], id="goes-on-when-it-went-well"),
        pytest.param(
            up(attempt=1, post_start=DONE), (), ["RunHook web/postStart/web-1"], id="again-for-a-new-instance"
        ),
        pytest.param(up(post_start=FAILED), (), ["StopContainer web"], id="its-failure-stops-the-container"),
        pytest.param(down(137, post_start=FAILED), (), ["StartContainer web 1"], id="then-it-starts-again"),
        pytest.param(down(0), (), ["StartContainer web 1"], id="not-for-one-that-has-ended-by-itself"),
        pytest.param(up(state=ContainerState.CREATED), (), ["StartContainer web 0"], id="not-before-it-runs"),
        pytest.param(ContainerFacts(), (starting(),), [], id="not-while-it-is-being-started"),
    ],
)
def test_post_start(facts: ContainerFacts, busy: tuple[Any, ...], begun: list[str]) -> None:
    """It is a part of the start: the next containers wait for it."""
    here = situation(hooked(POST, "side"), Context(busy=busy), containers={"web": facts})
    assert describe_all(pod_actions(here).begin) == begun


def test_every_restart_waits_for_a_hook_too() -> None:
    """Another container that crashed meanwhile is started afterwards."""
    known = {"web": up(), "side": down(1, "side")}
    here = situation(hooked(POST, "side"), Context(busy=(running(Hook.POST_START),)), containers=known)
    assert describe_all(pod_actions(here).begin) == []
    here.observed.containers["web"].post_start = DONE
    assert describe_all(pod_actions(here).begin) == ["StartContainer side 1"]


def test_a_failed_post_start_stops_with_the_pods_grace_and_its_reason() -> None:
    """Counted from the failure, with the preStop hook first, as in the kubelet's killContainer."""
    here = situation(hooked(BOTH), Context(now=at(7)), containers={"web": up(post_start=ended(well=False, seconds=5))})
    (hook,) = pod_actions(here).begin
    assert isinstance(hook, RunHook)
    assert (hook.hook, hook.asked_at, hook.grace) == (Hook.PRE_STOP, at(5), timedelta(seconds=30))
    here.observed.containers["web"].pre_stop = HookOutcome("web-0", True, "", at(5), at(7))
    (stop,) = pod_actions(here).begin
    assert isinstance(stop, StopContainer)
    assert (stop.asked_at, stop.reason) == (at(5), "FailedPostStartHook: exit code 3")


@pytest.mark.parametrize("policy", ["Always", "OnFailure", "Never"])
def test_what_follows_a_failed_post_start_is_the_restart_policys(policy: str) -> None:
    """By the exit code, like any other exit."""
    here = situation(hooked(POST, restartPolicy=policy), containers={"web": down(137, post_start=FAILED)})
    assert describe_all(pod_actions(here).begin) == ([] if policy == "Never" else ["StartContainer web 1"])


@pytest.mark.parametrize(
    ("context", "facts", "begun"),
    [
        pytest.param(DEFAULT_CONTEXT, up(), [PRE_STOP], id="before-the-stop"),
        pytest.param(Context(busy=(running(Hook.PRE_STOP),)), up(), [], id="the-stop-waits-for-it"),
        pytest.param(DEFAULT_CONTEXT, up(pre_stop=DONE), ["StopContainer web"], id="then-the-stop"),
        pytest.param(DEFAULT_CONTEXT, up(pre_stop=FAILED), ["StopContainer web"], id="also-when-it-failed"),
        pytest.param(
            DEFAULT_CONTEXT,
            up(attempt=1, pre_stop=DONE),
            ["RunHook web/preStop/web-1"],
            id="one-of-an-earlier-instance",
        ),
        pytest.param(
            Context(now=at(60)), up(), [PRE_STOP], id="not-skipped-by-a-worker-that-comes-late-when-the-grace-is-over"
        ),
        pytest.param(
            DEFAULT_CONTEXT,
            up(state=ContainerState.CREATED),
            ["StopContainer web"],
            id="not-in-a-container-that-never-ran",
        ),
        pytest.param(
            DEFAULT_CONTEXT, up(state=ContainerState.UNKNOWN), [PRE_STOP], id="also-where-nobody-knows-whether-it-runs"
        ),
        pytest.param(DEFAULT_CONTEXT, down(0), ["StopPodSandbox"], id="not-in-one-that-has-ended-by-itself"),
    ],
)
def test_pre_stop(context: Context, facts: ContainerFacts, begun: list[str]) -> None:
    """It runs before SIGTERM whenever we stop a running container."""
    here = situation(hooked(PRE), context, containers={"web": facts}, **GOING)
    assert describe_all(pod_actions(here).begin) == begun


@pytest.mark.parametrize(
    ("facts", "known", "reason"),
    [
        pytest.param(up(), {"sandbox": sandbox(ready=False)}, "its sandbox is gone", id="lost-sandbox"),
        pytest.param(up(state=ContainerState.UNKNOWN), {}, "the runtime does not know its state", id="unknown-state"),
    ],
)
def test_pre_stop_before_every_other_stop(facts: ContainerFacts, known: dict[str, Any], reason: str) -> None:
    """With the pod's whole grace period, counted from the first request to stop."""
    here = situation(hooked(PRE), Context(now=at(0)), containers={"web": facts}, **known)
    (hook,) = pod_actions(here).begin
    assert isinstance(hook, RunHook)
    assert (hook.reason, hook.asked_at, hook.grace) == (reason, at(0), timedelta(seconds=30))
    here = situation(hooked(PRE), Context(now=at(9)), containers={"web": facts}, **known)
    fold(here, hook, HookEnded(succeeded=True))
    (stop,) = pod_actions(here).begin
    assert isinstance(stop, StopContainer)
    assert (stop.asked_at, stop.grace, stop.at_least) == (at(0), timedelta(seconds=30), timedelta(seconds=2))


def test_hook_and_stop_share_one_grace() -> None:
    """The deletion's, counted from its request; the stop gets at least two seconds of it."""
    known = {
        "web": up(pre_stop=ended(seconds=29)),
    }
    here = situation(hooked(PRE), Context(now=at(29)), containers=known, **GOING)
    (stop,) = pod_actions(here).begin
    assert isinstance(stop, StopContainer)
    assert (stop.asked_at, stop.grace, stop.at_least) == (at(0), timedelta(seconds=30), timedelta(seconds=2))


def test_a_container_without_a_hook_stops_as_ever() -> None:
    """As in recorded histories."""
    here = situation(hooked(POST), containers={"web": up(post_start=DONE)}, **GOING)
    (stop,) = pod_actions(here).begin
    assert isinstance(stop, StopContainer)
    assert stop.at_least == timedelta(seconds=1)


@pytest.mark.parametrize(
    ("grace", "now", "answers"),
    [
        pytest.param(10, 5, ["wake 10"], id="is-waited-for"),
        pytest.param(10, 10, ["StopContainer web"], id="ends-the-hook-by-stopping-its-container"),
        pytest.param(30, 29, [], id="the-same-grace-ends-the-hook-by-itself"),
    ],
)
def test_a_shorter_grace_during_the_hook(grace: float, now: float, answers: list[str]) -> None:
    """A second deletion may shorten the hook's time."""
    busy = (running(Hook.PRE_STOP),)
    known = {**GOING, "deletion": deletion(grace=grace)}
    plan = pod_actions(situation(hooked(PRE), Context(now=at(now), busy=busy), containers={"web": up()}, **known))
    assert describe_all([*plan.begin, *([plan.wake] if plan.wake else [])]) == answers


@pytest.mark.parametrize(
    ("hook", "facts", "known", "gives_up"),
    [
        pytest.param(Hook.POST_START, up(), {}, False, id="nothing-while-it-runs"),
        pytest.param(Hook.POST_START, down(1), {}, True, id="its-container-has-ended"),
        pytest.param(Hook.POST_START, up(attempt=1), {}, True, id="a-newer-instance-is-there"),
        pytest.param(Hook.POST_START, up(), GOING, True, id="its-pod-goes"),
        pytest.param(Hook.PRE_STOP, up(), GOING, False, id="not-a-pre-stop-hook-for-that"),
        pytest.param(Hook.PRE_STOP, down(0), GOING, True, id="but-when-its-container-has-ended"),
    ],
)
def test_a_hook_that_nobody_waits_for(hook: Hook, facts: ContainerFacts, known: dict[str, Any], gives_up: bool) -> None:
    """It is cancelled."""
    here = situation(hooked(BOTH), Context(busy=(running(hook),)), containers={"web": facts}, **known)
    assert bool(abandoned(here)) is gives_up


def test_nothing_but_hooks_is_given_up_here() -> None:
    """A stop continues."""
    assert abandoned(situation(hooked(BOTH), Context(busy=(stopping(),)), containers={"web": down(0)})) == []


def test_no_re_read_waits_for_a_hook() -> None:
    """It may last for ever, and a re-read does not depend on it."""
    assert not holds_reread(running(Hook.POST_START))


def status_of(here: Situation) -> tuple[str, bool, bool]:
    """Return state and reason, whether it has started, and whether it is ready."""
    web = here.containers[0]
    state = container_status(here, web).state
    assert state is not None
    shown = (
        "running" if state.running else f"{state.waiting.reason} {state.waiting.message or ''}" if state.waiting else ""
    )
    return shown.strip(), is_started(here, web), is_ready(here, web)


@pytest.mark.parametrize(
    ("facts", "known", "shown"),
    [
        pytest.param(up(), {}, ("ContainerCreating", False, False), id="waits-while-the-hook-runs"),
        pytest.param(up(post_start=DONE), {}, ("running", True, True), id="runs-when-it-went-well"),
        pytest.param(
            up(post_start=FAILED, failure_reason="PostStartHookError", failure_message="exit code 3"),
            {},
            ("PostStartHookError exit code 3", False, False),
            id="says-why-it-is-stopped",
        ),
        pytest.param(up(), GOING, ("running", False, False), id="a-pod-that-goes-shows-what-runs"),
    ],
)
def test_what_the_status_says(facts: ContainerFacts, known: dict[str, Any], shown: tuple[str, bool, bool]) -> None:
    """A container is not Running until its postStart hook has succeeded."""
    assert status_of(situation(hooked(POST), containers={"web": facts}, **known)) == shown


def test_a_result_is_written_down_for_its_instance_alone() -> None:
    """A result that arrives for an earlier instance changes nothing."""
    here = situation(hooked(POST), containers={"web": up(attempt=1)})
    fold(here, running(Hook.POST_START), HookEnded(succeeded=False))
    assert here.observed.containers["web"] == up(attempt=1)


def test_a_hook_that_could_not_be_asked_for_has_failed() -> None:
    """It is not repeated: nobody knows whether it ran, and Temporal has already retried."""
    here = situation(hooked(POST), containers={"web": up()})
    fold_failure(here, running(Hook.POST_START), "UnexpectedError", "a defect")
    facts = here.observed.containers["web"]
    assert facts.post_start == HookOutcome("web-0", False, "UnexpectedError: a defect", None, here.now)
    assert facts.failure_reason == "PostStartHookError"
    assert here.observed.failures == {}


def test_a_handler_is_told_what_it_may_need() -> None:
    """Named ports and the pod's addresses; on the host network the node's."""
    ports = [{"name": "http", "containerPort": 80}]
    source = pod(containers=[container("web", lifecycle=POST, ports=ports)])
    (hook,) = pod_actions(situation(source, containers={"web": up()})).begin
    assert isinstance(hook, RunHook)
    assert (hook.handler, hook.ports, hook.ips) == (POST["postStart"], tuple(ports), ("10.88.0.5",))
    source["spec"]["hostNetwork"] = True
    (hook,) = pod_actions(situation(source, containers={"web": up()})).begin
    assert isinstance(hook, RunHook)
    assert hook.ips == ("192.0.2.1",)
