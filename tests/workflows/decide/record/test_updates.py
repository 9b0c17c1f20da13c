"""What happens on an edit under the same uid: is it applied in place, is the pod replaced, or neither?"""

import copy
from typing import Any

import pytest

from proto.temporal.activities.requests import StartContainer
from proto.temporal.pod import Lifecycle, PodJson
from proto.temporal.pod_inputs import Eviction
from proto.temporal.signals import DeletionRequested, PodListed
from tests.workflows.decide.situations import at, container, deletion, describe_all, pod, situation, up
from workflows.decide.record.signals import apply_signal
from workflows.decide.record.updates import Outcome, changes, judge
from workflows.decide.status.status import pod_status
from workflows.decide.steps.pod_actions import Plan, pod_actions

EXISTS = {"operator": "Exists"}
A_WHILE = {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}


def edited(source: PodJson, **spec: Any) -> PodJson:
    """Change fields of the spec; None removes one."""
    changed = {**source["spec"], **spec}
    return {**source, "spec": {name: value for name, value in changed.items() if value is not None}}


def relabelled(source: PodJson, **metadata: Any) -> PodJson:
    """Change the metadata."""
    return {**source, "metadata": {**source["metadata"], **metadata}}


OLD = pod()
LIMITED = pod(activeDeadlineSeconds=60)
TOLERANT = pod(tolerations=[EXISTS, A_WHILE])


@pytest.mark.parametrize(
    ("old", "new", "outcome", "words"),
    [
        pytest.param(OLD, OLD, Outcome.NOTHING, [], id="no-change"),
        pytest.param(
            OLD,
            relabelled(OLD, annotations={"kubernetes.io/config.seen": "later"}),
            Outcome.NOTHING,
            [],
            id="another-reading",
        ),
        pytest.param(OLD, edited(OLD, tolerations=[]), Outcome.NOTHING, [], id="empty-is-unset"),
        pytest.param(OLD, relabelled(OLD, generation=2), Outcome.NOTHING, [], id="a-generation-alone"),
        pytest.param(
            relabelled(OLD, labels={"a": "1", "b": "1", "c": "1"}),
            relabelled(OLD, labels={"a": "1", "b": "2", "d": "1"}),
            Outcome.IN_PLACE,
            ["labels b, c, d"],
            id="labels-change-come-and-go",
        ),
        pytest.param(
            OLD, relabelled(OLD, annotations={"a": "secret"}), Outcome.IN_PLACE, ["annotations a"], id="annotations"
        ),
        pytest.param(
            OLD,
            edited(OLD, activeDeadlineSeconds=60),
            Outcome.IN_PLACE,
            ["activeDeadlineSeconds set to 60"],
            id="a-deadline-is-set",
        ),
        pytest.param(
            LIMITED,
            edited(LIMITED, activeDeadlineSeconds=59),
            Outcome.IN_PLACE,
            ["activeDeadlineSeconds from 60 to 59"],
            id="a-deadline-is-shortened",
        ),
        pytest.param(
            LIMITED,
            edited(LIMITED, activeDeadlineSeconds=61),
            Outcome.REPLACED,
            ["activeDeadlineSeconds from 60 to 61"],
            id="a-deadline-is-never-lengthened",
        ),
        pytest.param(
            LIMITED,
            edited(LIMITED, activeDeadlineSeconds=None),
            Outcome.REPLACED,
            ["activeDeadlineSeconds 60 removed"],
            id="nor-taken-away",
        ),
        pytest.param(
            TOLERANT,
            edited(TOLERANT, tolerations=[{"key": "b", "operator": "Exists"}, A_WHILE, EXISTS]),
            Outcome.IN_PLACE,
            ["tolerations"],
            id="a-toleration-is-added",
        ),
        pytest.param(
            TOLERANT,
            edited(TOLERANT, tolerations=[EXISTS, {**A_WHILE, "tolerationSeconds": 5}]),
            Outcome.IN_PLACE,
            ["tolerations"],
            id="for-another-time",
        ),
        pytest.param(
            TOLERANT, edited(TOLERANT, tolerations=[EXISTS]), Outcome.REPLACED, ["tolerations"], id="one-is-taken-away"
        ),
        pytest.param(
            pod(terminationGracePeriodSeconds=-1),
            pod(terminationGracePeriodSeconds=1),
            Outcome.IN_PLACE,
            ["terminationGracePeriodSeconds from -1 to 1"],
            id="a-negative-grace-is-mended",
        ),
        pytest.param(
            OLD,
            pod(terminationGracePeriodSeconds=1),
            Outcome.REPLACED,
            ["terminationGracePeriodSeconds from 30 to 1"],
            id="any-other-grace-stays",
        ),
        pytest.param(
            OLD,
            edited(OLD, containers=[container("web", command=["sleep", "1"])]),
            Outcome.REPLACED,
            ["command of web"],
            id="a-command-and-its-words-are-not-told",
        ),
        pytest.param(
            OLD,
            edited(OLD, containers=[container("web", image="busybox:2")]),
            Outcome.IN_PLACE,
            ["image of web from busybox:1 to busybox:2"],
            id="an-image",
        ),
        pytest.param(
            edited(OLD, containers=[container("web", image="busybox", imagePullPolicy="Always")]),
            OLD,
            Outcome.IN_PLACE,
            ["image of web from busybox to busybox:1", "imagePullPolicy of web from Always to IfNotPresent"],
            id="with-the-pull-policy-that-follows-from-it",
        ),
        pytest.param(
            OLD,
            edited(OLD, containers=[container("web", image="busybox:2", imagePullPolicy="Always")]),
            Outcome.REPLACED,
            ["image of web from busybox:1 to busybox:2", "imagePullPolicy of web from IfNotPresent to Always"],
            id="but-with-no-other-pull-policy",
        ),
        pytest.param(
            pod(init=["first"]),
            edited(pod(init=["first"]), initContainers=[container("first", image="busybox:2")]),
            Outcome.IN_PLACE,
            ["image of first from busybox:1 to busybox:2"],
            id="an-init-containers-image",
        ),
        pytest.param(
            OLD, pod("web", "more"), Outcome.REPLACED, ["the names or order of containers"], id="a-container-more"
        ),
        pytest.param(
            pod("a", "b"), pod("b", "a"), Outcome.REPLACED, ["the names or order of containers"], id="another-order"
        ),
        pytest.param(
            OLD, pod(init=["first"]), Outcome.REPLACED, ["the names or order of initContainers"], id="an-init-container"
        ),
        pytest.param(
            OLD,
            relabelled(edited(OLD, hostNetwork=True), labels={"a": "1"}),
            Outcome.REPLACED,
            ["labels a", "hostNetwork set to True"],
            id="one-that-can-and-one-that-cannot",
        ),
    ],
)
def test_an_edit(old: PodJson, new: PodJson, outcome: Outcome, words: list[str]) -> None:
    """Each row is the old and the new listing."""
    before = copy.deepcopy((old, new))
    assert judge(situation().observed, old, new) is outcome
    assert [one.words for one in changes(old, new)] == words
    assert (old, new) == before


@pytest.mark.parametrize(
    "known",
    [
        pytest.param({"lifecycle": Lifecycle.TERMINATING, "finished_at": at(-1)}, id="that-is-finishing"),
        pytest.param({"lifecycle": Lifecycle.TERMINATED, "finished_at": at(-1)}, id="that-has-finished"),
        pytest.param(
            {"lifecycle": Lifecycle.TERMINATING, "eviction": Eviction(at(-1), "DeadlineExceeded", "")},
            id="that-is-evicted",
        ),
        pytest.param({"deletion": deletion()}, id="that-is-deleted"),
    ],
)
def test_a_pod_takes_nothing_over(known: dict[str, Any]) -> None:
    """Each row is a pod; edits that can't be applied in place replace it nevertheless."""
    observed = situation(**known).observed
    assert judge(observed, OLD, relabelled(OLD, labels={"a": "1"})) is Outcome.NOTHING
    assert judge(observed, OLD, edited(OLD, hostNetwork=True)) is Outcome.REPLACED


def test_an_edit_in_place_is_the_pod_from_now_on() -> None:
    """With its generation; its creation time stays."""
    old = relabelled(OLD, annotations={"kubernetes.io/config.seen": "first", "a": "1"})
    new = relabelled(OLD, annotations={"kubernetes.io/config.seen": "later", "a": "2"}, generation=2)
    here = situation(old, containers={"web": up()})
    taken = apply_signal(here, PodListed("file", pod=new, in_place=True))
    assert taken == relabelled(new, annotations={"kubernetes.io/config.seen": "first", "a": "2"})
    assert pod_status(situation(taken)).observed_generation == 2
    assert here.observed.deletion is None
    assert not here.observed.listed_again
    assert pod_actions(situation(taken, containers={"web": up()})) == Plan()
    (start,) = pod_actions(situation(taken)).begin
    assert isinstance(start, StartContainer)
    assert start.sandbox_spec["metadata"]["annotations"]["a"] == "2"


def test_what_cannot_change_in_place_says_so() -> None:
    """The pod is deleted for it, and starts over as listed."""
    here, new = situation(), edited(OLD, hostNetwork=True)
    assert apply_signal(here, PodListed("file", pod=new, in_place=True)) is None
    assert here.observed.deletion is not None
    assert here.observed.deletion.reason == "ManifestReplaced"
    assert here.observed.deletion.message.endswith("hostNetwork set to True can't be changed in place")
    assert here.observed.listed_pod == new


def test_a_source_that_knows_of_no_edit_in_place_replaces_the_pod() -> None:
    """As in recorded histories."""
    here = situation()
    assert apply_signal(here, PodListed("file", pod=relabelled(OLD, labels={"a": "1"}))) is None
    assert here.observed.deletion is not None
    assert here.observed.listed_again


def test_an_edit_of_a_pod_that_goes_is_what_comes_back() -> None:
    """It is not applied, but listed again."""
    here = situation()
    apply_signal(here, DeletionRequested("file", "ManifestRemoved"))
    new = relabelled(OLD, labels={"a": "1"})
    assert apply_signal(here, PodListed("file", pod=new, in_place=True)) is None
    assert here.observed.listed_pod == new
    assert here.observed.deletion is not None
    assert here.observed.deletion.reason == "ManifestRemoved"


@pytest.mark.parametrize(
    ("seconds", "answers"),
    [
        pytest.param(90, ["wake 30"], id="a-deadline-to-come-is-a-timer"),
        pytest.param(30, ["wake -30"], id="one-that-is-over-is-due"),
    ],
)
def test_a_deadline_that_is_set_later_counts_from_the_start(seconds: int, answers: list[str]) -> None:
    """The pod of every row has been active for a minute."""
    taken = apply_signal(situation(), PodListed("file", pod=edited(OLD, activeDeadlineSeconds=seconds), in_place=True))
    assert taken is not None
    wake = pod_actions(situation(taken)).wake
    assert wake is not None
    assert describe_all([wake]) == answers
