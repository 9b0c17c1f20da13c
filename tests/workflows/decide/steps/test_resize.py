"""Is a resize applied to running containers, step by step?"""

from dataclasses import replace
from typing import Any

import pytest

from proto.temporal.activities.requests import RemovePodSandbox, RunHook, StartContainer, StopContainer
from proto.temporal.activities.resize import UpdateContainerResources
from proto.temporal.hooks import HookEnded
from proto.temporal.pod import ContainerState, Failure, PodJson
from proto.temporal.resources import ResizeVerdict, RuntimeResources
from proto.temporal.signals import PodListed
from tests.workflows.decide.resources.resizes import (
    LARGE,
    NODE,
    SMALL,
    after,
    amounts,
    carried_out,
    of,
    policy,
    resized,
    resources,
    web,
)
from tests.workflows.decide.situations import (
    KEY,
    Context,
    at,
    container,
    deletion,
    describe_all,
    down,
    read,
    sandbox,
    seen,
    up,
)
from workflows.decide.actions import key
from workflows.decide.containers.standing import Standing, standing
from workflows.decide.explain.explain import explanation
from workflows.decide.record.fold import fold, fold_failure
from workflows.decide.record.signals import apply_signal
from workflows.decide.record.updates import changes
from workflows.decide.resources.allocation import allocate
from workflows.decide.situation import Situation
from workflows.decide.steps.pod_actions import pod_actions
from workflows.decide.steps.resize import update_cgroup
from workflows.decide.versions import LOOKS_FOR_STARTS, RESIZES_WHAT_RUNS

BEFORE = RESIZES_WHAT_RUNS - 1

CPU_ONLY, MEMORY_ONLY = amounts("200m", "100Mi"), amounts("100m", "200Mi")


@pytest.mark.parametrize(
    ("old", "new", "fields", "expected"),
    [
        pytest.param(
            SMALL,
            LARGE,
            {},
            ["UpdatePodSandboxResources up", "UpdateContainerResources web"],
            id="the-pod-is-raised-before-a-container-gets-more",
        ),
        pytest.param(
            LARGE,
            SMALL,
            {},
            ["UpdateContainerResources web", "UpdatePodSandboxResources"],
            id="and-lowered-after-a-container-got-less",
        ),
        pytest.param(
            SMALL, CPU_ONLY, {}, ["UpdatePodSandboxResources up", "UpdateContainerResources web"], id="update-cpu"
        ),
        pytest.param(
            SMALL, MEMORY_ONLY, {}, ["UpdatePodSandboxResources up", "UpdateContainerResources web"], id="update-memory"
        ),
        pytest.param(
            amounts("200m", "100Mi"),
            amounts("100m", "200Mi"),
            {},
            ["UpdatePodSandboxResources up", "UpdateContainerResources web", "UpdatePodSandboxResources"],
            id="one-up-one-down-moves-the-pod-twice",
        ),
        pytest.param(SMALL, amounts("0.1", "102400Ki"), {}, [], id="nothing-when-it-is-the-same-amount"),
        pytest.param({}, {}, {}, [], id="nothing-of-a-best-effort-pod"),
        pytest.param(
            SMALL,
            LARGE,
            {"resizePolicy": policy("R", "N")},
            ["UpdatePodSandboxResources up", "StopContainer web"],
            id="restart-policy-for-cpu",
        ),
        pytest.param(
            SMALL,
            LARGE,
            {"resizePolicy": policy("N", "R")},
            ["UpdatePodSandboxResources up", "StopContainer web"],
            id="restart-policy-for-memory",
        ),
        pytest.param(
            SMALL,
            MEMORY_ONLY,
            {"resizePolicy": policy("R", "N")},
            ["UpdatePodSandboxResources up", "UpdateContainerResources web"],
            id="update-memory-with-restart-policy-for-cpu",
        ),
        pytest.param(
            SMALL,
            CPU_ONLY,
            {"resizePolicy": policy("N", "R")},
            ["UpdatePodSandboxResources up", "UpdateContainerResources web"],
            id="update-cpu-with-restart-policy-for-memory",
        ),
        pytest.param(
            resources(memory_request="100Mi"),
            resources(memory_request="200Mi"),
            {"resizePolicy": policy("N", "R")},
            ["StopContainer web"],
            id="memory-requests-only-with-restart-policy",
        ),
        pytest.param(
            resources(memory_request="100Mi"),
            resources(memory_request="200Mi"),
            {"resizePolicy": policy("N", "N")},
            ["UpdateContainerResources web"],
            id="memory-requests-only",
        ),
    ],
)
def test_one_container(old: PodJson, new: PodJson, fields: dict[str, Any], expected: list[str]) -> None:
    """The kubelet's TestComputePodActionsForPodResize and TestDoPodResizeAction; pod-level resources are below."""
    here = resized(of(web(old, **fields)), of(web(new, **fields)))
    assert carried_out(here) == expected
    assert here.observed.resize is None or expected[-1].startswith("StopContainer")


UP, ALL = "UpdatePodSandboxResources up", "UpdateContainerResources web"


@pytest.mark.parametrize(
    ("before", "after", "own", "expected"),
    [
        pytest.param(SMALL, LARGE, SMALL, [UP], id="the-pod-alone"),
        pytest.param(LARGE, SMALL, SMALL, ["UpdatePodSandboxResources"], id="the-pod-alone-gets-less"),
        pytest.param(SMALL, LARGE, {}, [UP, ALL], id="a-container-has-the-pods-limits"),
        pytest.param(LARGE, SMALL, {}, [ALL, "UpdatePodSandboxResources"], id="and-gets-less-before-the-pod-does"),
        pytest.param(
            SMALL, CPU_ONLY, resources(cpu_limit="100m"), [UP], id="a-limit-of-its-own-stays-while-the-pods-cpu-changes"
        ),
        pytest.param(SMALL, MEMORY_ONLY, resources(cpu_limit="100m"), [UP, ALL], id="it-has-the-pods-memory"),
        pytest.param(SMALL, amounts("0.1", "102400Ki"), {}, [], id="nothing-when-it-is-the-same-amount"),
    ],
)
def test_resources_of_the_pod(before: PodJson, after: PodJson, own: PodJson, expected: list[str]) -> None:
    """The pod's cgroup, and the containers without a limit of their own; none restarts."""
    here = resized(of(web(own), resources=before), of(web(own), resources=after), decided=True)
    assert carried_out(here) == expected
    assert here.observed.resize is None


def test_resources_of_the_pod_replaced_it_in_listings_of_earlier_releases() -> None:
    """Their histories say so."""
    old, new = of(web({}), resources=SMALL), of(web({}), resources=LARGE)
    assert [one.in_place for one in changes(old, new)] == [False]
    assert [(one.words, one.in_place) for one in changes(old, new, pod_level=True)] == [
        ("resources from cpu 100m, memory 100Mi to cpu 200m, memory 200Mi", True)
    ]


def test_who_gets_less_goes_first() -> None:
    """So that its resources are free for the other (markContainerForUpdate)."""
    old = of(web(SMALL, "more"), web(LARGE, "less"), web(SMALL, "same"))
    new = of(web(LARGE, "more"), web(SMALL, "less"), web(SMALL, "same"))
    assert carried_out(resized(old, new)) == ["UpdateContainerResources less", "UpdateContainerResources more"]


def test_one_after_the_other() -> None:
    """No step of a resize starts while another one is in progress."""
    old, new = of(web(SMALL, "a"), web(SMALL, "b")), of(web(LARGE, "a"), web(LARGE, "b"))
    here = resized(old, new)
    steps = 0
    while begin := pod_actions(here).begin:
        (step,) = begin
        assert not pod_actions(replace(here, busy={key(step): step})).begin
        fold(here, step, RuntimeResources(2) if isinstance(step, UpdateContainerResources) else None)
        steps += 1
    assert steps == 3


def test_a_restart_for_a_resize_ignores_the_restart_policy() -> None:
    """The kubelet restarts it at once, whatever its exit code."""
    fields: dict[str, Any] = {"resizePolicy": policy("R", "R"), "restartPolicy": "Never"}
    here = resized(of(web(SMALL, **fields)), of(web(LARGE, **fields)))
    fold(here, pod_actions(here).begin[0], None)
    (stop,) = pod_actions(here).begin
    assert isinstance(stop, StopContainer)
    assert stop.reason == "Container web resize requires restart"
    fold(here, stop, seen(code=0))
    assert here.observed.resize is None
    assert standing(here, here.containers[0]) is Standing.WANTED
    (start,) = pod_actions(here).begin
    assert isinstance(start, StartContainer)
    assert (start.attempt, start.container["resources"]) == (1, LARGE)


def test_what_does_not_run_takes_it_when_it_starts() -> None:
    """Only the pod's cgroup is resized, and it grows before anything starts."""
    here = resized(of(web(SMALL)), of(web(LARGE)), containers={"web": down(1)})
    assert describe_all(pod_actions(here).begin) == ["UpdatePodSandboxResources"]
    fold(here, pod_actions(here).begin[0], None)
    assert here.observed.resize is None
    assert describe_all(pod_actions(here).begin) == ["StartContainer web 1"]


@pytest.mark.parametrize(
    ("behaviour", "expected"),
    [
        pytest.param(BEFORE, ["UpdatePodSandboxResources"], id="lowered-at-once-by-earlier-behaviours"),
        pytest.param(RESIZES_WHAT_RUNS, [], id="lowered-after-the-start"),
    ],
)
def test_a_start_under_way_with_more(behaviour: int, expected: list[str]) -> None:
    """Its container may not have more than the pod: cgroup v1 refuses such a cpu limit, and the start would fail."""
    start = StartContainer(KEY, "s0", 0, "sha256:1", web(LARGE), {})
    starting = Context(behaviour=behaviour, busy=(start,))
    here = resized(of(web(LARGE)), of(web(SMALL)), starting, containers={})
    assert describe_all(pod_actions(here).begin) == expected
    idle = replace(here, busy={})
    fold(idle, start, seen())
    assert carried_out(idle) == ["UpdateContainerResources web", "UpdatePodSandboxResources"]


@pytest.mark.parametrize(
    "starting",
    [
        pytest.param(web(SMALL), id="with-what-the-spec-says"),
        pytest.param(container("debug"), id="of-an-ephemeral-container"),
    ],
)
def test_a_start_under_way_with_no_more(starting: PodJson) -> None:
    """The pod's cgroup need not wait for it."""
    busy = Context(busy=(StartContainer(KEY, "s0", 0, "sha256:1", starting, {}),))
    here = resized(of(web(LARGE)), of(web(SMALL)), busy, containers={})
    assert describe_all(pod_actions(here).begin) == ["UpdatePodSandboxResources"]


@pytest.mark.parametrize(
    ("behaviour", "left"),
    [
        pytest.param(LOOKS_FOR_STARTS, [], id="the-pod-is-lowered"),
        pytest.param(LOOKS_FOR_STARTS - 1, ["web"], id="earlier-behaviours-wait-for-the-next-start"),
    ],
)
def test_a_failed_start_that_created_nothing(behaviour: int, left: list[str]) -> None:
    """A re-read says so, so that the resize does not wait for the next start."""
    start = StartContainer(KEY, "s0", 0, "sha256:1", web(LARGE), {})
    here = resized(of(web(LARGE)), of(web(SMALL)), Context(behaviour=behaviour, busy=(start,)), containers={})
    idle = replace(here, busy={}, source=of(web(SMALL)))
    fold_failure(idle, start, "RunContainerError", "no answer")
    assert idle.observed.runtime_stale == (behaviour >= LOOKS_FOR_STARTS)
    read(idle)
    assert idle.observed.resize is not None, "the pod's cgroup is still to be lowered"
    assert list(idle.observed.resize.containers) == left
    assert ("UpdatePodSandboxResources" in describe_all(pod_actions(idle).begin)) == (not left)


def test_what_does_not_live_is_not_stopped_for_a_resize() -> None:
    """Not even while a start is in doubt, and something holds the re-read: its next start has what the spec says."""
    old, new = (of(web(one, resizePolicy=policy("R", "R"))) for one in (LARGE, SMALL))
    held = Context(busy=(RemovePodSandbox(KEY, "old"),))
    for containers in ({}, {"web": down(1)}):
        here = resized(old, new, held, containers=containers, runtime_stale=True, starts_in_doubt=True)
        assert "StopContainer web" not in describe_all(pod_actions(here).begin)


def test_without_a_sandbox_there_is_nothing_to_do() -> None:
    """The next sandbox and its containers are created with the spec's resources."""
    here = resized(of(web(SMALL)), of(web(LARGE)), containers={}, sandbox=None)
    assert here.observed.resize is None
    assert describe_all(pod_actions(here).begin) == ["RunPodSandbox 0"]


def test_a_resize_after_a_failed_try_to_make_the_sandbox() -> None:
    """It may have made one, which a re-read finds with what the pod's cgroup had before."""
    failed = {"sandbox": Failure("FailedCreatePodSandBox", "no answer", at(-1))}
    here = resized(of(web(LARGE)), of(web(SMALL)), containers={}, sandbox=None, failures=failed)
    assert describe_all(pod_actions(here).begin) == []
    here.observed.sandbox = sandbox()
    assert describe_all(pod_actions(here).begin)[:1] == ["UpdatePodSandboxResources"]
    early = Context(behaviour=BEFORE)
    forgotten = resized(of(web(LARGE)), of(web(SMALL)), early, containers={}, sandbox=None, failures=failed)
    assert forgotten.observed.resize is None


def test_a_second_resize_before_the_first_is_done() -> None:
    """The container's actual resources count, not those of the first resize."""
    here = resized(of(web(SMALL)), of(web(LARGE)))
    fold(here, pod_actions(here).begin[0], None)
    back = after(here, allocate(here, of(web(SMALL))))
    assert carried_out(back) == ["UpdatePodSandboxResources"]
    assert back.observed.resize is None


def test_a_container_that_ends_meanwhile_is_forgotten() -> None:
    """It restarts with the spec's resources."""
    here = resized(of(web(LARGE)), of(web(SMALL)))
    (update,) = pod_actions(here).begin
    here.observed.containers["web"] = down(1)
    fold(here, update, RuntimeResources(gone=True))
    assert here.observed.runtime_stale, "the runtime no longer held it"
    assert here.observed.resize is not None
    assert not here.observed.resize.containers


def test_a_failed_step_is_tried_again_and_holds_the_others() -> None:
    """Like any step; a condition shows the error."""
    here = resized(of(web(LARGE)), of(web(SMALL)))
    (update,) = pod_actions(here).begin
    fold_failure(here, update, "ResizePodInPlaceError", "below current usage")
    assert describe_all(pod_actions(here).begin) == []
    assert describe_all([wake for wake in [pod_actions(here).wake] if wake]) == ["wake 10"]
    later = replace(here, now=at(10))
    assert describe_all(pod_actions(later).begin) == ["UpdateContainerResources web"]


def test_a_pod_that_goes_is_not_resized() -> None:
    """It is only stopped."""
    here = resized(of(web(SMALL)), of(web(LARGE)), deletion=deletion(), lifecycle="terminating")
    assert describe_all(pod_actions(here).begin) == ["StopContainer web"]


@pytest.mark.parametrize("state", [ContainerState.UNKNOWN, ContainerState.CREATED])
def test_only_what_runs_is_updated(state: ContainerState) -> None:
    """A container in an unknown state is stopped or started, as always."""
    here = resized(of(web(LARGE)), of(web(SMALL)), containers={"web": up(state=state)})
    assert not [one for one in describe_all(pod_actions(here).begin) if one.startswith("Update")]


def test_what_is_due_can_be_explained() -> None:
    """The wait for the pod's cgroup, and a resize that is not granted."""
    waits = resized(of(web(SMALL)), of(web(LARGE)), containers={"web": down(1)})
    (step,) = pod_actions(waits).begin
    busy = replace(waits, busy={key(step): step})
    assert "web waits for the pod's cgroup, which must be raised first" in sentences(busy)
    much = resized(of(web(SMALL)), of(web(amounts("5", "100Mi"))), Context(settings=NODE))
    why = "Node didn't have enough capacity: cpu, requested: 5000, capacity: 4000"
    assert f"the resize that its source asks for is Infeasible: {why}" in sentences(much)
    steps = "if all goes as planned: UpdatePodSandboxResources, then UpdateContainerResources"
    assert steps in sentences(resized(of(web(SMALL)), of(web(LARGE))))


def sentences(here: Situation) -> list[str]:
    """Return the sentences of an explanation."""
    return [one.text for one in explanation(here, lambda action: type(action).__name__).sentences]


def test_an_ephemeral_container_that_starts_meanwhile() -> None:
    """It has no resources, so a resize does not concern it."""
    ephemeral = [container("debug")]
    here = resized(of(web(SMALL), ephemeralContainers=ephemeral), of(web(LARGE), ephemeralContainers=ephemeral))
    asked = StartContainer(KEY, "s0", 0, "sha256:1", container("debug"), {})
    fold(here, asked, seen("debug"))
    assert here.observed.resize is not None
    assert list(here.observed.resize.containers) == ["web"]


def test_a_resize_that_is_taken_back_while_a_container_is_updated() -> None:
    """The update's effect is known when it returns; then the container gets its old resources again."""
    here = resized(of(web(LARGE)), of(web(SMALL)))
    (update,) = pod_actions(here).begin
    busy = replace(here, busy={key(update): update})
    back = after(busy, allocate(busy, of(web(LARGE))))
    assert not pod_actions(back).begin
    idle = replace(back, busy={})
    fold(idle, update, RuntimeResources(2))
    assert carried_out(idle) == ["UpdateContainerResources web"]
    assert idle.observed.resize is None


def test_a_resize_that_is_taken_back_while_the_pod_is_lowered() -> None:
    """No container gets more before the pod has it again."""
    here = resized(of(web(LARGE)), of(web(SMALL)))
    fold(here, pod_actions(here).begin[0], RuntimeResources(2))
    (lower,) = pod_actions(here).begin
    busy = replace(here, busy={key(lower): lower})
    back = after(busy, allocate(busy, of(web(LARGE))))
    assert not pod_actions(back).begin
    idle = replace(back, busy={})
    fold(idle, lower, None)
    assert carried_out(idle) == ["UpdatePodSandboxResources up", "UpdateContainerResources web"]


@pytest.mark.parametrize("done", [False, True])
def test_a_step_that_failed_may_be_done(done: bool) -> None:
    """The resources of pod and container are then uncertain, also if the resize is taken back."""
    here = resized(of(web(LARGE)), of(web(SMALL)))
    (update,) = pod_actions(here).begin
    if done:
        fold(here, update, RuntimeResources(2))
        (update,) = pod_actions(here).begin
    fold_failure(here, update, "DeadlineExceeded", "no answer")
    back = after(here, allocate(here, of(web(LARGE))))
    expected = ["UpdatePodSandboxResources up", "UpdateContainerResources web"]
    assert carried_out(back) == (expected if done else ["UpdateContainerResources web"])
    assert back.observed.resize is None


@pytest.mark.parametrize("ended", [False, True], ids=["the-hook-runs", "the-hook-has-run"])
@pytest.mark.parametrize("decided", [True, False], ids=["as-the-node-decides", "as-releases-before-did"])
def test_a_resize_that_is_taken_back_during_a_hook(*, ended: bool, decided: bool) -> None:
    """The container has been told to end, so it is stopped, and starts again; whatever its restartPolicy."""
    hook = {"preStop": {"sleep": {"seconds": 1}}}
    fields: dict[str, Any] = {"resizePolicy": policy("N", "R"), "lifecycle": hook}
    old, new = (of(web(one, **fields), restartPolicy="Never") for one in (SMALL, MEMORY_ONLY))
    here = resized(old, new)
    fold(here, update_cgroup(here, growing=True), None)
    (running,) = pod_actions(here).begin
    assert isinstance(running, RunHook)
    if ended:
        fold(here, running, HookEnded(succeeded=True))
    else:
        here = replace(here, busy={key(running): running})
    verdict = ResizeVerdict() if decided else None
    taken = apply_signal(here, PodListed("file", pod=old, in_place=True, resize=verdict))
    assert taken is not None
    back = replace(after(here, taken), busy={})
    if not ended:
        fold(back, running, HookEnded(succeeded=True))
    stops = [one for one in pod_actions(back).begin if isinstance(one, StopContainer)]
    assert [one.name for one in stops] == (["web"] if decided else [])
    if decided:
        fold(back, stops[0], seen(code=0, finished_at=here.now))
        assert standing(back, back.containers[0]) is Standing.WANTED
