"""Which phase does a pod have for the states of its containers? The rows of the kubelet's getPhase tests, and ours for deletion."""

from datetime import timedelta
from typing import Any

import pytest

from proto.temporal.activities.requests import StartContainer
from proto.temporal.pod import ContainerFacts, ContainerState, Exit
from tests.workflows.decide.situations import (
    DEFAULT_CONTEXT,
    KEY,
    Context,
    at,
    container,
    done,
    down,
    pod,
    situation,
    stopping,
    up,
)
from workflows.decide.status.phase import Phase
from workflows.decide.status.status import pod_status

LOOPING: dict[str, Any] = {"backoff": timedelta(seconds=40), "backoff_at": at(-50)}
A, B = up("a"), up("b")
UNKNOWN = ContainerState.UNKNOWN
UNSEEN = up("a", 1, state=UNKNOWN, last_exit=Exit("a-0", 0, "Completed"))
STOPPING_A = Context(busy=(stopping("a"),))
RESTART = StartContainer(KEY, "s0", 1, "", {"name": "a"}, {})
Facts = dict[str, ContainerFacts]


def phase(source: dict[str, Any], containers: Facts, **known: Any) -> str | None:
    """Return the phase in the status."""
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
        pytest.param(
            {"a": A, "b": up("b", state=UNKNOWN)}, "Running", "Running", "Running", id="one-runs-one-is-out-of-sight"
        ),
        pytest.param(
            {"a": down(0, "a"), "b": up("b", state=UNKNOWN)},
            "Running",
            "Running",
            "Running",
            id="the-last-one-is-out-of-sight-so-nothing-is-final",
        ),
        pytest.param(
            {"a": A, "b": up("b", state=UNKNOWN, started_at=None)},
            "Pending",
            "Pending",
            "Pending",
            id="one-runs-one-was-never-seen-to",
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


BOTH = {"a": A, "b": B}
ENDED = {"a": down(0, "a"), "b": down(0, "b")}


@pytest.mark.parametrize(
    ("containers", "always", "never"),
    [
        pytest.param({}, "Pending", "Pending", id="empty"),
        pytest.param({"s": up("s")}, "Pending", "Pending", id="sidecar-started-and-nothing-else"),
        pytest.param({"s": up("s", state=ContainerState.CREATED)}, "Pending", "Pending", id="sidecar-created"),
        pytest.param({"s": down(0, "s")}, "Pending", "Pending", id="sidecar-stopped"),
        pytest.param({"s": down(1, "s", **LOOPING)}, "Pending", "Pending", id="sidecar-backs-off"),
        pytest.param({"s": down(0, "s", **LOOPING)}, "Pending", "Pending", id="sidecar-backs-off-after-a-success"),
        pytest.param({"s": up("s"), "a": A}, "Pending", "Pending", id="one-of-two-regular-ones-runs"),
        pytest.param({"s": up("s"), **BOTH}, "Running", "Running", id="all-run"),
        pytest.param({"s": down(1, "s"), **BOTH}, "Running", "Running", id="sidecar-stopped-the-others-run"),
        pytest.param({"s": down(1, "s", **LOOPING), **BOTH}, "Running", "Running", id="sidecar-backs-off-others-run"),
        pytest.param({"s": up("s"), **ENDED}, "Running", "Running", id="sidecar-runs-the-others-succeeded"),
        pytest.param({"s": down(1, "s"), **ENDED}, "Running", "Succeeded", id="a-failed-sidecar-fails-no-pod"),
        pytest.param({"s": down(0, "s"), **ENDED}, "Running", "Succeeded", id="all-stopped"),
        pytest.param(
            {"s": down(0, "s"), "a": A, "b": down(1, "b")}, "Running", "Running", id="one-runs-one-failed-none-beside"
        ),
        pytest.param(
            {"s": down(0, "s"), "a": down(1, "a"), "b": down(0, "b")}, "Running", "Failed", id="one-of-two-failed"
        ),
    ],
)
def test_sidecars(containers: Facts, always: str, never: str) -> None:
    """One sidecar beside two regular containers."""
    got = [phase(pod("a", "b", init=["+s"], restartPolicy=policy), containers) for policy in ("Always", "Never")]
    assert got == [always, never]


OLD: dict[str, Any] = {"sandbox_id": "old"}


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        pytest.param({"s": up("s")}, "Pending", id="the-init-container-before-it-is-pending"),
        pytest.param({"i": done("i"), "s": up("s")}, "Pending", id="nothing-regular-has-run"),
        pytest.param({"i": done("i"), "s": up("s"), "a": A, "b": B}, "Running", id="all-regular-ones-run"),
        pytest.param(
            {"i": done("i"), "s": up("s"), "a": down(1, "a"), "b": down(1, "b")}, "Running", id="they-have-ended-here"
        ),
        pytest.param(
            {"i": done("i"), "s": up("s"), "a": down(1, "a", **OLD), "b": down(1, "b", **OLD)},
            "Pending",
            id="they-ended-in-the-sandbox-before-this-one",
        ),
        pytest.param({"i": up("i"), "s": up("s"), "a": A, "b": B}, "Pending", id="the-init-container-runs-again"),
        pytest.param(
            {"i": up("i"), "s": up("s"), "a": down(1, "a"), "b": down(1, "b")}, "Pending", id="and-they-have-ended"
        ),
    ],
)
def test_a_sidecar_that_has_not_started(containers: Facts, expected: str) -> None:
    """The phase is Pending until a regular container has run in this sandbox (TestPodPhase…AndPodHasRun)."""
    probe = {"startupProbe": {"tcpSocket": {"port": 80}}}
    init = [container("i"), container("s", restartPolicy="Always", **probe)]
    assert phase(pod("a", "b", initContainers=init), containers) == expected


@pytest.mark.parametrize(
    ("context", "known"),
    [
        pytest.param(DEFAULT_CONTEXT, {"starts_in_doubt": True}, id="a-sidecar-may-have-started-unseen"),
        pytest.param(Context(busy=(RESTART,)), {}, id="a-restart-is-still-out"),
        pytest.param(
            DEFAULT_CONTEXT, {"containers": {"a": UNSEEN, "web": down(0)}}, id="the-runtime-has-lost-sight-of-it"
        ),
    ],
)
def test_no_phase_is_final_while_a_sidecar_may_appear(context: Context, known: dict[str, Any]) -> None:
    """Whether its pod is deleted or not."""
    facts = {"containers": {"a": down(1, "a"), "web": down(0)}, **known}
    here = situation(pod(init=["+a"], restartPolicy="Never"), context, **facts)
    assert pod_status(here).phase == "Running"


def policies(a: str | None, b: str | None) -> list[dict[str, Any]]:
    """Build two containers with policies of their own."""
    own = {"a": a, "b": b}
    return [container(name, **({"restartPolicy": policy} if policy else {})) for name, policy in own.items()]


@pytest.mark.parametrize(
    ("a", "b", "pods", "codes", "expected"),
    [
        pytest.param("Never", "Never", "Always", (1, 0), "Failed", id="never-of-their-own-and-one-failed"),
        pytest.param("OnFailure", "Never", "Always", (1, 0), "Running", id="on-failure-and-failed"),
        pytest.param("Always", "Never", "Never", (0, 1), "Running", id="one-of-two-comes-again"),
        pytest.param("Never", "OnFailure", "Always", (1, 0), "Failed", id="none-comes-again"),
        pytest.param("Never", "OnFailure", "Always", (0, 0), "Succeeded", id="all-succeeded"),
        pytest.param(None, "Always", "Never", (1, 1), "Running", id="the-pod-s-for-one-without-its-own"),
    ],
)
def test_policies_of_their_own(a: str, b: str, pods: str, codes: tuple[int, int], expected: str) -> None:
    """Two regular containers that have exited."""
    ended = {name: down(code, name) for name, code in zip("ab", codes, strict=True)}
    assert phase(pod(containers=policies(a, b), restartPolicy=pods), ended) == expected


@pytest.mark.parametrize(
    ("own", "pods", "expected"),
    [
        pytest.param("Never", "Always", "Failed", id="never-of-its-own"),
        pytest.param("OnFailure", "Never", "Pending", id="on-failure-of-its-own"),
        pytest.param("Always", "Never", "Pending", id="a-sidecar"),
    ],
)
def test_a_failed_init_container_with_a_policy_of_its_own(own: str, pods: str, expected: str) -> None:
    """Whatever the pod's policy."""
    source = pod(initContainers=[container("x", restartPolicy=own)], restartPolicy=pods)
    assert phase(source, {"x": down(1, "x")}) == expected


def test_words() -> None:
    """As in the API."""
    assert [one.value for one in Phase] == ["Pending", "Running", "Succeeded", "Failed"]
