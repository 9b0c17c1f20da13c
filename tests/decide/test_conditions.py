"""Which conditions does a pod show, why, and since when?"""

from typing import Any

import pytest

from tests.decide.situations import Around, at, done, down, pod, sandbox, situation, up
from workflows.decide.conditions import settle
from workflows.decide.status import pod_status

NETWORK, INITIALIZED, READY, CONTAINERS_READY = "PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"
UNREADY = "containers with unready status: [web]"


def shown(source: dict[str, Any], **known: Any) -> dict[str, tuple[str, str | None, str | None]]:
    """Say each condition's status, reason and message."""
    status = pod_status(situation(source, **known))
    return {one.type: (one.status, one.reason, one.message) for one in status.conditions or []}


TRUE = ("True", None, None)


def test_every_condition_in_the_kubelet_s_order() -> None:
    """A healthy pod's are all true."""
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
    """Are the init containers through?"""
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
    """Ready says what ContainersReady says, as long as there are no gates."""
    conditions = shown(source, **known)
    assert (conditions[READY], conditions[CONTAINERS_READY]) == (expected, expected)


def test_times() -> None:
    """A condition keeps its time while its status stays, and takes the present one when it changes."""
    first = situation(containers={"web": up()})
    settle(first.observed, pod_status(first).conditions or [])
    later = situation(
        around=Around(now=at(60)), containers={"web": down(1)}, condition_times=first.observed.condition_times
    )
    times = {one.type: one.last_transition_time for one in pod_status(later).conditions or []}
    assert (times[INITIALIZED], times[READY]) == (at(0), at(60))
