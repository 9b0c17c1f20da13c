"""When is a pod's sandbox created, when replaced, and what is stopped before?"""

from typing import Any

import pytest

from proto.temporal.activities.requests import RunPodSandbox, StopContainer, StopPodSandbox
from proto.temporal.pod import ContainerState, Failure
from tests.workflows.decide.situations import KEY, Context, at, describe_all, down, pod, sandbox, situation, up
from workflows.decide.containers.termination_order import live_containers
from workflows.decide.steps.sandbox import make_directories, run_sandbox
from workflows.decide.steps.sandbox import may_have_sandbox as may_have

LOST: dict[str, Any] = {"sandbox": sandbox(ready=False)}
STOPPED: dict[str, Any] = {"sandbox": sandbox(ready=False, stopped=True)}


@pytest.mark.parametrize(
    ("source", "known", "decision"),
    [
        pytest.param(pod(), {"sandbox": None}, ["RunPodSandbox 0"], id="a-new-pod-gets-one"),
        pytest.param(pod(), {}, [], id="a-ready-one-is-enough"),
        pytest.param(pod(), LOST, ["StopPodSandbox"], id="the-network-of-a-lost-one-is-given-back-first"),
        pytest.param(pod(), STOPPED, ["RunPodSandbox 1"], id="then-the-next-attempt"),
        pytest.param(
            pod("a", "b"),
            {**LOST, "containers": {"a": up("a"), "b": up("b")}},
            ["StopContainer a", "StopContainer b"],
            id="what-still-runs-in-a-lost-one-is-stopped-before-anything-else",
        ),
        pytest.param(
            pod("a", "b"),
            {"containers": {"a": up("a", sandbox_id="old"), "b": up("b")}},
            ["StopContainer a"],
            id="so-is-what-runs-in-another-one-than-the-pod-s",
        ),
        pytest.param(
            pod(restartPolicy="Never"), {**STOPPED, "containers": {"web": down(0)}}, [], id="never-and-ended-gets-none"
        ),
        pytest.param(
            pod("a", "b", restartPolicy="Never"),
            {**STOPPED, "containers": {"a": down(0, "a")}},
            [],
            id="never-and-one-ever-ran-gets-none",
        ),
        pytest.param(
            pod(restartPolicy="Never"), STOPPED, ["RunPodSandbox 1"], id="never-but-nothing-ever-ran-gets-one"
        ),
        pytest.param(
            pod("a", "b", restartPolicy="Never"),
            {**LOST, "containers": {"a": up("a"), "b": down(0, "b")}},
            ["StopContainer a"],
            id="what-runs-in-a-lost-one-is-stopped-even-when-no-new-one-follows",
        ),
        pytest.param(
            pod(restartPolicy="OnFailure"),
            {**STOPPED, "containers": {"web": down(0)}},
            [],
            id="on-failure-and-all-succeeded-gets-none",
        ),
        pytest.param(
            pod("a", "b", restartPolicy="OnFailure"),
            {**STOPPED, "containers": {"a": down(0, "a"), "b": down(1, "b")}},
            ["RunPodSandbox 1"],
            id="on-failure-and-one-failed-gets-one",
        ),
        pytest.param(
            pod(init=["i"], restartPolicy="Never"),
            {**STOPPED, "containers": {"i": down(1, "i")}},
            [],
            id="never-and-a-failed-init-container-gets-none",
        ),
        pytest.param(
            pod(),
            {"sandbox": None, "waiting_for": "uid-0 is there"},
            ["AwaitPredecessor"],
            id="its-predecessor-goes-first",
        ),
        pytest.param(
            pod(),
            {"sandbox": None, "failures": {"sandbox": Failure("FailedCreatePodSandBox", "no", at(-4))}},
            ["wake 6"],
            id="a-failure-waits-ten-seconds",
        ),
        pytest.param(
            pod(),
            {"sandbox": None, "failures": {"sandbox": Failure("NetworkNotReady", "no", at(-0.25))}},
            ["wake 0.75"],
            id="one-for-lack-of-a-network-a-second",
        ),
    ],
)
def test_run_sandbox(source: dict[str, Any], known: dict[str, Any], decision: list[str]) -> None:
    """The action for the sandbox."""
    assert describe_all(list(run_sandbox(situation(source, **known)))) == decision


def test_a_lost_sandbox_s_containers_have_the_pod_s_own_grace() -> None:
    """No shorter one was requested."""
    (stop,) = run_sandbox(situation(pod(terminationGracePeriodSeconds=7), containers={"web": up()}, **LOST))
    assert isinstance(stop, StopContainer)
    assert (stop.grace.total_seconds(), stop.asked_at, stop.reason) == (7, at(0), "its sandbox is gone")


def test_a_finished_pod_may_have_no_sandbox_and_a_pod_that_goes_on_may() -> None:
    """Whether a new attempt is needed."""
    assert may_have(situation(containers={"web": down(0)}))
    assert not may_have(situation(pod(restartPolicy="OnFailure"), containers={"web": down(0)}))


@pytest.mark.parametrize(
    ("known", "decision"),
    [
        pytest.param({"directories": False}, ["MakePodDirectories"], id="once"),
        pytest.param({}, [], id="and-not-again"),
        pytest.param(
            {"directories": False, "failures": {"directories": Failure("OSError", "full", at(-9))}},
            ["wake 1"],
            id="again-ten-seconds-after-a-failure",
        ),
        pytest.param(
            {"directories": False, "failures": {"directories": Failure("OSError", "full", at(-9), tries=2)}},
            ["wake 11"],
            id="twice-as-long-after-a-second-one",
        ),
        pytest.param(
            {"directories": False, "failures": {"directories": Failure("OSError", "full", at(-9), tries=99)}},
            ["wake 51"],
            id="a-minute-at-most-however-often",
        ),
    ],
)
def test_make_directories(known: dict[str, Any], decision: list[str]) -> None:
    """As an action of its own."""
    assert describe_all(list(make_directories(situation(context=Context(behaviour=1), **known)))) == decision
    assert describe_all(list(make_directories(situation(**known)))) == decision, "for a sandbox that was found"


def test_directories_come_with_the_sandbox() -> None:
    """One activity less for each start; behaviour 1 has a separate one."""
    new: dict[str, Any] = {"sandbox": None, "directories": False}
    assert not list(make_directories(situation(**new)))
    (run,) = run_sandbox(situation(pod("web", init=["a"]), **new))
    assert isinstance(run, RunPodSandbox)
    assert run.containers == ("a", "web")
    (before,) = run_sandbox(situation(context=Context(behaviour=1), **new))
    assert isinstance(before, RunPodSandbox)
    assert before.containers == ()


def test_live_containers_in_the_spec_s_order() -> None:
    """The runtime's containers that have not exited, init containers first."""
    containers = {
        "b": up("b", state=ContainerState.CREATED),
        "i": up("i", state=ContainerState.UNKNOWN),
        "a": down(0, "a"),
    }
    assert live_containers(situation(pod("a", "b", init=["i"]), containers=containers)) == ["i", "b"]


def test_nothing_twice() -> None:
    """Pending actions are not started again."""
    context = Context(busy=(StopPodSandbox(KEY, "s0"),))
    assert not list(run_sandbox(situation(context=context, **LOST)))
