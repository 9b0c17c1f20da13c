"""Which phase is a pod in, by what its containers do? The rows of the kubelet's own getPhase tests, and ours for deletion."""

from datetime import timedelta
from typing import Any

import pytest

from proto.temporal.pod import ContainerFacts, ContainerState, Eviction, Exit, Lifecycle
from proto.temporal.requests import StartContainer
from tests.decide.situations import HERE, KEY, Around, at, deletion, done, down, pod, situation, stopping, up
from workflows.decide.phase import Phase
from workflows.decide.status import pod_status

LOOPING: dict[str, Any] = {"backoff": timedelta(seconds=40), "backoff_at": at(-50)}
A, B = up("a"), up("b")
UNSEEN = up("a", 1, state=ContainerState.UNKNOWN, last_exit=Exit("a-0", 0, "Completed"))
STOPPING_A = Around(busy=(stopping("a"),))
RESTART = StartContainer(KEY, "s0", 1, "", {"name": "a"}, {})
Facts = dict[str, ContainerFacts]


def phase(source: dict[str, Any], containers: Facts, **known: Any) -> str | None:
    """Say the phase that the status shows."""
    return pod_status(situation(source, containers=containers, **known)).phase


@pytest.mark.parametrize(
    ("containers", "always", "on_failure", "never"),
    [
        pytest.param({}, "Pending", "Pending", "Pending", id="waiting"),
        pytest.param({"a": A, "b": B}, "Running", "Running", "Running", id="all-running"),
        pytest.param({"a": down(0, "a"), "b": down(0, "b")}, "Running", "Succeeded", "Succeeded", id="all-succeeded"),
        pytest.param({"a": down(1, "a"), "b": down(1, "b")}, "Running", "Running", "Failed", id="all-failed"),
        pytest.param({"a": down(0, "a"), "b": down(1, "b")}, "Running", "Running", "Failed", id="one-failed"),
        pytest.param({"a": A, "b": down(0, "b")}, "Running", "Running", "Running", id="one-runs-one-succeeded"),
        pytest.param({"a": A, "b": down(1, "b")}, "Running", "Running", "Running", id="one-runs-one-failed"),
        pytest.param({"a": A}, "Pending", "Pending", "Pending", id="one-runs-one-is-not-there"),
        pytest.param(
            {"a": A, "b": down(1, "b", **LOOPING)}, "Running", "Running", "Running", id="one-runs-one-backs-off"
        ),
    ],
)
def test_regular_containers(containers: Facts, always: str, on_failure: str, never: str) -> None:
    """Two containers under each policy."""
    got = [phase(pod("a", "b", restartPolicy=policy), containers) for policy in ("Always", "OnFailure", "Never")]
    assert got == [always, on_failure, never]


@pytest.mark.parametrize(
    ("containers", "always", "never"),
    [
        pytest.param({}, "Pending", "Pending", id="empty"),
        pytest.param({"x": up("x")}, "Pending", "Pending", id="init-container-running"),
        pytest.param({"x": down(1, "x")}, "Pending", "Failed", id="init-container-failed"),
        pytest.param({"x": down(1, "x", **LOOPING)}, "Pending", "Failed", id="init-container-backs-off"),
        pytest.param({"x": done("x")}, "Pending", "Pending", id="initialized-and-nothing-runs-yet"),
        pytest.param({"x": done("x"), "a": A, "b": B}, "Running", "Running", id="init-container-succeeded"),
        pytest.param(
            {"x": ContainerFacts(done_in_sandbox="s0"), "a": A, "b": B},
            "Running",
            "Running",
            id="init-container-pruned-and-forgotten",
        ),
        pytest.param(
            {"x": up("x", attempt=1), "a": down(1, "a"), "b": down(1, "b")},
            "Pending",
            "Pending",
            id="initialized-anew-in-a-new-sandbox",
        ),
    ],
)
def test_init_containers(containers: Facts, always: str, never: str) -> None:
    """One init container before two."""
    got = [phase(pod("a", "b", init=["x"], restartPolicy=policy), containers) for policy in ("Always", "Never")]
    assert got == [always, never]


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        pytest.param({"a": down(0, "a"), "b": down(0, "b")}, "Succeeded", id="all-succeeded"),
        pytest.param({"a": down(0, "a"), "b": down(143, "b")}, "Failed", id="one-was-killed"),
        pytest.param({"a": A, "b": down(0, "b")}, "Running", id="one-still-runs"),
    ],
)
def test_a_deleted_pod_starts_nothing_again(containers: Facts, expected: str) -> None:
    """So its ends are final, whatever its policy."""
    assert phase(pod("a", "b"), containers, deletion=deletion()) == expected


EVICTED: dict[str, Any] = {
    "eviction": Eviction(at(-5), "DeadlineExceeded", "too long"),
    "lifecycle": Lifecycle.TERMINATING,
}


@pytest.mark.parametrize(
    ("around", "containers", "known", "expected"),
    [
        pytest.param(HERE, {"a": up("a")}, {}, "Running", id="it-still-runs"),
        pytest.param(HERE, {"a": down(0, "a")}, {}, "Failed", id="whatever-it-ended-with"),
        pytest.param(STOPPING_A, {"a": down(0, "a")}, {}, "Running", id="its-end-is-not-the-last-word"),
        pytest.param(HERE, {}, {"starts_in_doubt": True, "sandbox": None}, "Pending", id="it-may-have-started-unseen"),
        pytest.param(HERE, {}, {"sandbox": None}, "Failed", id="it-never-ran"),
        pytest.param(HERE, {"a": down(0, "a")}, {"deletion": deletion()}, "Failed", id="deleted-after-that"),
    ],
)
def test_an_evicted_pod_has_failed(around: Around, containers: Facts, known: dict[str, Any], expected: str) -> None:
    """When nothing of it runs any more, and not before; then it says why."""
    status = pod_status(situation(pod("a", restartPolicy="Never"), around, containers=containers, **EVICTED, **known))
    said = ("DeadlineExceeded", "too long") if expected == "Failed" else (None, None)
    assert (status.phase, status.reason, status.message) == (expected, *said)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        pytest.param(up("i"), "Pending", id="it-runs"),
        pytest.param(down(143, "i"), "Failed", id="it-was-stopped"),
    ],
)
def test_an_init_container_of_an_evicted_pod(facts: ContainerFacts, expected: str) -> None:
    """Nothing else ever ran."""
    here = situation(pod("a", init=["i"], restartPolicy="Never"), containers={"i": facts}, **EVICTED)
    assert pod_status(here).phase == expected


@pytest.mark.parametrize(
    ("around", "known"),
    [
        pytest.param(HERE, {"starts_in_doubt": True}, id="something-may-have-started-unseen"),
        pytest.param(Around(busy=(RESTART,)), {}, id="a-restart-is-still-out"),
        pytest.param(HERE, {"containers": {"a": UNSEEN}}, id="the-runtime-has-lost-sight-of-one-that-ended-before"),
    ],
)
def test_no_phase_is_final_while_an_instance_may_appear(around: Around, known: dict[str, Any]) -> None:
    """A final phase never changes any more."""
    facts = {"containers": {"a": down(0, "a")}, "deletion": deletion(), **known}
    here = situation(pod("a"), around, **facts)
    assert pod_status(here).phase == "Running"


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        pytest.param({}, "Failed", id="nothing-ever-ran"),
        pytest.param({"a": down(0, "a")}, "Failed", id="one-never-ran"),
        pytest.param({"a": down(0, "a"), "b": down(0, "b")}, "Succeeded", id="all-succeeded"),
    ],
)
def test_a_terminated_pod_has_a_final_phase(containers: Facts, expected: str) -> None:
    """Succeeded or Failed, never anything else."""
    assert phase(pod("a", "b"), containers, deletion=deletion(), lifecycle=Lifecycle.TERMINATED) == expected


def test_a_pod_that_was_never_initialized_has_failed_when_it_is_gone() -> None:
    """Whatever its containers wait for."""
    assert phase(pod("a", init=["i"]), {}, deletion=deletion(), lifecycle=Lifecycle.TERMINATED) == "Failed"


def test_words() -> None:
    """As the API has them."""
    assert [one.value for one in Phase] == ["Pending", "Running", "Succeeded", "Failed"]
