"""What is done for a pod as a whole? The kubelet's own situations (TestComputePodActions), as far as they apply.

The kubelet returns all actions at once and runs them in order; here each plan is the next step, and "then" is the step after
that has succeeded.
"""

from datetime import timedelta
from typing import Any

import pytest

from proto.temporal.activities.requests import ReadImages, ReadPodRuntime, StartContainer
from proto.temporal.pod import ContainerState, Failure, Lifecycle
from tests.workflows.decide.situations import (
    DEFAULT_CONTEXT,
    KEY,
    Context,
    at,
    deletion,
    describe_all,
    done,
    down,
    pod,
    sandbox,
    situation,
    up,
)
from workflows.decide.steps.pod_actions import Plan, is_over, pod_actions

ABC = ("a", "b", "c")
ALL_UP = {name: up(name) for name in ABC}
DEAD = {"sandbox": sandbox(1, ready=False, stopped=True)}
PULL = "PullImage busybox:1 IfNotPresent"
FORTY: dict[str, Any] = {"backoff": timedelta(seconds=40), "backoff_at": at(-50)}


def abc(policy: str = "Always", init: tuple[str, ...] = ()) -> dict[str, Any]:
    """Build a pod with three containers."""
    return pod(*ABC, init=init, restartPolicy=policy)


@pytest.mark.parametrize(
    ("source", "known", "begun"),
    [
        pytest.param(abc(), {"containers": ALL_UP}, [], id="everything-is-good"),
        pytest.param(
            abc(),
            {"sandbox": None, "directories": False, "images": {}},
            ["ReadImages", "RunPodSandbox 0"],
            id="a-new-pod-has-everything-made-side-by-side",
        ),
        pytest.param(
            abc(),
            {"containers": {**ALL_UP, "a": down(0, "a"), "b": down(111, "b")}},
            ["StartContainer a 1"],
            id="always-restarts-what-ended",
        ),
        pytest.param(
            abc("OnFailure"),
            {"containers": {**ALL_UP, "a": down(0, "a"), "b": down(111, "b")}},
            ["StartContainer b 1"],
            id="on-failure-restarts-what-failed",
        ),
        pytest.param(
            abc("OnFailure"),
            {"containers": {**ALL_UP, "a": down(0, "a"), "b": up("b", state=ContainerState.CREATED)}},
            ["StartContainer b 0"],
            id="created-but-not-started-is-started",
        ),
        pytest.param(
            abc("Never"),
            {"containers": {**ALL_UP, "a": down(0, "a"), "b": down(111, "b")}},
            [],
            id="never-restarts-nothing",
        ),
        pytest.param(
            abc(),
            {"containers": ALL_UP, "sandbox": sandbox(ready=False)},
            ["StopContainer a", "StopContainer b", "StopContainer c"],
            id="a-dead-sandbox-first-its-containers",
        ),
        pytest.param(
            abc(),
            {"containers": {name: down(137, name) for name in ABC}, "sandbox": sandbox(ready=False)},
            ["StopPodSandbox"],
            id="then-its-network",
        ),
        pytest.param(
            abc(),
            {"containers": {name: down(137, name) for name in ABC}, **DEAD},
            ["RunPodSandbox 2"],
            id="then-the-next-attempt",
        ),
        pytest.param(
            abc("OnFailure"),
            {
                "containers": {name: down(int(name != "b"), name, sandbox_id="s0") for name in ABC},
                "sandbox": sandbox(1),
            },
            ["StartContainer a 1"],
            id="then-all-but-the-succeeded-one",
        ),
        pytest.param(
            abc("Never"),
            {"containers": {name: down(0, name) for name in ABC}, **DEAD},
            [],
            id="never-and-all-ended-no-sandbox",
        ),
        pytest.param(
            abc("OnFailure"),
            {"containers": {name: down(0, name) for name in ABC}, **DEAD},
            [],
            id="on-failure-and-all-succeeded-no-sandbox",
        ),
        pytest.param(abc("Never"), DEAD, ["RunPodSandbox 2"], id="never-but-nothing-was-ever-created"),
        pytest.param(
            abc(),
            {"containers": {**ALL_UP, "b": up("b", state=ContainerState.UNKNOWN)}},
            ["StopContainer b"],
            id="an-unknown-one-is-stopped-before-it-comes-again",
        ),
        pytest.param(
            abc(),
            {"containers": {**ALL_UP, "b": down(137, "b")}},
            ["StartContainer b 1"],
            id="then-comes-again",
        ),
        pytest.param(
            abc(),
            {"containers": {**ALL_UP, "b": up("b", state=ContainerState.CREATED)}},
            ["StartContainer b 0"],
            id="created-and-always-is-started",
        ),
        pytest.param(
            abc("Never"),
            {"containers": {**ALL_UP, "b": up("b", state=ContainerState.CREATED)}},
            ["StartContainer b 0"],
            id="created-and-never-too-for-it-has-not-run",
        ),
    ],
)
def test_regular_containers(source: dict[str, Any], known: dict[str, Any], begun: list[str]) -> None:
    """The kubelet's TestComputePodActions."""
    assert describe_all(pod_actions(situation(source, **known)).begin) == begun


INIT = ("i", "j", "k")
DONE = {name: done(name) for name in INIT}


@pytest.mark.parametrize(
    ("policy", "known", "begun"),
    [
        pytest.param("Always", {"containers": DONE}, ["StartContainer a 0"], id="initialized"),
        pytest.param("Always", {}, ["StartContainer i 0"], id="none-has-started"),
        pytest.param("Always", {"containers": {**DONE, "k": up("k")}}, [], id="in-progress"),
        pytest.param(
            "Always",
            {"containers": {**DONE, "k": up("k")}, "sandbox": sandbox(ready=False)},
            ["StopContainer k"],
            id="a-dead-sandbox",
        ),
        pytest.param(
            "Always",
            {"containers": DONE, "sandbox": sandbox(1)},
            ["StartContainer i 1"],
            id="begins-anew-in-a-new-sandbox",
        ),
        pytest.param(
            "Always", {"containers": {**DONE, "k": down(1, "k")}}, ["StartContainer k 1"], id="always-and-failed"
        ),
        pytest.param(
            "OnFailure", {"containers": {**DONE, "k": down(1, "k")}}, ["StartContainer k 1"], id="on-failure-and-failed"
        ),
        pytest.param("Never", {"containers": {**DONE, "k": down(1, "k")}}, [], id="never-and-failed"),
        pytest.param(
            "Always",
            {"containers": {**DONE, "k": up("k", state=ContainerState.UNKNOWN)}},
            ["StopContainer k"],
            id="unknown",
        ),
        pytest.param(
            "OnFailure",
            {"containers": {**DONE, "k": up("k", state=ContainerState.UNKNOWN)}},
            ["StopContainer k"],
            id="on-failure-and-unknown",
        ),
        pytest.param(
            "Never",
            {"containers": {**DONE, "k": up("k", state=ContainerState.UNKNOWN)}},
            ["StopContainer k"],
            id="never-and-unknown",
        ),
        pytest.param(
            "Never", {"containers": {**DONE, "k": down(137, "k")}}, [], id="then-it-has-failed-and-nothing-follows"
        ),
        pytest.param(
            "OnFailure",
            {"containers": {**DONE, "k": down(1, "k")}, **DEAD},
            ["RunPodSandbox 2"],
            id="on-failure-a-dead-sandbox-and-failed",
        ),
        pytest.param(
            "Never", {"containers": {"i": down(2, "i")}, **DEAD}, [], id="never-a-dead-sandbox-and-failed-no-new-one"
        ),
        pytest.param("Never", DEAD, ["RunPodSandbox 2"], id="never-a-dead-sandbox-and-nothing-visible"),
        pytest.param(
            "Always",
            {"containers": {**DONE, "k": up("k", state=ContainerState.CREATED)}},
            ["StartContainer k 0"],
            id="created",
        ),
    ],
)
def test_init_containers(policy: str, known: dict[str, Any], begun: list[str]) -> None:
    """The kubelet's TestComputePodActionsWithInitContainers."""
    assert describe_all(pod_actions(situation(abc(policy, INIT), **known)).begin) == begun


@pytest.mark.parametrize(
    ("context", "known", "expected"),
    [
        pytest.param(
            DEFAULT_CONTEXT, {"containers": {"web": up()}, "runtime_stale": True}, ["ReadPodRuntime"], id="first-of-all"
        ),
        pytest.param(DEFAULT_CONTEXT, {"runtime_stale": True}, ["ReadPodRuntime"], id="before-anything-else-begins"),
        pytest.param(
            DEFAULT_CONTEXT, {"runtime_stale": True, "deletion": deletion()}, ["ReadPodRuntime"], id="also-when-it-goes"
        ),
        pytest.param(Context(busy=(ReadPodRuntime(KEY),)), {"directories": False}, [], id="nothing-begins-meanwhile"),
        pytest.param(
            Context(busy=(StartContainer(KEY, "s0", 0, "", {"name": "web"}, {}),)),
            {"runtime_stale": True},
            [],
            id="not-while-something-that-it-could-miss-is-under-way",
        ),
        pytest.param(
            Context(busy=(ReadImages(KEY, ("busybox:9",)),)),
            {"runtime_stale": True},
            [],
            id="nor-is-anything-begun-beside-it",
        ),
        pytest.param(
            DEFAULT_CONTEXT,
            {"runtime_stale": True, "failures": {"runtime": Failure("Unavailable", "no", at(-4))}},
            ["wake 6"],
            id="ten-seconds-after-it-failed",
        ),
    ],
)
def test_a_re_read(context: Context, known: dict[str, Any], expected: list[str]) -> None:
    """Whenever the state is in doubt."""
    plan = pod_actions(situation(context=context, **known))
    assert describe_all([*plan.begin, *([plan.wake] if plan.wake else [])]) == expected


def test_the_earliest_wake_counts() -> None:
    """The earlier of two."""
    twenty = {**FORTY, "backoff": timedelta(seconds=20)}
    containers = {"a": down(1, "a", **FORTY), "b": down(1, "b", **twenty), "c": up("c")}
    plan = pod_actions(situation(abc(), containers=containers))
    assert plan.wake
    assert (plan.begin, plan.wake.at) == ((), at(20))
    assert plan.wake.summary == "CrashLoopBackOff: restart 1 of b at 12:00:20"


def test_a_healthy_pod_costs_nothing() -> None:
    """No action and no timer."""
    assert pod_actions(situation(containers={"web": up()})) == Plan()


def test_a_finished_pod_rests() -> None:
    """Until its source deletes it."""
    gone: dict[str, Any] = {
        "lifecycle": Lifecycle.TERMINATED,
        "sandbox": sandbox(ready=False, stopped=True),
    }
    here = situation(pod(restartPolicy="Never"), containers={"web": down(0)}, **gone)
    assert pod_actions(here) == Plan()
    assert not is_over(here)


@pytest.mark.parametrize(
    ("known", "over"),
    [
        pytest.param({"lifecycle": Lifecycle.TERMINATED, "cleaned": True}, True, id="nothing-is-left"),
        pytest.param({"lifecycle": Lifecycle.TERMINATED}, False, id="something-is-left"),
        pytest.param({"lifecycle": Lifecycle.TERMINATING, "cleaned": True}, False, id="something-may-still-run"),
    ],
)
def test_is_over(known: dict[str, Any], over: bool) -> None:
    """When a workflow may end."""
    assert is_over(situation(deletion=deletion(), **known)) is over
