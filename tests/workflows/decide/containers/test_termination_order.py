"""In which order do a pod's containers stop, and how much of the grace period does each get?

The rows of pkg/kubelet/kuberuntime/kuberuntime_termination_order_test.go, and ours.
"""

from datetime import timedelta
from typing import Any

import pytest

from proto.temporal.activities.requests import RemovePodSandbox, StopContainer
from proto.temporal.pod import Failure, Lifecycle
from tests.workflows.decide.situations import (
    DEFAULT_CONTEXT,
    KEY,
    Context,
    at,
    deletion,
    describe_all,
    down,
    pod,
    sandbox,
    situation,
    starting,
    up,
)
from workflows.decide.steps.pod_actions import pod_actions
from workflows.decide.steps.sandbox import run_sandbox
from workflows.decide.steps.termination import stop_containers
from workflows.decide.versions import LOOKS_FOR_STARTS

INIT = ["i", "+r", "+s"]
SIDECARS = {"r": up("r"), "s": up("s")}
ALL = {**SIDECARS, "a": up("a"), "b": up("b")}
GOING: dict[str, Any] = {"lifecycle": Lifecycle.TERMINATING, "deletion": deletion(grace=20, asked=-5)}
WAKE = "wake 15"
STOPPING = StopContainer(KEY, "a", "a-0", timedelta(seconds=20), at(-5), "ManifestRemoved")


@pytest.mark.parametrize(
    ("context", "containers", "decision"),
    [
        pytest.param(DEFAULT_CONTEXT, ALL, ["StopContainer a", "StopContainer b", WAKE], id="the-regular-ones-first"),
        pytest.param(
            Context(busy=(STOPPING,)), {**ALL, "b": down(143, "b")}, [WAKE], id="sidecars-wait-for-the-last-of-them"
        ),
        pytest.param(
            DEFAULT_CONTEXT,
            {**ALL, "a": down(143, "a"), "b": down(143, "b")},
            ["StopContainer s", WAKE],
            id="then-the-last-sidecar",
        ),
        pytest.param(
            DEFAULT_CONTEXT,
            {**ALL, "a": down(143, "a"), "b": down(143, "b"), "s": down(143, "s")},
            ["StopContainer r"],
            id="then-the-one-before-it",
        ),
        pytest.param(
            DEFAULT_CONTEXT,
            {"r": up("r"), "a": up("a")},
            ["StopContainer a", WAKE],
            id="one-that-never-ran-holds-nobody",
        ),
        pytest.param(
            DEFAULT_CONTEXT,
            {"i": up("i"), **SIDECARS},
            ["StopContainer i", "StopContainer s", WAKE],
            id="an-init-container-that-ends-by-itself-holds-nobody-either",
        ),
        pytest.param(
            Context(busy=(starting("a"),)),
            SIDECARS,
            [WAKE],
            id="one-that-is-being-started-is-waited-for-like-one-that-lives",
        ),
        pytest.param(
            Context(now=at(15)),
            ALL,
            ["StopContainer r", "StopContainer s", "StopContainer a", "StopContainer b"],
            id="once-the-grace-is-over-nobody-waits",
        ),
    ],
)
def test_order(context: Context, containers: dict[str, Any], decision: list[str]) -> None:
    """Which containers stop now, and when the plan is due again at the latest."""
    here = situation(pod("a", "b", init=INIT), context, containers=containers, **GOING)
    assert describe_all(list(stop_containers(here))) == decision


def test_a_stop_that_failed_holds_the_order() -> None:
    """Until it may be retried, or the grace period is over."""
    failures = {"container/a": Failure("KillContainerError", "no", at(-3))}
    here = situation(pod("a", init=["+s"]), containers={"s": up("s"), "a": up("a")}, failures=failures, **GOING)
    assert describe_all(list(stop_containers(here))) == ["wake 7", WAKE]


@pytest.mark.parametrize(
    ("behaviour", "now", "decision"),
    [
        pytest.param(LOOKS_FOR_STARTS, 0, [WAKE], id="until-the-runtime-was-re-read"),
        pytest.param(LOOKS_FOR_STARTS, 15, ["StopContainer s"], id="or-the-grace-is-over"),
        pytest.param(LOOKS_FOR_STARTS - 1, 0, ["StopContainer s"], id="in-earlier-behaviours-not-at-all"),
    ],
)
def test_sidecars_wait_for_what_a_failed_start_may_have_created(
    behaviour: int, now: float, decision: list[str]
) -> None:
    """Its answer was lost, and the removal of an old sandbox holds the re-read that would find it."""
    removing = Context(now=at(now), behaviour=behaviour, busy=(RemovePodSandbox(KEY, "old"),))
    known = {"containers": {"s": up("s")}, "runtime_stale": True, "starts_in_doubt": True, **GOING}
    here = situation(pod("a", init=["+s"]), removing, **known)
    assert describe_all(pod_actions(here).begin + pod_actions(here).waits) == decision


@pytest.mark.parametrize(
    ("known", "asked_at", "grace"),
    [
        pytest.param({"deletion": deletion(grace=20, asked=-5)}, -5, 20, id="deleted"),
        pytest.param({"finished_at": at(-5)}, -5, 30, id="finished"),
        pytest.param({"finished_at": at(-5), "deletion": deletion(grace=2)}, 0, 2, id="the-deletion-ends-sooner"),
        pytest.param({"finished_at": at(-29), "deletion": deletion(grace=20)}, -29, 30, id="the-finish-ends-sooner"),
    ],
)
def test_all_share_one_grace(known: dict[str, Any], asked_at: float, grace: float) -> None:
    """The last container gets what is left of it."""
    source = pod("a", init=["+s"], restartPolicy="Never")
    here = situation(source, containers={"s": up("s"), "a": down(0, "a")}, lifecycle=Lifecycle.TERMINATING, **known)
    (stop,) = stop_containers(here)
    assert isinstance(stop, StopContainer)
    assert (stop.name, stop.asked_at, stop.grace.total_seconds()) == ("s", at(asked_at), grace)


@pytest.mark.parametrize(
    ("grace", "now", "least"),
    [
        pytest.param(20, 0, 1, id="in-time-its-share-is-what-is-left"),
        pytest.param(20, 14, 2, id="late-it-still-has-two-seconds"),
        pytest.param(20, 30, 2, id="also-when-the-grace-is-over"),
        pytest.param(1, 30, 1, id="but-never-more-than-the-whole-grace"),
    ],
)
def test_who_comes_late_has_a_moment(grace: float, now: float, least: float) -> None:
    """A sidecar at the end of the order is not killed at once (kuberuntime_container.go killContainer)."""
    going = {**GOING, "deletion": deletion(grace=grace, asked=-5)}
    here = situation(pod(init=["+s"]), Context(now=at(now)), containers={"s": up("s"), "web": down(143)}, **going)
    (stop,) = stop_containers(here)
    assert isinstance(stop, StopContainer)
    assert stop.at_least.total_seconds() == least


def test_a_lost_sandbox_is_left_in_the_same_order() -> None:
    """Its running containers are stopped before a new one is created."""
    here = situation(pod("a", "b", init=INIT), containers=ALL, sandbox=sandbox(ready=False))
    assert describe_all(list(run_sandbox(here))) == ["StopContainer a", "StopContainer b", "wake 30"]
