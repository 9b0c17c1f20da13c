"""How are all containers of a pod restarted when one of them exits as a rule says?"""

from datetime import timedelta
from typing import Any

import pytest

from proto.temporal.activities.requests import RemoveContainer, StopContainer
from proto.temporal.pod import ContainerFacts, Exit
from tests.workflows.decide.situations import (
    Context,
    at,
    container,
    deletion,
    describe_all,
    done,
    down,
    pod,
    read,
    seen,
    situation,
    starting,
    up,
)
from workflows.decide.lifecycle import lifecycle
from workflows.decide.record.fold import fold
from workflows.decide.situation import Situation
from workflows.decide.status.status import pod_status
from workflows.decide.steps.containers import start_containers

RULE = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [88]}}
OWN: dict[str, Any] = {"restartPolicy": "Never", "restartPolicyRules": [RULE]}
LOOPING: dict[str, Any] = {"backoff": timedelta(seconds=40), "backoff_at": at(-50)}
POD = pod(
    restartPolicy="Never",
    initContainers=[container("i"), container("s", restartPolicy="Always")],
    containers=[container("a", **OWN), container("b")],
)
ALL = {"i": done("i"), "s": up("s"), "a": down(88, "a"), "b": up("b")}
STOPPED: dict[str, Any] = {"stop_reason": "RestartingAllContainers: a ended with 88"}
DOWN = {**ALL, "s": down(143, "s", **STOPPED), "b": down(137, "b", **STOPPED)}


@pytest.mark.parametrize(
    ("context", "known", "decision"),
    [
        pytest.param(Context(), {"containers": ALL}, ["StopContainer b"], id="what-lives-is-stopped"),
        pytest.param(
            Context(), {"containers": {**ALL, "b": DOWN["b"]}}, ["StopContainer s"], id="sidecars-after-what-they-serve"
        ),
        pytest.param(
            Context(busy=(starting("b", 1),)),
            {"containers": {**DOWN, "b": down(1, "b")}},
            [],
            id="and-what-is-starting",
        ),
        pytest.param(
            Context(),
            {"containers": DOWN, "dead_containers": {"a": ("a-x",)}},
            ["RemoveContainer a-x"],
            id="then-earlier-instances-go",
        ),
        pytest.param(
            Context(),
            {"containers": DOWN},
            ["RemoveContainer i-0", "RemoveContainer s-0", "RemoveContainer b-0"],
            id="then-the-newest-of-the-others",
        ),
        pytest.param(
            Context(), {"containers": {"a": DOWN["a"]}}, ["RemoveContainer a-0"], id="the-one-that-asked-last"
        ),
        pytest.param(
            Context(), {"containers": {**ALL, "a": down(88, "a", **LOOPING)}}, ["wake 40"], id="a-crash-loop-waits"
        ),
        pytest.param(Context(), {"containers": {**ALL, "a": down(1, "a")}}, [], id="another-code-asks-for-nothing"),
        pytest.param(
            Context(),
            {"containers": {**ALL, "a": down(88, "a", sandbox_id="old"), "b": down(1, "b")}},
            ["StartContainer a 1"],
            id="an-end-in-an-earlier-sandbox-only-restarts",
        ),
    ],
)
def test_restart_all(context: Context, known: dict[str, Any], decision: list[str]) -> None:
    """Step by step."""
    assert describe_all(list(start_containers(situation(POD, context, **known)))) == decision


def test_no_pre_stop_hook_runs() -> None:
    """It has no grace period of its own, so the kubelet skips the hook; two seconds are left for SIGTERM."""
    hook = {"preStop": {"exec": {"command": ["true"]}}}
    source = pod(containers=[container("a", **OWN), container("b", lifecycle=hook)])
    (stop,) = start_containers(situation(source, containers={"a": down(88, "a"), "b": up("b")}))
    assert isinstance(stop, StopContainer)
    assert (stop.name, stop.grace) == ("b", timedelta(seconds=2))


def remove_all(here: Situation) -> None:
    """Carry out removals until there are none."""
    while asked := [one for one in start_containers(here) if isinstance(one, RemoveContainer)]:
        for action in asked:
            fold(here, action, None)


def test_everything_begins_anew_one_attempt_further() -> None:
    """First the init container; each container's exit becomes its last state."""
    here = situation(POD, containers=dict(DOWN))
    remove_all(here)
    assert describe_all(list(start_containers(here))) == ["StartContainer i 1"]
    ends = {
        name: (facts.last_exit.exit_code, facts.last_exit.reason)
        for name, facts in here.observed.containers.items()
        if facts.last_exit
    }
    assert ends == {
        "i": (0, "Completed"),
        "s": (143, "RestartingAllContainers"),
        "a": (88, "Error"),
        "b": (137, "RestartingAllContainers"),
    }
    assert {facts.attempt for facts in here.observed.containers.values()} == {1}
    assert here.observed.containers["a"].backoff == timedelta(seconds=10)


def test_an_init_container_that_the_runtime_forgot_runs_again_too() -> None:
    """Its completion in the sandbox no longer counts."""
    known = {"i": ContainerFacts(done_in_sandbox="s0"), "a": down(88, "a"), "b": down(0, "b")}
    here = situation(POD, containers=known)
    remove_all(here)
    assert describe_all(list(start_containers(here))) == ["StartContainer i 0"]


def test_a_look_at_the_runtime_in_between_changes_nothing() -> None:
    """The runtime still has the container that triggered it, so the restart continues."""
    here = situation(POD, containers=dict(DOWN))
    for action in [one for one in start_containers(here) if isinstance(one, RemoveContainer)]:
        fold(here, action, None)
    read(here, seen("a", code=88))
    assert describe_all(list(start_containers(here))) == ["RemoveContainer a-0"]


@pytest.mark.parametrize(
    "containers",
    [
        pytest.param(ALL, id="before"),
        pytest.param(DOWN, id="while-all-are-down"),
        pytest.param({**DOWN, "b": down(0, "b")}, id="one-had-succeeded"),
        pytest.param({**DOWN, "i": down(137, "i", **STOPPED)}, id="an-init-container-was-stopped-for-it"),
    ],
)
def test_the_pod_goes_on(containers: dict[str, Any]) -> None:
    """It is neither Succeeded nor Failed, and a condition shows the restart."""
    here = situation(POD, containers=dict(containers), condition_times={"Initialized": ("True", at(-50))})
    status = pod_status(here)
    shown = {one.type: (one.status, one.reason) for one in status.conditions or []}
    assert (lifecycle.next_event(here), status.phase) == (None, "Running")
    assert shown["AllContainersRestarting"] == ("True", "RestartAllContainersStarted")
    remove_all(here)
    status = pod_status(here)
    shown = {one.type: (one.status, one.reason) for one in status.conditions or []}
    if containers is not ALL:
        assert (lifecycle.next_event(here), status.phase) == (None, "Running")
        assert shown["AllContainersRestarting"] == ("False", None)
        assert shown["Initialized"] == ("True", None)


def removed(name: str) -> ContainerFacts:
    """Build the facts of a container that was removed for the restart."""
    return ContainerFacts(attempt=1, last_exit=Exit(f"{name}-0", 137, "RestartingAllContainers"))


ASKS = {"in": pod(initContainers=[container("x", **OWN)], restartPolicy="Never")}
ASKS["side"] = pod(
    initContainers=[container("x", restartPolicy="Always", restartPolicyRules=[RULE])], restartPolicy="Never"
)
ASKS["side-then-init"] = pod(
    initContainers=[*ASKS["side"]["spec"]["initContainers"], container("i")], restartPolicy="Never"
)
ASKS["web"] = pod(containers=[container("web", **OWN)], restartPolicy="Never")
ASKS["init-then-web"] = pod(
    initContainers=[container("i")], containers=[container("web", **OWN)], restartPolicy="Never"
)


@pytest.mark.parametrize(
    ("who", "containers", "expected"),
    [
        pytest.param("web", {"web": down(88)}, "Running", id="a-regular-one-asks"),
        pytest.param("in", {"x": down(88, "x")}, "Pending", id="an-init-container-asks"),
        pytest.param("side", {"x": down(88, "x")}, "Pending", id="a-sidecar-asks"),
        pytest.param("side-then-init", {"x": down(88, "x")}, "Pending", id="a-sidecar-asks-before-the-next-one"),
        pytest.param("web", {"web": removed("web")}, "Running", id="a-regular-one-asked-and-all-is-removed"),
        pytest.param("in", {"x": removed("x")}, "Pending", id="an-init-container-asked-and-all-is-removed"),
        pytest.param("side", {"x": removed("x")}, "Pending", id="a-sidecar-asked-and-all-is-removed"),
        pytest.param(
            "side-then-init", {"x": removed("x"), "i": removed("i")}, "Pending", id="so-is-the-next-init-container"
        ),
        pytest.param(
            "init-then-web", {"i": done("i"), "web": removed("web")}, "Running", id="the-init-container-has-run-again"
        ),
        pytest.param(
            "init-then-web", {"i": down(1, "i"), "web": removed("web")}, "Failed", id="the-init-container-failed-now"
        ),
        pytest.param("in", {"x": done("x")}, "Pending", id="an-init-container-that-asked-has-succeeded-now"),
        pytest.param(
            "side",
            {"x": removed("x"), "web": removed("web")},
            "Running",
            id="a-sidecar-asked-and-a-regular-one-went-too",
        ),
        pytest.param("side", {"x": up("x", 1), "web": removed("web")}, "Running", id="the-sidecar-runs-again"),
        pytest.param(
            "side-then-init", {"x": up("x", 1), "i": removed("i")}, "Pending", id="before-the-next-init-container"
        ),
    ],
)
def test_phases(who: str, containers: dict[str, ContainerFacts], expected: str) -> None:
    """The kubelet's TestPodPhaseWithRestartAllContainers."""
    assert pod_status(situation(ASKS[who], containers=containers)).phase == expected


def test_what_was_removed_waits_with_a_reason() -> None:
    """Until the last one is removed."""
    gone = {**DOWN, "b": up("b")}
    gone["b"].container_id, gone["b"].state, gone["b"].last_exit = "", None, Exit("b-0", 137, "RestartingAllContainers")
    shown = pod_status(situation(POD, containers=gone)).container_statuses or []
    (waits,) = [one.state.waiting.reason for one in shown if one.name == "b" and one.state and one.state.waiting]
    assert waits == "RestartingAllContainers"


def test_a_deleted_pod_starts_nothing_again() -> None:
    """Its exits are final."""
    here = situation(POD, containers=DOWN, deletion=deletion())
    assert (lifecycle.next_event(here), pod_status(here).phase) == (lifecycle.Event.DELETION_REQUESTED, "Failed")


def test_a_pod_without_such_a_rule_has_no_such_condition() -> None:
    """As with the kubelet."""
    assert "AllContainersRestarting" not in {one.type for one in pod_status(situation()).conditions or []}
