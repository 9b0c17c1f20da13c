"""When are a pod's ResourceClaims prepared and undone, and what waits for them?"""

from typing import Any

import pytest

from proto.dra.pod_claims import claims_slice
from proto.temporal.activities.claims import PrepareResources, UnprepareResources
from proto.temporal.activities.requests import StartContainer
from proto.temporal.operator import SentenceKind
from proto.temporal.pod import Failure, Lifecycle, PodJson
from tests.workflows.decide.situations import KEY, at, deletion, describe_all, down, pod, sandbox, situation, up
from workflows.decide.explain.explain import explanation
from workflows.decide.record.fold import fold, fold_failure
from workflows.decide.record.updates import Outcome, judge
from workflows.decide.status.status import pod_status, pod_summary
from workflows.decide.steps.pod_actions import pod_actions
from workflows.decide.steps.termination import is_released
from workflows.loops.calls import summary

FRESH: dict[str, Any] = {"sandbox": None, "directories": False}
MADE = {"name": "gpu", "resourceClaimTemplateName": "t"}
STATUS = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "web-gpu-x"}]}


def with_claim(**spec: Any) -> PodJson:
    """Build a pod whose container uses a claim."""
    source = pod(resourceClaims=[MADE], **spec)
    source["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
    return {**source, "status": STATUS}


def extended() -> PodJson:
    """Build a pod with a claim that the scheduler made for its extended resources."""
    return {**pod(), "status": {"extendedResourceClaimStatus": {"resourceClaimName": "web-x"}}}


@pytest.mark.parametrize(
    ("source", "known", "begun"),
    [
        pytest.param(with_claim(), FRESH, ["PrepareResources"], id="before-the-sandbox"),
        pytest.param(extended(), FRESH, ["PrepareResources"], id="for-extended-resources-too"),
        pytest.param(with_claim(), {**FRESH, "claims_for": 0}, ["RunPodSandbox 0"], id="then-the-sandbox"),
        pytest.param(pod(), FRESH, ["RunPodSandbox 0"], id="a-pod-without-claims-prepares-none"),
        pytest.param(with_claim(), {}, ["StartContainer web 0"], id="a-sandbox-that-is-there-has-them"),
        pytest.param(
            with_claim(),
            {"sandbox": None, "next_sandbox_attempt": 1, "claims_for": 0, "containers": {"web": down(1, ended=-900)}},
            ["PrepareResources"],
            id="again-for-a-new-sandbox",
        ),
        pytest.param(with_claim(), {**FRESH, "waiting_for": "uid-0"}, ["AwaitPredecessor"], id="after-a-predecessor"),
        pytest.param(
            with_claim(restartPolicy="Never"),
            {"containers": {"web": down(0)}, "sandbox": None, "next_sandbox_attempt": 1},
            [],
            id="a-pod-that-has-finished-prepares-none",
        ),
    ],
)
def test_preparing(source: PodJson, known: dict[str, Any], begun: list[str]) -> None:
    """All of them in one action, before each sandbox."""
    assert describe_all(pod_actions(situation(source, **known)).begin) == begun


ENDING: dict[str, Any] = {"lifecycle": Lifecycle.TERMINATING, "deletion": deletion(), "claims_for": 0}


@pytest.mark.parametrize(
    ("source", "known", "begun"),
    [
        pytest.param(
            with_claim(), {**ENDING, "containers": {"web": up()}}, ["StopContainer"], id="after-the-containers"
        ),
        pytest.param(with_claim(), ENDING, ["StopPodSandbox"], id="and-the-sandbox"),
        pytest.param(
            with_claim(),
            {**ENDING, "sandbox": sandbox(ready=False, stopped=True)},
            ["UnprepareResources"],
            id="once-it-is",
        ),
        pytest.param(with_claim(), {**ENDING, **FRESH, "claims_for": None}, ["UnprepareResources"], id="known-or-not"),
        pytest.param(
            with_claim(),
            {**ENDING, "sandbox": sandbox(ready=False, stopped=True), "claims_undone": True},
            ["RemovePodSandbox"],
            id="then-all-else",
        ),
        pytest.param(pod(), {**ENDING, **FRESH, "directories": True}, ["RemovePodDirectories"], id="none-to-undo"),
    ],
)
def test_unpreparing(source: PodJson, known: dict[str, Any], begun: list[str]) -> None:
    """Once nothing of the pod runs, before anything is removed."""
    assert [one.split()[0] for one in describe_all(pod_actions(situation(source, **known)).begin)] == begun


@pytest.mark.parametrize(
    ("source", "known", "lacks"),
    [
        pytest.param(with_claim(), FRESH, True, id="before-they-are-prepared"),
        pytest.param(with_claim(), {**FRESH, "claims_for": 0}, False, id="prepared"),
        pytest.param(with_claim(), {}, False, id="a-sandbox-that-is-there-has-them"),
        pytest.param(
            with_claim(),
            {"sandbox": None, "next_sandbox_attempt": 1, "claims_for": 0, "containers": {"web": down(1, ended=-900)}},
            True,
            id="not-for-a-new-sandbox",
        ),
        pytest.param(with_claim(), {**ENDING, **FRESH}, False, id="while-they-are-undone"),
        pytest.param(pod(), FRESH, False, id="none"),
    ],
)
def test_whether_a_pod_lacks_its_claims(source: PodJson, known: dict[str, Any], lacks: bool) -> None:
    """The node's file names a pod before its drivers are asked, so `tempolet explain` asks its workflow."""
    assert explanation(situation(source, **known), summary).lacks_claims is lacks


@pytest.mark.parametrize(
    ("known", "text"),
    [
        pytest.param(FRESH, "FailedPrepareDynamicResources: try to prepare resource claims again", id="prepare"),
        pytest.param(
            {**ENDING, **FRESH},
            "FailedUnprepareDynamicResources: try to unprepare resource claims again",
            id="unprepare",
        ),
    ],
)
def test_what_is_tried_again(known: dict[str, Any], text: str) -> None:
    """Both have one key, which does not say."""
    failure = Failure(text.partition(":")[0], "no driver", at(-1))
    told = explanation(situation(with_claim(), **known, failures={"claims": failure}), summary)
    assert [one.text for one in told.sentences if one.kind is SentenceKind.WAITS] == [text]


def test_what_is_recorded() -> None:
    """For which sandbox, and that nothing is prepared any more."""
    here = situation(with_claim(), **FRESH)
    preparing = PrepareResources(KEY, claims_slice(here.source), 2)
    fold_failure(here, preparing, "FailedPrepareDynamicResources", "DRA driver x is not registered")
    shown = pod_summary(here, pod_status(here))
    assert (shown.phase, shown.reason) == ("Pending", "FailedPrepareDynamicResources")
    assert pod_actions(here).begin == ()
    assert pod_actions(here).wake is not None
    fold(here, preparing, None)
    assert (here.observed.claims_for, here.observed.claims_undone, here.observed.failures) == (2, False, {})
    here.observed.lifecycle = Lifecycle.TERMINATED
    assert not is_released(here)
    fold(here, UnprepareResources(KEY), None)
    assert (here.observed.claims_for, here.observed.claims_undone) == (None, True)
    assert is_released(here)


def test_a_container_is_told_of_its_pods_claims() -> None:
    """With the names that the status has."""
    [start] = pod_actions(situation(with_claim())).begin
    assert isinstance(start, StartContainer)
    assert start.sandbox_spec["status"] == STATUS
    assert start.sandbox_spec["spec"]["resourceClaims"] == [MADE]
    [plain] = pod_actions(situation(pod())).begin
    assert isinstance(plain, StartContainer)
    assert "status" not in plain.sandbox_spec


def test_a_claim_that_is_made_later() -> None:
    """Its name reaches the pod without another pod."""
    here = situation(with_claim(), **FRESH)
    before = {name: value for name, value in here.source.items() if name != "status"}
    assert judge(here.observed, before, here.source) is Outcome.IN_PLACE
    assert judge(here.observed, here.source, here.source) is Outcome.NOTHING
