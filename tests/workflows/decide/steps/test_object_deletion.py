"""When is a pod's object deleted from the API, and with which final status?"""

from typing import Any

import pytest

from proto.temporal.activities.requests import DeletePodObject
from proto.temporal.pod import Failure, Lifecycle
from tests.workflows.decide.situations import Context, at, deletion, describe_all, down, situation
from workflows.decide.steps.object_deletion import delete_object
from workflows.decide.steps.pod_actions import is_over

OF_API = Context(from_api=True)
GONE: dict[str, Any] = {"lifecycle": Lifecycle.TERMINATED, "deletion": deletion(), "sandbox": None, "cleaned": True}


@pytest.mark.parametrize(
    ("context", "known", "decision", "over"),
    [
        pytest.param(OF_API, GONE, ["DeletePodObject"], False, id="nothing-is-left-on-the-node"),
        pytest.param(OF_API, {**GONE, "cleaned": False}, [], False, id="something-is-left"),
        pytest.param(OF_API, {**GONE, "deletion": None}, [], False, id="a-finished-pod-that-nobody-deleted"),
        pytest.param(OF_API, {**GONE, "object_deleted": True}, [], True, id="once"),
        pytest.param(Context(), GONE, [], True, id="a-manifests-pod-has-no-object-of-its-own"),
        pytest.param(
            OF_API,
            {**GONE, "failures": {"object": Failure("UnexpectedError", "no", at(-3))}},
            ["wake 7"],
            False,
            id="later",
        ),
    ],
)
def test_delete_object(context: Context, known: dict[str, Any], decision: list[str], over: bool) -> None:
    """It is the last action of a deleted pod of the API, and its workflow stays open until then."""
    here = situation(context=context, **known)
    assert describe_all(list(delete_object(here))) == decision
    assert is_over(here) is over


@pytest.mark.parametrize(
    ("containers", "phase"),
    [
        pytest.param({"web": down(0)}, "Succeeded", id="all-ended-well"),
        pytest.param({"web": down(137)}, "Failed", id="one-was-killed"),
        pytest.param({}, "Failed", id="nothing-ever-ran"),
    ],
)
def test_the_last_word(containers: dict[str, Any], phase: str) -> None:
    """A final phase, and each container's exit: nothing else keeps them (status_manager.go TerminatePod)."""
    (asked,) = delete_object(situation(context=OF_API, containers=containers, **GONE))
    assert isinstance(asked, DeletePodObject)
    assert asked.status["phase"] == phase
    (web,) = asked.status["containerStatuses"]
    assert "terminated" in web["state"]
