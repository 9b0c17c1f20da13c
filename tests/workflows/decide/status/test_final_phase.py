"""Which phase has a terminating, evicted or removed pod, and is it final?"""

from datetime import timedelta
from typing import Any

import pytest

from proto.temporal.images import ImageFacts
from proto.temporal.pod import ContainerFacts, Exit, Lifecycle
from proto.temporal.pod_inputs import Eviction
from tests.workflows.decide.situations import DEFAULT_CONTEXT, Context, at, deletion, down, pod, sandbox, situation, up
from tests.workflows.decide.status.test_phase import ENDED, RESTART, STOPPING_A, UNSEEN, A, Facts, phase, policies
from workflows.decide.keys import image_key
from workflows.decide.status.conditions import DISRUPTION_TARGET
from workflows.decide.status.status import pod_status


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        pytest.param({"a": down(0, "a"), "b": down(0, "b")}, "Succeeded", id="all-succeeded"),
        pytest.param({"a": down(0, "a"), "b": down(143, "b")}, "Failed", id="one-was-killed"),
        pytest.param({"a": A, "b": down(0, "b")}, "Running", id="one-still-runs"),
    ],
)
def test_a_deleted_pod_starts_nothing_again(containers: Facts, expected: str) -> None:
    """So its exits are final, whatever its policy."""
    assert phase(pod("a", "b"), containers, deletion=deletion()) == expected


REMOVED = ContainerFacts(attempt=1, last_exit=Exit("b-0", 0, "Completed"))
EVICTED: dict[str, Any] = {
    "eviction": Eviction(at(-5), "DeadlineExceeded", "too long"),
    "lifecycle": Lifecycle.TERMINATING,
}


@pytest.mark.parametrize(
    ("context", "containers", "known", "expected"),
    [
        pytest.param(DEFAULT_CONTEXT, {"a": up("a")}, {}, "Running", id="it-still-runs"),
        pytest.param(DEFAULT_CONTEXT, {"a": down(0, "a")}, {}, "Failed", id="whatever-it-ended-with"),
        pytest.param(STOPPING_A, {"a": down(0, "a")}, {}, "Running", id="its-end-is-not-the-last-word"),
        pytest.param(
            DEFAULT_CONTEXT, {}, {"starts_in_doubt": True, "sandbox": None}, "Pending", id="it-may-have-started-unseen"
        ),
        pytest.param(DEFAULT_CONTEXT, {}, {"sandbox": None}, "Failed", id="it-never-ran"),
        pytest.param(DEFAULT_CONTEXT, {"a": down(0, "a")}, {"deletion": deletion()}, "Failed", id="deleted-after-that"),
    ],
)
def test_an_evicted_pod_has_failed(context: Context, containers: Facts, known: dict[str, Any], expected: str) -> None:
    """Once nothing of it runs any more; then it gives the reason."""
    status = pod_status(situation(pod("a", restartPolicy="Never"), context, containers=containers, **EVICTED, **known))
    said = ("DeadlineExceeded", "too long") if expected == "Failed" else (None, None)
    assert (status.phase, status.reason, status.message) == (expected, *said)


ENDED_BY_ITS_NODE: dict[str, Any] = {
    "eviction": Eviction(at(-5), "Evicted", "low on memory", disrupts=True, may_succeed=True),
    "lifecycle": Lifecycle.TERMINATING,
}
FROM_API = Context(from_api=True)
IN_BACKOFF: dict[str, Any] = {"backoff": timedelta(seconds=40), "backoff_at": at(-60)}
NOT_PULLED = {image_key("busybox:1", "IfNotPresent"): ImageFacts(reason="ErrImagePull")}


@pytest.mark.parametrize(
    ("policy", "containers", "known", "expected"),
    [
        pytest.param("Always", {"a": down(0, "a"), "b": down(0, "b")}, {}, "Succeeded", id="all-exit-with-nought"),
        pytest.param("Never", {"a": down(0, "a"), "b": down(0, "b")}, {}, "Succeeded", id="whatever-its-policy"),
        pytest.param("Always", {"a": down(0, "a"), "b": down(143, "b")}, {}, "Failed", id="one-is-killed"),
        pytest.param("Always", {"a": down(0, "a"), "b": A}, {}, "Running", id="one-still-runs"),
        pytest.param("Always", {"a": down(0, "a")}, {}, "Failed", id="one-never-ran"),
        pytest.param("Always", {}, {"sandbox": None}, "Failed", id="none-ever-ran"),
        pytest.param(
            "Always",
            {"a": down(0, "a"), "b": down(0, "b", 1, ended=-20, **IN_BACKOFF)},
            {},
            "Failed",
            id="one-waited-in-its-back-off",
        ),
        pytest.param(
            "OnFailure",
            {"a": down(0, "a"), "b": down(0, "b", 1, ended=-20, **IN_BACKOFF)},
            {},
            "Succeeded",
            id="one-was-not-to-start-again",
        ),
        pytest.param(
            "Always",
            {"a": down(0, "a"), "b": down(0, "b", 1, ended=-20, **IN_BACKOFF)},
            {"deletion": deletion()},
            "Failed",
            id="and-the-pod-was-deleted-after-that",
        ),
        pytest.param(
            "Always",
            {"a": down(0, "a"), "b": down(0, "b", ended=-6)},
            {},
            "Succeeded",
            id="one-had-just-ended-and-waited-for-nothing",
        ),
        pytest.param(
            "Always",
            {"a": down(0, "a"), "b": down(0, "b", ended=-20, failure_reason="CreateContainerError")},
            {},
            "Failed",
            id="one-could-not-be-started-again",
        ),
        pytest.param(
            "Always",
            {"a": down(0, "a"), "b": down(0, "b", ended=-20)},
            {"images": NOT_PULLED},
            "Failed",
            id="the-image-of-one-could-not-be-pulled-again",
        ),
        pytest.param(
            "Always", {"a": down(0, "a"), "b": REMOVED}, {}, "Failed", id="one-was-removed-so-that-all-start-again"
        ),
    ],
)
def test_an_evicted_pod_whose_containers_succeed(
    policy: str, containers: Facts, known: dict[str, Any], expected: str
) -> None:
    """It has succeeded, and shows no reason; what it was ended for stays in its condition (getPhase, generateAPIPodStatus)."""
    here = situation(pod("a", "b", restartPolicy=policy), FROM_API, containers=containers, **ENDED_BY_ITS_NODE, **known)
    status = pod_status(here)
    said = ("Evicted", "low on memory") if expected == "Failed" else (None, None)
    assert (status.phase, status.reason, status.message) == (expected, *said)
    targets = [one.message for one in status.conditions or () if one.type == DISRUPTION_TARGET]
    assert targets == ([] if expected == "Running" else ["low on memory"])


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        pytest.param(up("i"), "Pending", id="it-runs"),
        pytest.param(down(143, "i"), "Failed", id="it-was-stopped"),
    ],
)
def test_an_init_container_of_an_evicted_pod(facts: ContainerFacts, expected: str) -> None:
    """Only the init container ever ran."""
    here = situation(pod("a", init=["i"], restartPolicy="Never"), containers={"i": facts}, **EVICTED)
    assert pod_status(here).phase == expected


@pytest.mark.parametrize(
    ("context", "known"),
    [
        pytest.param(DEFAULT_CONTEXT, {"starts_in_doubt": True}, id="something-may-have-started-unseen"),
        pytest.param(Context(busy=(RESTART,)), {}, id="a-restart-is-still-out"),
        pytest.param(
            DEFAULT_CONTEXT, {"containers": {"a": UNSEEN}}, id="the-runtime-has-lost-sight-of-one-that-ended-before"
        ),
    ],
)
def test_no_phase_is_final_while_an_instance_may_appear(context: Context, known: dict[str, Any]) -> None:
    """A final phase never changes."""
    facts = {"containers": {"a": down(0, "a")}, "deletion": deletion(), **known}
    here = situation(pod("a"), context, **facts)
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
    """Succeeded or Failed, no other."""
    assert phase(pod("a", "b"), containers, deletion=deletion(), lifecycle=Lifecycle.TERMINATED) == expected


GOES: dict[str, Any] = {"lifecycle": Lifecycle.TERMINATING, "deletion": deletion()}
IS_FINISHED: dict[str, Any] = {"lifecycle": Lifecycle.TERMINATED, "finished_at": at(-5)}
LOST = sandbox(ready=False, stopped=True)


@pytest.mark.parametrize(
    ("own", "containers", "before", "then", "expected"),
    [
        pytest.param(
            ("Never", "Never"),
            {"a": down(0, "a", 1), "b": REMOVED},
            GOES,
            {"lifecycle": Lifecycle.TERMINATED},
            "Failed",
            id="one-removed-so-that-all-start-again-never-did",
        ),
        pytest.param(
            ("Always", "Never"),
            ENDED,
            {**IS_FINISHED, "sandbox": LOST},
            {"deletion": deletion()},
            "Failed",
            id="one-could-not-come-back-without-a-sandbox-then-deleted",
        ),
        pytest.param(
            ("Never", "Never"), ENDED, IS_FINISHED, {"deletion": deletion()}, "Succeeded", id="finished-then-deleted"
        ),
    ],
)
def test_a_final_phase_stays(
    own: tuple[str, str], containers: Facts, before: dict[str, Any], then: dict[str, Any], expected: str
) -> None:
    """Whatever happens to the pod afterwards."""
    source = pod(containers=policies(*own), restartPolicy="Never")
    assert [phase(source, containers, **known) for known in (before, {**before, **then})] == [expected, expected]


def test_an_initialization_that_failed_stays_failed() -> None:
    """Also if the exit of a sidecar that is stopped for it matches a rule to restart all containers."""
    again = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [143]}}
    source = pod("a", init=["+s", "i"], restartPolicy="Never")
    source["spec"]["initContainers"][0]["restartPolicyRules"] = [again]
    known = {"lifecycle": Lifecycle.TERMINATING, "finished_at": at(-5)}
    assert [phase(source, {"s": one, "i": down(1, "i")}, **known) for one in (up("s"), down(143, "s"))] == [
        "Failed",
        "Failed",
    ]


def test_a_pod_that_was_never_initialized_has_failed_when_it_is_gone() -> None:
    """Whatever its containers wait for."""
    assert phase(pod("a", init=["i"]), {}, deletion=deletion(), lifecycle=Lifecycle.TERMINATED) == "Failed"
