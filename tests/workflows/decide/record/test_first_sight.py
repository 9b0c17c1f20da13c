"""What is known of a pod that the API lists for the first time, and what does the API change later?"""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from proto.temporal.pod import ContainerFacts, Lifecycle, Observed, PodStart
from proto.temporal.pod_inputs import Ended, FirstSight, GivenCondition, Rejected
from proto.temporal.signals import DeletionRequested, PodListed, StatusGiven
from tests.workflows.decide.situations import NOW, Context, at, deletion, pod, situation, up
from workflows.decide.lifecycle import lifecycle
from workflows.decide.record.first_sight import initially_observed, observed_again
from workflows.decide.record.signals import apply_signal
from workflows.decide.situation import Situation
from workflows.decide.status.status import pod_status
from workflows.decide.steps.pod_actions import pod_actions
from workflows.decide.versions import CURRENT, RESTARTS_COUNT_ON

SUCCEEDED, FAILED = Ended("Succeeded"), Ended("Failed", "Evicted", "by somebody")
REJECTED = Rejected("OutOfcpu", "Node didn't have enough resource")


def first(sight: FirstSight | None, **spec: Any) -> Situation:
    """Return the pod's situation when its workflow starts."""
    source = pod(**spec)
    here = situation(source)
    observed = initially_observed(PodStart("n1", source, source="api", first_sight=sight), here.spec, NOW)
    here = replace(here, observed=observed)
    while event := lifecycle.next_event(here):
        lifecycle.happened(here, event)
    return here


def begun(here: Situation) -> list[str]:
    """Return the actions that are started."""
    return [type(action).__name__ for action in pod_actions(here).begin]


@pytest.mark.parametrize(
    ("sight", "state", "phase", "why", "begins"),
    [
        pytest.param(None, Lifecycle.SYNC, "Pending", None, "ReadImages", id="a-manifest's-pod"),
        pytest.param(FirstSight(), Lifecycle.SYNC, "Pending", None, "ReadImages", id="a-new-pod"),
        pytest.param(
            FirstSight(started_at=at(-60)), Lifecycle.SYNC, "Pending", None, "ReadPodRuntime", id="one-that-was-here"
        ),
        pytest.param(
            FirstSight(ended=SUCCEEDED),
            Lifecycle.TERMINATING,
            "Succeeded",
            None,
            "ReadPodRuntime",
            id="one-that-succeeded",
        ),
        pytest.param(
            FirstSight(ended=FAILED), Lifecycle.TERMINATING, "Failed", "Evicted", "ReadPodRuntime", id="one-that-failed"
        ),
        pytest.param(
            FirstSight(rejected=REJECTED),
            Lifecycle.TERMINATING,
            "Pending",
            None,
            "ReadPodRuntime",
            id="a-refused-one-until-the-runtime-is-known-to-have-nothing-of-it",
        ),
        pytest.param(
            FirstSight(deleted=True), Lifecycle.TERMINATING, "Pending", None, "ReadPodRuntime", id="one-that-is-to-go"
        ),
        pytest.param(
            FirstSight(deleted=True, ended=SUCCEEDED),
            Lifecycle.TERMINATING,
            "Succeeded",
            None,
            "ReadPodRuntime",
            id="one-that-succeeded-and-is-to-go",
        ),
    ],
)
def test_what_begins(sight: FirstSight | None, state: Lifecycle, phase: str, why: str | None, begins: str) -> None:
    """For a finished, rejected or deleted pod nothing is started except a check for what may be left."""
    here = first(sight)
    status = pod_status(here)
    assert (here.observed.lifecycle, status.phase, status.reason) == (state, phase, why)
    assert begins in begun(here)
    assert "RunPodSandbox" not in begun(here) or begins == "ReadImages"


def test_a_refusal_has_the_kubelets_words() -> None:
    """Once nothing of the pod is found."""
    here = first(FirstSight(rejected=REJECTED))
    here.observed.runtime_stale = here.observed.starts_in_doubt = False
    here = replace(here, observed=replace(here.observed, sandbox=None))
    status = pod_status(here)
    assert (status.phase, status.reason) == ("Failed", "OutOfcpu")
    assert status.message == f"Pod was rejected: {REJECTED.message}"


@pytest.mark.parametrize(
    ("grace", "own", "left"),
    [
        pytest.param(None, 7, 7, id="the-pod's-own"),
        pytest.param(3, 7, 3, id="the-deletion's"),
        pytest.param(0, 7, 1, id="never-below-a-second"),
    ],
)
def test_the_grace_of_a_deletion_counts_from_when_it_is_seen(grace: int | None, own: int, left: int) -> None:
    """A node that was down has not used up any of it."""
    asked = None if grace is None else timedelta(seconds=grace)
    here = first(FirstSight(deleted=True, grace=asked), terminationGracePeriodSeconds=own)
    assert here.observed.deletion is not None
    assert (here.observed.deletion.grace, here.observed.deletion.requested_at) == (timedelta(seconds=left), NOW)


def test_a_pod_that_began_before_keeps_its_start() -> None:
    """Its activeDeadlineSeconds count from there."""
    assert first(FirstSight(started_at=at(-60)), activeDeadlineSeconds=50).observed.eviction is not None
    assert first(FirstSight(), activeDeadlineSeconds=50).observed.eviction is None


def given(status: str) -> dict[str, GivenCondition]:
    """Build a condition that others set."""
    return {"example.com/gate": GivenCondition(status, NOW)}


def test_conditions_of_others_are_taken_as_a_whole() -> None:
    """At first sight and by each signal; a condition that is no longer listed is unset."""
    here = first(FirstSight(conditions=given("False")), readinessGates=[{"conditionType": "example.com/gate"}])
    assert here.observed.given_conditions == given("False")
    apply_signal(here, StatusGiven("api", 1, given("True")))
    assert here.observed.given_conditions == given("True")
    apply_signal(here, StatusGiven("api", 3))
    apply_signal(here, StatusGiven("api", 2, given("True")))
    assert here.observed.given_conditions == {}


@pytest.mark.parametrize(
    ("known", "event", "phase"),
    [
        pytest.param({}, lifecycle.Event.POD_FINISHED, "Failed", id="a-running-pod-is-stopped"),
        pytest.param(
            {"lifecycle": Lifecycle.TERMINATED, "ended": SUCCEEDED}, None, "Succeeded", id="the-first-end-stays"
        ),
    ],
)
def test_an_end_that_the_api_shows(known: dict[str, Any], event: lifecycle.Event | None, phase: str) -> None:
    """Others set the final phase; it never changes back."""
    here = situation(pod(), Context(), containers={"web": up()}, **known)
    apply_signal(here, StatusGiven("api", 1, ended=FAILED))
    assert lifecycle.next_event(here) is event
    assert pod_status(here).phase == phase


EDITED = pod(tolerations=[{"operator": "Exists"}])
IMMUTABLE = pod(hostNetwork=True)


@pytest.mark.parametrize(
    ("listed", "known", "taken"),
    [
        pytest.param(EDITED, Observed(), True, id="what-may-change"),
        pytest.param(IMMUTABLE, Observed(), True, id="what-the-api-let-through"),
        pytest.param(pod(), Observed(), False, id="nothing-new"),
        pytest.param(None, Observed(), False, id="no-content"),
        pytest.param(EDITED, Observed(lifecycle=Lifecycle.TERMINATING), False, id="a-pod-that-goes"),
    ],
)
def test_an_edit_in_the_api_never_replaces_the_pod(
    listed: dict[str, Any] | None, known: Observed, *, taken: bool
) -> None:
    """Nor does the pod start over after a deletion."""
    here = situation(pod(), lifecycle=known.lifecycle)
    found = apply_signal(here, PodListed("api", 1, listed, in_place=True))
    assert (found is not None) is taken
    assert here.observed.deletion is None


def test_a_deletion_in_the_api_is_never_taken_back() -> None:
    """A late listing starts no new life."""
    here = situation()
    apply_signal(here, DeletionRequested("api", "PodDeleted", sequence=1))
    apply_signal(here, PodListed("api", 2, EDITED, in_place=True))
    assert here.observed.deletion is not None
    assert not here.observed.listed_again


@pytest.mark.parametrize(
    ("behaviour", "attempts"),
    [
        pytest.param(CURRENT, {"web": 3, "never": 1}, id="each-container-that-ran-counts-on"),
        pytest.param(RESTARTS_COUNT_ON - 1, {}, id="an-older-behaviour-begins-at-0"),
    ],
)
def test_a_pod_that_starts_again_under_its_uid(behaviour: int, attempts: dict[str, int]) -> None:
    """Its restart counts go on as in the kubelet; all else is as at first, and no older signal counts."""
    known = {"web": up(attempt=2), "never": ContainerFacts(attempt=1), "fresh": ContainerFacts(), "gone": up("gone")}
    before = Observed(containers=known, heard={"file": 7}, deletion=deletion())
    again = observed_again(before, pod("web", "never", "fresh"), NOW, behaviour)
    assert {name: facts.attempt for name, facts in again.containers.items()} == attempts
    assert all(facts == ContainerFacts(attempt=facts.attempt) for facts in again.containers.values())
    assert (again.heard, again.deletion, again.started_at) == ({"file": 7}, None, NOW)
