"""Which conditions does a pod show, why, and since when?"""

from typing import Any

import pytest

from proto.temporal.pod_inputs import GivenCondition
from tests.workflows.decide.situations import Context, at, done, down, pod, sandbox, situation, up
from workflows.decide.status.conditions import settle
from workflows.decide.status.status import pod_status

NETWORK, INITIALIZED, READY, CONTAINERS_READY = "PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"
UNREADY = "containers with unready status: [web]"


def shown(source: dict[str, Any], **known: Any) -> dict[str, tuple[str, str | None, str | None]]:
    """Return each condition's status, reason and message."""
    status = pod_status(situation(source, **known))
    return {one.type: (one.status, one.reason, one.message) for one in status.conditions or []}


TRUE = ("True", None, None)


def test_every_condition_in_the_kubelet_s_order() -> None:
    """All conditions of a healthy pod are true."""
    conditions = shown(pod(), containers={"web": up()})
    assert list(conditions) == [NETWORK, INITIALIZED, READY, CONTAINERS_READY, "PodScheduled"]
    assert set(conditions.values()) == {TRUE}


@pytest.mark.parametrize(
    ("source", "known", "holds"),
    [
        pytest.param(pod(), {}, "True", id="a-ready-sandbox-with-an-address"),
        pytest.param(pod(), {"sandbox": None}, "False", id="none"),
        pytest.param(pod(), {"sandbox": sandbox(ready=False)}, "False", id="a-lost-one"),
    ],
)
def test_network(source: dict[str, Any], known: dict[str, Any], holds: str) -> None:
    """Can containers start?"""
    assert shown(source, **known)[NETWORK] == (holds, None, None)


@pytest.mark.parametrize(
    ("source", "known", "expected"),
    [
        pytest.param(pod(), {}, TRUE, id="without-init-containers"),
        pytest.param(
            pod(init=["i", "j"]),
            {"containers": {"i": up("i")}},
            ("False", "ContainersNotInitialized", "containers with incomplete status: [i j]"),
            id="the-first-still-runs",
        ),
        pytest.param(
            pod(init=["i", "j"]),
            {"containers": {"i": done("i")}},
            ("False", "ContainersNotInitialized", "containers with incomplete status: [j]"),
            id="one-of-two-is-through",
        ),
        pytest.param(pod(init=["i"]), {"containers": {"i": done("i")}}, TRUE, id="all-are-through"),
        pytest.param(
            pod(init=["i"]),
            {"containers": {"i": up("i", 1), "web": down(1)}},
            TRUE,
            id="stays-true-once-one-has-started",
        ),
        pytest.param(
            pod(init=["i"], restartPolicy="Never"),
            {"containers": {"i": done("i"), "web": down(0)}},
            ("True", "PodCompleted", None),
            id="a-succeeded-pod",
        ),
        pytest.param(
            pod(init=["+s", "i"]),
            {"containers": {"s": up("s"), "i": up("i")}},
            ("False", "ContainersNotInitialized", "containers with incomplete status: [i]"),
            id="a-started-sidecar-is-initialized",
        ),
        pytest.param(
            pod(init=["+s"]),
            {"containers": {"s": down(1, "s")}},
            ("False", "ContainersNotInitialized", "containers with incomplete status: [s]"),
            id="one-that-has-ended-is-not",
        ),
        pytest.param(
            pod(init=["+s"]), {"containers": {"s": down(0, "s"), "web": up()}}, TRUE, id="but-for-one-that-restarts"
        ),
    ],
)
def test_initialized(source: dict[str, Any], known: dict[str, Any], expected: tuple[Any, ...]) -> None:
    """Have the init containers succeeded?"""
    assert shown(source, **known)[INITIALIZED] == expected


@pytest.mark.parametrize(
    ("source", "known", "expected"),
    [
        pytest.param(pod(), {"containers": {"web": up()}}, TRUE, id="running"),
        pytest.param(pod(), {}, ("False", "ContainersNotReady", UNREADY), id="not-started"),
        pytest.param(pod(), {"containers": {"web": down(1)}}, ("False", "ContainersNotReady", UNREADY), id="crashed"),
        pytest.param(
            pod(restartPolicy="Never"),
            {"containers": {"web": down(0)}},
            ("False", "PodCompleted", None),
            id="succeeded",
        ),
        pytest.param(pod(init=["+s"]), {"containers": {"s": up("s"), "web": up()}}, TRUE, id="with-a-sidecar"),
        pytest.param(
            pod(init=["i", "+s"]),
            {"containers": {"i": done("i"), "s": down(1, "s"), "web": up()}},
            ("False", "ContainersNotReady", "containers with unready status: [s]"),
            id="a-sidecar-crashed",
        ),
        pytest.param(
            pod(init=["+s"]),
            {},
            ("False", "ContainersNotReady", "containers with unready status: [s web]"),
            id="sidecars-are-named-first",
        ),
        pytest.param(
            pod(restartPolicy="Never"), {"containers": {"web": down(1)}}, ("False", "PodFailed", None), id="failed"
        ),
    ],
)
def test_ready(source: dict[str, Any], known: dict[str, Any], expected: tuple[Any, ...]) -> None:
    """Without gates, Ready equals ContainersReady."""
    conditions = shown(source, **known)
    assert (conditions[READY], conditions[CONTAINERS_READY]) == (expected, expected)


def gated(*gates: str) -> dict[str, Any]:
    """Build a pod with readiness gates."""
    return pod(readinessGates=[{"conditionType": gate} for gate in gates])


def said(**statuses: str) -> dict[str, Any]:
    """Build facts with web running and these conditions set by others."""
    given = {name: GivenCondition(status, at(0)) for name, status in statuses.items()}
    return {"containers": {"web": up()}, "given_conditions": given}


def not_there(gate: str) -> str:
    """Build the message that a gate's condition is missing."""
    return f'corresponding condition of pod readiness gate "{gate}" does not exist.'


def not_true(gate: str, status: str) -> str:
    """Build the message that a gate's condition is not True."""
    return f'the status of pod readiness gate "{gate}" is not "True", but {status}'


@pytest.mark.parametrize(
    ("source", "known", "message"),
    [
        pytest.param(gated("gate1"), said(), not_there("gate1"), id="no-condition-of-that-type"),
        pytest.param(gated("gate1"), said(gate1="False"), not_true("gate1", "False"), id="a-gate-that-is-shut"),
        pytest.param(gated("gate1"), said(gate1="Unknown"), not_true("gate1", "Unknown"), id="nobody-knows"),
        pytest.param(gated("gate1"), said(gate1="True"), None, id="open"),
        pytest.param(gated("gate1", "gate2"), said(gate1="True"), not_there("gate2"), id="one-of-two"),
        pytest.param(
            gated("gate1", "gate2"),
            said(gate1="True", gate2="False"),
            not_true("gate2", "False"),
            id="the-other-is-shut",
        ),
        pytest.param(gated("gate1", "gate2"), said(gate1="True", gate2="True"), None, id="both"),
        pytest.param(
            gated("gate1", "gate2"),
            said(gate2="False"),
            f"{not_there('gate1')}, {not_true('gate2', 'False')}",
            id="both-are-told",
        ),
        pytest.param(gated(INITIALIZED, NETWORK), said(), None, id="what-the-node-itself-has-judged-before"),
        pytest.param(gated(READY), said(), not_there(READY), id="ready-waits-for-itself-for-ever"),
        pytest.param(gated("PodScheduled"), said(), not_there("PodScheduled"), id="what-is-judged-later-is-not-there"),
        pytest.param(pod(), said(gate1="False"), None, id="a-condition-that-is-no-gate"),
    ],
)
def test_ready_waits_for_every_gate(source: dict[str, Any], known: dict[str, Any], message: str | None) -> None:
    """Containers are ready, and Ready says which gates are not True (status/generate_test.go TestGeneratePodReadyCondition)."""
    conditions = shown(source, **known)
    assert conditions[CONTAINERS_READY] == TRUE
    assert conditions[READY] == (("False", "ReadinessGatesNotReady", message) if message else TRUE)


def test_containers_come_before_gates() -> None:
    """While a container is not ready, Ready has the same reason."""
    conditions = shown(gated("gate1"), **(said(gate1="True") | {"containers": {}}))
    assert conditions[READY] == conditions[CONTAINERS_READY] == ("False", "ContainersNotReady", UNREADY)


def test_what_others_say_is_shown_as_they_said_it() -> None:
    """Before the node's own conditions, with its time, and only once."""
    given = {"example.com/lb": GivenCondition("False", at(-9), "Draining", "by hand")}
    here = situation(pod(), containers={"web": up()}, given_conditions=given)
    first, *own = pod_status(here).conditions or []
    told = (
        first.type,
        first.status,
        first.reason,
        first.message,
        first.last_transition_time,
        first.observed_generation,
    )
    assert told == ("example.com/lb", "False", "Draining", "by hand", at(-9), None)
    settle(here.observed, [first, *own])
    assert "example.com/lb" not in here.observed.condition_times
    assert READY in here.observed.condition_times


def test_times() -> None:
    """A condition keeps its time while its status stays the same; a change sets the current time."""
    first = situation(containers={"web": up()})
    settle(first.observed, pod_status(first).conditions or [])
    later = situation(
        context=Context(now=at(60)), containers={"web": down(1)}, condition_times=first.observed.condition_times
    )
    times = {one.type: one.last_transition_time for one in pod_status(later).conditions or []}
    assert (times[INITIALIZED], times[READY]) == (at(0), at(60))
