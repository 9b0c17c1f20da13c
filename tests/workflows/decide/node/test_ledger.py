"""Is exclusive hardware given to one pod after the other, to nobody twice, and free again when a pod is over?"""

from typing import Any

import pytest

from proto.temporal.hardware.ledger import Admit, AllocateHardware, ContainerAssignment, GivenDevices, PodAssignment
from proto.temporal.node import NodeObserved
from workflows.decide.node import ledger


def pod(uid: str) -> dict[str, Any]:
    """Build the slice of a pod."""
    return {"metadata": {"namespace": "default", "name": uid, "uid": uid}, "spec": {}}


def given(uid: str, cpus: str = "", *devices: str) -> PodAssignment:
    """Build what a pod was given."""
    one = ContainerAssignment(cpus, devices=(GivenDevices("example.com/gpu", devices),) if devices else ())
    return PodAssignment("default", uid, {"c": one})


def holding(**pods: PodAssignment) -> NodeObserved:
    """Build a node whose ledger has these."""
    return NodeObserved(assignments=dict(pods))


def test_one_pod_after_the_other() -> None:
    """The second waits until the first was chosen for; the request names what others have."""
    observed, asked = holding(a=given("a", "1")), [Admit(pod("b"), ("a",)), Admit(pod("c"))]
    assert list(ledger.allocations(observed, asked, {"images/0"})) == [
        AllocateHardware(pod("b"), observed.assignments, ("a",))
    ]
    assert not list(ledger.allocations(observed, asked, {"hardware/b"}))
    assert not list(ledger.allocations(observed, [], {"images/0"}))


@pytest.mark.parametrize(
    ("counting", "left", "known"),
    [
        pytest.param(("b",), {"a", "b"}, True, id="a-pod-that-asks-again-keeps-what-it-has"),
        pytest.param((), {"a"}, True, id="its-own-counts-whoever-else-does"),
        pytest.param(("b", "x"), {"a", "b"}, True, id="a-pod-that-has-nothing-is-no-matter"),
    ],
)
def test_what_counts_no_more_is_free(counting: tuple[str, ...], left: set[str], known: bool) -> None:
    """Only the pods that the request names still have something."""
    observed = holding(a=given("a", "1"), b=given("b", "2"))
    assert ledger.admitted(observed, Admit(pod("a"), counting)) is known
    assert observed.assignments.keys() == left


def test_a_new_pod_is_chosen_for() -> None:
    """It was given nothing yet."""
    assert not ledger.admitted(holding(a=given("a", "1")), Admit(pod("b"), ("a",)))


@pytest.mark.parametrize(
    ("mine", "words"),
    [
        pytest.param(given("b", "2-3"), "", id="others-free"),
        pytest.param(given("b", "1-2"), "CPU 1 of default/a would be given twice", id="a-cpu"),
        pytest.param(given("b", "", "gpu-0"), "example.com/gpu gpu-0 of default/a would be given twice", id="a-device"),
        pytest.param(given("b", "", "gpu-1"), "", id="another-device"),
    ],
)
def test_nothing_is_given_twice(mine: PodAssignment, words: str) -> None:
    """Whatever the worker answers."""
    observed = holding(a=given("a", "0-1", "gpu-0"))
    asked = AllocateHardware(pod("b"))
    refusal = ledger.conflict(observed, asked, mine)
    assert (refusal.message if refusal else "") == words
    ledger.recorded(observed, asked, mine)
    assert ("b" in observed.assignments) is not bool(words)


def test_a_pod_may_have_its_own_again() -> None:
    """Its activity may have run twice."""
    observed = holding(a=given("a", "1"))
    assert ledger.conflict(observed, AllocateHardware(pod("a")), given("a", "1")) is None


def test_a_pod_without_hardware_is_not_in_the_ledger() -> None:
    """It would cost room for nothing."""
    observed = NodeObserved()
    ledger.recorded(observed, AllocateHardware(pod("a")), PodAssignment("default", "a"))
    assert not observed.assignments


@pytest.mark.parametrize(
    ("asked", "waiting", "reason"),
    [
        pytest.param(Admit(pod("a")), 0, "", id="the-first"),
        pytest.param(Admit(pod("a")), ledger.IN_FLIGHT, "TooManyAdmissions", id="one-too-many"),
        pytest.param(Admit({}), 0, "Malformed", id="no-pod"),
        pytest.param(Admit({"metadata": {"uid": 1}}), 0, "Malformed", id="a-uid-that-is-none"),
    ],
)
def test_what_cannot_be_asked(asked: Admit, waiting: int, reason: str) -> None:
    """Refused before the history has it."""
    refusal = ledger.why_not(asked, waiting)
    assert (refusal.reason if refusal else "") == reason
