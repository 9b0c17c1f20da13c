"""When do the hooks that Kubernetes does not have run, what waits for them, and when is that wait over?

A row has the facts of the container web, and the actions that the core then starts.
"""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from proto.temporal.activities.requests import RunHook
from proto.temporal.hooks import Hook, HookEnded, HookOutcome, HookRetry
from proto.temporal.pod import ContainerFacts, Lifecycle, NodeSettings, PodJson
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
    up,
)
from workflows.decide.action_type import PATIENT
from workflows.decide.hooks.hooks import run_hook
from workflows.decide.hooks.own_hooks import abandoned, any_pending, post_stop
from workflows.decide.record.fold import fold, fold_failure
from workflows.decide.situation import Situation
from workflows.decide.status.status import pod_status
from workflows.decide.steps.pod_actions import pod_actions
from workflows.steps import retry_policy

EXEC = {"exec": {"command": ["true"]}}
GOING: dict[str, Any] = {"lifecycle": Lifecycle.TERMINATING}
BEFORE, AFTER = "RunHook web/preStart/s0/0", "RunHook web/postStop/web-0"


def annotated(*hooks: Hook, others: tuple[str, ...] = (), said: dict[str, Any] | None = None, **spec: Any) -> PodJson:
    """Build a pod whose container web has these hooks."""
    made = pod(containers=[container("web"), *map(container, others)], **spec)
    made["metadata"]["annotations"] = {f"{hook}.tempolet.dev/web": json.dumps(EXEC | (said or {})) for hook in hooks}
    return made


def prepared(*, well: bool = True, attempt: int = 0, sandbox_id: str = "s0") -> HookOutcome:
    """Build the outcome of a preStart hook."""
    return HookOutcome("", well, "" if well else "exit code 3", ended_at=at(0), sandbox_id=sandbox_id, attempt=attempt)


def followed(container_id: str = "web-0", *, well: bool = True) -> HookOutcome:
    """Build the outcome of a postStop hook."""
    return HookOutcome(container_id, well, ended_at=at(0))


def running(hook: Hook, *, until: float | None = None, sandbox_id: str = "s0", container_id: str = "web-0") -> RunHook:
    """Build the request of a pending hook, with or without a limit by the grace period."""
    asked_at, grace = (None, None) if until is None else (at(0), timedelta(seconds=until))
    own = "" if hook is Hook.PRE_START else container_id
    return RunHook(KEY, "web", own, hook, EXEC, asked_at=asked_at, grace=grace, sandbox_id=sandbox_id)


@pytest.mark.parametrize(
    ("facts", "busy", "begun"),
    [
        pytest.param(ContainerFacts(), (), [BEFORE], id="runs-before-the-first-start"),
        pytest.param(ContainerFacts(), (running(Hook.PRE_START),), [], id="everything-waits-for-it"),
        pytest.param(
            ContainerFacts(), (running(Hook.PRE_START, sandbox_id="s9"),), [], id="one-of-a-lost-sandbox-ends-first"
        ),
        pytest.param(ContainerFacts(pre_start=prepared()), (), ["StartContainer web 0"], id="then-it-starts"),
        pytest.param(ContainerFacts(pre_start=prepared(sandbox_id="s9")), (), [BEFORE], id="again-in-a-new-sandbox"),
        pytest.param(down(1, pre_start=prepared()), (), ["RunHook web/preStart/s0/1"], id="again-before-a-restart"),
        pytest.param(
            down(1, pre_start=prepared(attempt=1)), (), ["StartContainer web 1"], id="and-then-it-starts-again"
        ),
        pytest.param(up(), (), ["StartContainer side 0"], id="not-for-one-that-is-up"),
        pytest.param(ContainerFacts(), (starting("side"),), [], id="not-while-another-one-starts"),
    ],
)
def test_pre_start(facts: ContainerFacts, busy: tuple[Any, ...], begun: list[str]) -> None:
    """It belongs to a start: of one instance, in one sandbox."""
    here = situation(annotated(Hook.PRE_START, others=("side",)), Context(busy=busy), containers={"web": facts})
    assert describe_all(pod_actions(here).begin) == begun


def test_a_pre_start_that_fails_is_a_failed_start() -> None:
    """It is reported, backs off and is retried like a failed start; when it succeeds the container starts."""
    here = situation(annotated(Hook.PRE_START))
    (hook,) = pod_actions(here).begin
    fold(here, hook, HookEnded(succeeded=False, message="exit code 3"))
    assert describe_all(pod_actions(here).begin) == []
    wake = pod_actions(here).wake
    assert wake
    assert "PreStartHookError: try container/web again" in wake.summary
    assert waiting(here) == ("PreStartHookError", "exit code 3")
    later = replace(here, now=wake.at)
    assert describe_all(pod_actions(later).begin) == [BEFORE]
    fold(later, hook, HookEnded(succeeded=False, message="exit code 4"))
    again = pod_actions(later).wake
    assert again
    assert again.at - later.now == 2 * (wake.at - here.now)
    fold(replace(later, now=again.at), hook, HookEnded(succeeded=True))
    assert describe_all(pod_actions(replace(later, now=again.at)).begin) == ["StartContainer web 0"]


def waiting(here: Situation) -> tuple[str | None, str | None]:
    """Return the reason why the container web waits."""
    statuses = pod_status(here).container_statuses
    assert statuses
    status = statuses[0]
    assert status.state
    assert status.state.waiting
    return status.state.waiting.reason, status.state.waiting.message


def test_an_outcome_from_a_lost_sandbox_is_nobodys() -> None:
    """Its command ended with its sandbox, and the new sandbox runs the hook again."""
    here = situation(annotated(Hook.PRE_START), sandbox=sandbox(1))
    fold(here, running(Hook.PRE_START), HookEnded(succeeded=False, message="exit code 137"))
    assert here.observed.failures == {}
    assert describe_all(pod_actions(here).begin) == ["RunHook web/preStart/s1/0"]


@pytest.mark.parametrize(
    ("facts", "busy", "begun"),
    [
        pytest.param(up(), (), [], id="not-while-it-runs"),
        pytest.param(down(1), (), [AFTER], id="runs-when-it-has-ended"),
        pytest.param(down(0), (), [AFTER], id="also-after-a-success"),
        pytest.param(down(1), (running(Hook.POST_STOP),), [], id="the-restart-waits-for-it"),
        pytest.param(down(1, post_stop=followed()), (), ["StartContainer web 1"], id="then-it-starts-again"),
        pytest.param(
            down(1, post_stop=followed(well=False)), (), ["StartContainer web 1"], id="however-the-hook-ended"
        ),
        pytest.param(
            down(1, attempt=1, post_stop=followed()), (), ["RunHook web/postStop/web-1"], id="again-after-each-end"
        ),
        pytest.param(
            down(1, ended=0, backoff=timedelta(seconds=40), backoff_at=at(-50)),
            (),
            [AFTER],
            id="before-the-backoff-is-over",
        ),
        pytest.param(ContainerFacts(), (), ["StartContainer web 0"], id="not-for-one-that-never-was"),
    ],
)
def test_post_stop(facts: ContainerFacts, busy: tuple[Any, ...], begun: list[str]) -> None:
    """It follows each exit, and the next instance waits for it."""
    here = situation(annotated(Hook.POST_STOP), Context(busy=busy), containers={"web": facts})
    assert describe_all(pod_actions(here).begin) == begun


@pytest.mark.parametrize(
    ("facts", "busy", "begun"),
    [
        pytest.param(up(), (), ["StopContainer web"], id="first-the-container-stops"),
        pytest.param(down(143), (), [AFTER], id="then-the-hook-runs"),
        pytest.param(down(143), (running(Hook.POST_STOP, until=30),), [], id="the-sandbox-stays-for-it"),
        pytest.param(down(143, post_stop=followed()), (), ["StopPodSandbox"], id="then-the-sandbox-goes"),
    ],
)
def test_post_stop_of_a_pod_that_goes(facts: ContainerFacts, busy: tuple[Any, ...], begun: list[str]) -> None:
    """The pod's network exists until the hook has ended."""
    known = {"containers": {"web": facts}, "deletion": deletion(), **GOING}
    here = situation(annotated(Hook.POST_STOP), Context(busy=busy), **known)
    assert describe_all(pod_actions(here).begin) == begun


def test_all_start_again_after_every_post_stop() -> None:
    """Nothing is removed before: the hook refers to an existing instance."""
    rules = {"restartPolicyRules": [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}]}
    source = annotated(Hook.POST_STOP)
    source["spec"]["containers"][0] |= rules | {"restartPolicy": "Never"}
    here = situation(source, containers={"web": down(1)})
    assert describe_all(pod_actions(here).begin) == [AFTER]
    fold(here, pod_actions(here).begin[0], HookEnded(succeeded=True))
    assert describe_all(pod_actions(here).begin) == ["RemoveContainer web-0"]


@pytest.mark.parametrize(
    ("grace", "ended", "lasts_until"),
    [
        pytest.param(30, 4, 30, id="what-is-left-of-the-grace"),
        pytest.param(1, 1, 3, id="two-seconds-from-the-end-at-the-least"),
    ],
)
def test_a_deletion_bounds_post_stop(grace: float, ended: float, lasts_until: float) -> None:
    """From the time at which the grace period starts, like a preStop hook."""
    wanted = deletion(grace=grace)
    known = {"containers": {"web": down(143, ended=ended)}, "deletion": wanted, **GOING}
    hook = post_stop(situation(annotated(Hook.POST_STOP), **known), "web")
    assert hook.asked_at == wanted.requested_at
    assert hook.grace
    assert hook.asked_at + hook.grace == wanted.requested_at + timedelta(seconds=lasts_until)


def test_a_finished_pod_hurries_nobody() -> None:
    """Only the hook's own timeout limits it."""
    known = {"containers": {"web": down(0)}, "finished_at": at(0), **GOING}
    hook = post_stop(situation(annotated(Hook.POST_STOP), **known), "web")
    assert (hook.asked_at, hook.grace, hook.timeout) == (None, None, timedelta(seconds=30))


@pytest.mark.parametrize(
    ("busy", "now", "gives_up"),
    [
        pytest.param(running(Hook.PRE_START), 0, True, id="a-pre-start-of-a-pod-that-goes"),
        pytest.param(running(Hook.POST_STOP), 29, False, id="a-post-stop-within-the-grace"),
        pytest.param(running(Hook.POST_STOP), 30, True, id="one-that-nothing-bounded-when-the-grace-is-over"),
        pytest.param(running(Hook.POST_STOP, until=60), 30, True, id="one-that-was-given-longer"),
        pytest.param(running(Hook.POST_STOP, until=30), 31, False, id="one-that-ends-by-itself"),
        pytest.param(running(Hook.POST_STOP, container_id="web-9"), 0, False, id="one-of-the-same-name"),
    ],
)
def test_nobody_waits_any_more(busy: RunHook, now: float, gives_up: bool) -> None:
    """A hook that has timed out is recorded, so that it does not run again."""
    known = {"containers": {"web": down(143)}, "deletion": deletion(), **GOING}
    here = situation(annotated(Hook.PRE_START, Hook.POST_STOP), Context(now=at(now), busy=(busy,)), **known)
    assert bool(abandoned(here)) is gives_up
    if gives_up and busy.hook is Hook.POST_STOP:
        assert not any_pending(here)


def test_a_wake_ends_the_wait_for_one_that_began_before() -> None:
    """No other event would end it."""
    known = {"containers": {"web": down(143)}, "deletion": deletion(), **GOING}
    here = situation(annotated(Hook.POST_STOP), Context(busy=(running(Hook.POST_STOP),)), **known)
    wake = pod_actions(here).wake
    assert wake
    assert wake.at == at(30)


def test_what_an_exec_is_given() -> None:
    """The container's image, environment and resources, and the pod's fields of a start; not its ports or probes."""
    source = annotated(Hook.PRE_START)
    source["spec"]["containers"][0] |= {"env": [{"name": "A", "value": "b"}], "workingDir": "/w", "args": ["x"]}
    (hook,) = pod_actions(situation(source)).begin
    assert isinstance(hook, RunHook)
    assert hook.helper
    assert hook.helper.container == {
        "name": "web",
        "image": source["spec"]["containers"][0]["image"],
        "env": [{"name": "A", "value": "b"}],
        "workingDir": "/w",
        "command": ["true"],
    }
    assert (hook.helper.image_ref, hook.helper.sandbox_id, hook.reason) == ("sha256:1", "s0", "before its start")


def test_an_image_of_its_own_is_to_be_had_first() -> None:
    """Its reference is unknown, so the activity resolves it."""
    (hook,) = pod_actions(situation(annotated(Hook.PRE_START, said={"image": "curl:8"}))).begin
    assert isinstance(hook, RunHook)
    assert hook.helper
    assert (hook.helper.image_ref, hook.helper.container["image"]) == ("", "curl:8")


def test_limits_of_a_hook_of_kubernetes() -> None:
    """The handler is in the spec, timeout and retry policy are in the annotation; Temporal retries by that policy."""
    source = pod(containers=[container("web", lifecycle={"postStart": EXEC})])
    plain = run_hook(situation(source, DEFAULT_CONTEXT, containers={"web": up()}), "web", Hook.POST_START)
    assert (plain.timeout, plain.retry, retry_policy(plain).initial_interval) == (None, None, PATIENT.initial)
    said = {"timeoutSeconds": 5, "retry": {"maxAttempts": 3, "initialSeconds": 2, "factor": 3, "maxSeconds": 9}}
    source["metadata"]["annotations"] = {"postStart.tempolet.dev/web": json.dumps(said)}
    hook = run_hook(situation(source, DEFAULT_CONTEXT, containers={"web": up()}), "web", Hook.POST_START)
    two, nine = timedelta(seconds=2), timedelta(seconds=9)
    assert (hook.handler, hook.timeout) == (EXEC, timedelta(seconds=5))
    assert hook.retry == HookRetry(3, two, 3, nine)
    policy = retry_policy(hook)
    assert (policy.initial_interval, policy.backoff_coefficient, policy.maximum_interval) == (two, 3, nine)
    assert policy.maximum_attempts == 0, "a runtime that is away is waited for; the activity counts its failures"


def test_an_activity_that_never_answers_has_failed() -> None:
    """So a pod does not wait for ever, and a preStart hook runs again."""
    here = situation(annotated(Hook.PRE_START), Context(settings=NodeSettings()))
    fold_failure(here, running(Hook.PRE_START), "DeadlineExceeded", "no answer")
    assert waiting(here) == ("PreStartHookError", "DeadlineExceeded: no answer")
