"""How does an ephemeral container end, what waits for it, and what does it affect?"""

from typing import Any

import pytest

from proto.temporal.activities.requests import StopContainer
from proto.temporal.pod import (
    Failure,
    Lifecycle,
)
from tests.workflows.decide.situations import (
    DEFAULT_CONTEXT,
    Context,
    at,
    deletion,
    describe_all,
    down,
    pod,
    read,
    sandbox,
    seen,
    situation,
    starting,
    stopping,
    up,
)
from tests.workflows.decide.steps.test_ephemeral import LOST, SIDE, UP, looked_into, state
from workflows.decide.lifecycle import lifecycle
from workflows.decide.record.fold import fold_failure
from workflows.decide.status.status import pod_status, pod_summary
from workflows.decide.steps.containers import start_containers
from workflows.decide.steps.pod_actions import pod_actions
from workflows.decide.steps.sandbox import run_sandbox
from workflows.decide.steps.termination import stop_containers


def test_a_pod_that_is_done_waits_for_no_one_who_looks() -> None:
    """The pod finishes, and the ephemeral container is stopped."""
    source = looked_into(pod(restartPolicy="Never"))
    here = situation(source, containers={"web": down(0), "debug": up("debug")})
    assert lifecycle.next_event(here) is lifecycle.Event.POD_FINISHED
    lifecycle.happened(here, lifecycle.Event.POD_FINISHED)
    assert describe_all(pod_actions(here).begin) == ["StopContainer debug"]
    half_made = situation(source, containers={"web": down(0)}, failures={"container/debug": Failure("R", "m", at(-1))})
    lifecycle.happened(half_made, lifecycle.Event.POD_FINISHED)
    assert half_made.observed.runtime_stale, "one whose start failed may live nevertheless"


def test_it_is_stopped_at_once_and_nobody_waits_for_it() -> None:
    """With the regular containers; sidecars do not wait for it."""
    going: dict[str, Any] = {"lifecycle": Lifecycle.TERMINATING, "deletion": deletion()}
    containers = {"side": up("side"), "web": up(), "debug": up("debug")}
    here = situation(looked_into(pod(init=[SIDE])), containers=containers, **going)
    assert describe_all(list(stop_containers(here)))[:2] == ["StopContainer web", "StopContainer debug"]
    alone = situation(looked_into(pod(init=[SIDE])), containers={"side": up("side"), "debug": up("debug")}, **going)
    assert describe_all(list(stop_containers(alone))) == ["StopContainer side", "StopContainer debug"]
    (stop,) = [one for one in stop_containers(here) if isinstance(one, StopContainer) and one.name == "debug"]
    assert (stop.grace, stop.reason) == (deletion().grace, "ManifestRemoved: web.yaml is gone")


def test_a_lost_sandbox_takes_it_along() -> None:
    """It is stopped with the other containers, and not started in the new one."""
    lost = situation(looked_into(pod()), containers={**UP, "debug": up("debug")}, sandbox=LOST)
    assert describe_all(list(run_sandbox(lost))) == ["StopContainer web", "StopContainer debug"]
    anew = situation(
        looked_into(pod()), containers={"web": up(sandbox_id="s1"), "debug": down(137, "debug")}, sandbox=sandbox(1)
    )
    assert describe_all(list(start_containers(anew))) == []


def test_it_runs_on_while_all_start_again() -> None:
    """A container whose exit restarts all containers restarts no ephemeral one."""
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [7]}}
    source = looked_into(pod("a", "b"))
    source["spec"]["containers"][0] |= {"restartPolicy": "Never", "restartPolicyRules": [rule]}
    here = situation(source, containers={"a": down(7, "a"), "b": up("b"), "debug": up("debug")})
    assert describe_all(list(start_containers(here))) == ["StopContainer b"]
    stopped = situation(source, containers={"a": down(7, "a"), "b": down(137, "b"), "debug": down(1, "debug")})
    assert describe_all(list(start_containers(stopped))) == ["RemoveContainer b-0"]
    last = situation(source, containers={"a": down(7, "a"), "debug": down(1, "debug")})
    last.observed.dead_containers["debug"] = ("debug-x",)
    assert describe_all(list(start_containers(last))) == ["RemoveContainer a-0"]


def test_one_whose_start_was_not_answered_is_found() -> None:
    """A re-read finds it, and it is not started again."""
    here = situation(looked_into(pod()), containers=UP)
    fold_failure(here, starting("debug"), "DeadlineExceeded", "no answer")
    read(here, seen(), seen("debug", code=2))
    assert describe_all(list(start_containers(here))) == []
    assert state(here) == "2 Error"
    gone = situation(looked_into(pod()), containers={**UP, "debug": up("debug")})
    read(gone, seen())
    assert state(gone) == "137 ContainerStatusUnknown"
    assert describe_all(list(start_containers(gone))) == []


@pytest.mark.parametrize(
    ("containers", "policy", "phase", "ready"),
    [
        pytest.param({**UP}, "Always", "Running", True, id="it-has-not-started"),
        pytest.param({**UP, "debug": down(1, "debug")}, "Never", "Running", True, id="it-has-failed"),
        pytest.param({"debug": up("debug")}, "Always", "Pending", False, id="it-runs-and-the-pod-does-not"),
        pytest.param(
            {"web": down(0), "debug": up("debug")}, "Never", "Running", False, id="the-pod-is-done-and-it-runs"
        ),
        pytest.param({"web": down(0), "debug": down(1, "debug")}, "Never", "Succeeded", False, id="both-have-ended"),
    ],
)
def test_it_counts_for_nothing(containers: dict[str, Any], policy: str, phase: str, ready: bool) -> None:
    """Neither in the phase (except that it is not final meanwhile), nor in readiness, restarts and reason."""
    here = situation(looked_into(pod(restartPolicy=policy)), containers=containers)
    status = pod_status(here)
    line = pod_summary(here, status)
    assert (status.phase, line.ready, line.restarts) == (phase, ready, 0)
    assert "debug" not in line.message


def test_a_failed_initialization_is_final_at_once() -> None:
    """Regardless of ephemeral containers, and of what is stopped afterwards."""
    source = looked_into(pod(init=["i"], restartPolicy="Never"))
    containers = {"i": down(1, "i"), "debug": up("debug")}
    for context in (DEFAULT_CONTEXT, Context(busy=(stopping("debug"),))):
        assert pod_status(situation(source, context, containers=containers)).phase == "Failed"
