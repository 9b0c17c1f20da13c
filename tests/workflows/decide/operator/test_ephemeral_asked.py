"""When is a request for an ephemeral container accepted, and how does a listing affect it?"""

from typing import Any

import pytest

from proto.temporal.operator import AddEphemeralContainer, EphemeralContainerAdded
from proto.temporal.pod import (
    Lifecycle,
)
from proto.temporal.signals import PodListed
from tests.workflows.decide.situations import KEY, deletion, down, pod, situation
from tests.workflows.decide.steps.test_ephemeral import UP, looked_into
from workflows.decide.operator import ephemeral
from workflows.decide.record.listing import without_ephemeral
from workflows.decide.record.signals import apply_signal
from workflows.decide.record.updates import Change, changes, taken_over


def asked(**fields: Any) -> AddEphemeralContainer:
    """Build a request."""
    return AddEphemeralContainer("root@node-1", {"name": "debug", "image": "tools:1", **fields})


@pytest.mark.parametrize(
    ("request_", "known", "refusal"),
    [
        pytest.param(asked(), {}, "", id="a-running-pod-takes-it"),
        pytest.param(
            asked(name="web"), {}, 'Invalid: spec.ephemeralContainers[0].name: Duplicate value: "web"', id="taken-name"
        ),
        pytest.param(
            asked(targetContainerName="api"),
            {},
            'Invalid: spec.ephemeralContainers[0].targetContainerName: Not found: "api"',
            id="absent-target",
        ),
        pytest.param(
            asked(),
            {"deletion": deletion()},
            "PodIsOver: default/web is terminating (ManifestRemoved): nothing starts in it any more",
            id="a-pod-that-goes",
        ),
        pytest.param(
            asked(),
            {"lifecycle": Lifecycle.TERMINATED},
            "PodIsOver: default/web has finished: nothing starts in it any more",
            id="a-pod-that-has-finished",
        ),
    ],
)
def test_when_it_is_refused(request_: AddEphemeralContainer, known: dict[str, Any], refusal: str) -> None:
    """Before it is in the history."""
    why = ephemeral.why_not(situation(containers=UP, **known), request_)
    assert (f"{why.reason}: {why.message}" if why else "") == refusal


def test_the_pod_with_it() -> None:
    """It is appended to the list and defaulted; the old pod object is not changed."""
    before = looked_into(pod(), "first")
    after = ephemeral.with_asked(situation(before, containers=UP), asked(targetContainerName="web"))
    assert after is not None
    assert [one["name"] for one in before["spec"]["ephemeralContainers"]] == ["first"]
    first, added = after["spec"]["ephemeralContainers"]
    assert first == before["spec"]["ephemeralContainers"][0]
    assert (added["imagePullPolicy"], added["terminationMessagePath"]) == ("IfNotPresent", "/dev/termination-log")
    here = situation(after, containers=UP)
    assert ephemeral.added_answer(here, asked(targetContainerName="web")) == EphemeralContainerAdded(
        "root@node-1", KEY.uid, "debug", "tools:1", "web"
    )
    down_now = situation(after, containers={"web": down(1)})
    assert (
        ephemeral.added_answer(down_now, asked(targetContainerName="web")).waits_for
        == "target container web is not running"
    )


def test_what_a_source_lists_removes_and_changes_none() -> None:
    """It may add some; a manifest does not know the operator's, nor does the pod's next life."""
    mine = looked_into(pod())
    assert changes(mine, pod()) == []
    assert taken_over(mine, pod())["spec"] == mine["spec"]
    assert taken_over(pod(), pod())["spec"] == pod()["spec"]
    listed = looked_into(pod(), "debug", "more", image="other:1")
    assert changes(mine, listed) == [Change("ephemeral container more added", in_place=True)]
    names = [(one["name"], one["image"]) for one in taken_over(mine, listed)["spec"]["ephemeralContainers"]]
    assert names == [("debug", "busybox:1"), ("more", "other:1")]
    assert without_ephemeral(mine) == pod()


def test_a_listing_that_knows_of_none_replaces_no_pod() -> None:
    """Neither one that allows edits in place nor one that does not."""
    for in_place in (True, False):
        here = situation(looked_into(pod()), containers=UP)
        assert apply_signal(here, PodListed("file", pod=pod(), in_place=in_place)) is None
        assert here.observed.deletion is None


def test_what_is_asked_and_listed_becomes_the_pod() -> None:
    """The operator's container at once, the API's with the next listing."""
    here = situation(pod(), containers=UP)
    added = apply_signal(here, asked())
    assert added is not None
    assert added == ephemeral.with_asked(here, asked())
    assert apply_signal(situation(added, containers=UP), asked()) is None, "another one of this name"
    listed = apply_signal(here, PodListed("api", pod=looked_into(pod()), in_place=True))
    assert listed is not None
    assert listed["spec"] == looked_into(pod())["spec"]
