"""What happens to a container whose image is edited: while it runs, after it exited, or before its first start?

The kubelet's rows are those of TestComputePodActions ("Kill and recreate the container if the container's spec has changed")
and TestComputePodActionsWithRestartableInitContainers.
"""

from datetime import timedelta

import pytest

from proto.kubernetes.container_hash import container_hash
from proto.temporal.activities.requests import PulledImage, PullImage, StopContainer
from proto.temporal.hooks import HookOutcome
from proto.temporal.images import ImageFacts
from proto.temporal.pod import (
    ContainerFacts,
    ContainerState,
    Failure,
    PodJson,
    ProbeFact,
    ProbeKind,
)
from tests.workflows.decide.containers.edits import NEW, NEW_HASH, OLD_HASH, SIDE, after_edit, one, relisted, with_image
from tests.workflows.decide.situations import (
    IMAGE,
    KEY,
    at,
    describe_all,
    done,
    down,
    pod,
    read,
    seen,
    situation,
    starting,
    stopping,
    up,
)
from workflows.decide.containers.restart import RestartPolicy, regular_should_restart
from workflows.decide.containers.standing import is_due
from workflows.decide.keys import image_key
from workflows.decide.record.fold import fold
from workflows.decide.situation import Situation
from workflows.decide.status.status import pod_status
from workflows.decide.steps.pod_actions import answers


@pytest.mark.parametrize("policy", ["Always", "OnFailure", "Never"])
def test_one_that_runs_is_stopped_whatever_its_policy(policy: str) -> None:
    """With the pod's own grace period and the kubelet's message; then its next attempt starts without back-off."""
    facts = up(hash=OLD_HASH, backoff=timedelta(seconds=160), backoff_at=at(-10))
    here = after_edit(one(policy), {"containers": {"web": facts}})
    (stop,) = answers(here)
    assert isinstance(stop, StopContainer)
    assert (stop.name, stop.grace) == ("web", timedelta(seconds=30))
    assert stop.reason == "Container web definition changed, will be restarted"
    fold(here, stop, seen(code=0, hash=OLD_HASH, finished_at=at(0)))
    assert describe_all(answers(here)) == ["StartContainer web 1"]
    assert pod_status(here).phase == "Running"
    fold(here, starting("web", 1), seen(attempt=1, hash=NEW_HASH))
    assert answers(here) == []
    assert here.facts("web").backoff == timedelta(seconds=10)


@pytest.mark.parametrize(
    ("source", "name", "facts", "expected"),
    [
        pytest.param(one(), "web", {"web": up(hash=NEW_HASH)}, [], id="one-that-is-made-of-it-already"),
        pytest.param(
            one(), "web", {"web": up()}, ["StopContainer web"], id="one-of-an-earlier-release-is-told-by-the-spec"
        ),
        pytest.param(
            one(), "web", {"web": down(1, hash=OLD_HASH)}, ["StartContainer web 1"], id="one-that-ended-starts-with-it"
        ),
        pytest.param(
            one(),
            "web",
            {"web": down(1, hash=OLD_HASH, backoff=timedelta(seconds=80), backoff_at=at(-1))},
            ["StartContainer web 1"],
            id="its-back-off-begins-anew",
        ),
        pytest.param(
            one(),
            "web",
            {"web": ContainerFacts(failure_reason="CreateContainerError", failed_at=at(-1))},
            ["StartContainer web 0"],
            id="one-that-could-not-start-tries-at-once",
        ),
        pytest.param(
            one(),
            "web",
            {"web": up(state=ContainerState.CREATED, hash=OLD_HASH)},
            ["StartContainer web 0"],
            id="created",
        ),
        pytest.param(
            pod(init=["first"]),
            "first",
            {"first": up("first", hash=container_hash("first", IMAGE))},
            [],
            id="an-init-container-is-left-to-end",
        ),
        pytest.param(
            pod(init=["first"]),
            "first",
            {"first": down(1, "first", backoff=timedelta(seconds=80), backoff_at=at(-1))},
            ["StartContainer first 1"],
            id="one-that-failed-starts-with-it",
        ),
        pytest.param(
            pod(init=["first"]), "first", {"first": done("first"), "web": up()}, [], id="one-that-succeeded-stays-done"
        ),
        pytest.param(
            pod(init=["+side"]),
            "side",
            {"side": up("side", hash=SIDE), "web": up()},
            ["StopContainer side"],
            id="a-sidecar-restarts-alone",
        ),
        pytest.param(
            pod(init=["+side"]),
            "side",
            {"side": up("side", hash=SIDE), "web": down(0, ended=-5)},
            ["StopContainer side", "StartContainer web 1"],
            id="beside-others-that-start",
        ),
    ],
)
def test_an_image_is_edited(source: PodJson, name: str, facts: dict[str, ContainerFacts], expected: list[str]) -> None:
    """Each row has the containers' facts before the edit."""
    here = after_edit(source, {"containers": facts}, name=name)
    assert [text for text in describe_all(answers(here)) if not text.startswith("wake")] == expected


def test_a_sidecar_whose_startup_probe_has_not_succeeded_is_not_stopped_yet() -> None:
    """Like the kubelet, which checks its definition only after that."""
    source = pod(init=["+side"])
    source["spec"]["initContainers"][0]["startupProbe"] = {"tcpSocket": {"port": 80}}
    here = after_edit(source, {"containers": {"side": up("side", hash=SIDE), "web": up()}}, name="side")
    assert describe_all(answers(here)) == ["ProbeContainer side"]
    here.observed.containers["side"].probes[ProbeKind.STARTUP] = ProbeFact(success=True)
    (stop,) = answers(here)
    assert isinstance(stop, StopContainer)
    assert stop.reason == "Init container side definition changed"


def test_its_image_is_looked_for_by_its_pull() -> None:
    """A new image is found by its pull, so no ReadImages delays a re-read; an image that returns to the spec is looked for again."""
    source = pod("web", "other")
    here = after_edit(source, {"containers": {"web": up(hash=OLD_HASH), "other": up("other")}}, present=False)
    assert describe_all(answers(here)) == [f"PullImage {NEW} IfNotPresent", "StopContainer web"]
    assert here.observed.images[image_key(IMAGE, "IfNotPresent")].pulled, "the other one names it still"
    alone = after_edit(one(), {"containers": {"web": up(hash=OLD_HASH)}}, present=False)
    assert list(alone.observed.images) == [image_key(NEW, "IfNotPresent")]


@pytest.mark.parametrize("policy", ["OnFailure", "Never"])
def test_one_that_had_succeeded_by_itself_stays_down(policy: str) -> None:
    """Its restart policy decides, as always."""
    here = after_edit(one(policy), {"containers": {"web": down(0, hash=OLD_HASH)}})
    assert describe_all(answers(here)) == []


def test_one_that_ends_by_itself_meanwhile_starts_again() -> None:
    """It was running when it was edited."""
    here = after_edit(one("Never"), {"containers": {"web": up(hash=OLD_HASH)}})
    read(here, seen(code=0, hash=OLD_HASH, finished_at=at(0)))
    assert describe_all(answers(here)) == ["StartContainer web 1"]


def test_an_edit_that_is_taken_back_in_time_stops_nothing() -> None:
    """Before the stop has started; a started stop ends in a restart."""
    source = one()
    here = after_edit(source, {"containers": {"web": up(hash=OLD_HASH)}})
    back = relisted(here, source)
    assert not back.facts("web").outdated
    stopped = after_edit(one("Never"), {"containers": {"web": up(hash=OLD_HASH)}}, busy=(stopping(),))
    assert not stopped.facts("web").outdated, "stopped for another reason"
    stopped.observed.containers["web"].outdated = True
    assert relisted(stopped, one("Never")).facts("web").outdated


def test_an_instance_that_came_up_by_the_old_image_is_stopped() -> None:
    """Its start was in progress during the edit."""
    here = after_edit(one("Never"), {"containers": {"web": down(1)}}, busy=(starting("web", 1),))
    free = Situation(KEY, here.spec, here.source, here.observed, here.now, here.settings, here.behaviour)
    fold(free, starting("web", 1), seen(attempt=1, hash=OLD_HASH))
    assert describe_all(answers(free)) == ["StopContainer web"]
    assert free.facts("web").backoff is None, "what its start has earned is the old image's"


def test_a_history_that_was_lost_finds_an_outdated_container() -> None:
    """By what the runtime reports; one that has exited is not outdated."""
    here = situation(with_image(one("Never")), sandbox=None)
    read(here, seen(hash=OLD_HASH))
    assert describe_all(answers(here)) == ["MakePodDirectories", "StopContainer web"][-len(answers(here)) :]
    assert here.facts("web").outdated
    ended = situation(with_image(one("Never")))
    read(ended, seen(code=0, hash=OLD_HASH))
    assert not ended.facts("web").outdated


def test_its_image_is_pulled_beside_the_stop() -> None:
    """With policy Always too, and then it is not pulled again before the start."""
    source = one(imagePullPolicy="Always")
    here = after_edit(source, {"containers": {"web": up(hash=OLD_HASH)}}, present=False)
    assert describe_all(answers(here)) == [f"PullImage {NEW} Always", "StopContainer web"]
    fold(here, PullImage(KEY, NEW, "Always"), PulledImage("sha256:2"))
    fold(here, stopping(), seen(code=0, hash=OLD_HASH, finished_at=at(0)))
    assert describe_all(answers(here)) == ["StartContainer web 1"]


def test_a_pull_that_failed_keeps_its_back_off_and_a_container_its_wait() -> None:
    """Also with policy Never: the container starts with the new image once that is available."""
    here = after_edit(one("Never"), {"containers": {"web": up(hash=OLD_HASH)}}, present=False)
    here.observed.images[image_key(NEW, "IfNotPresent")] = ImageFacts(
        reason="ErrImagePull", message="no such host", backoff=timedelta(seconds=10), failed_at=at(0)
    )
    fold(here, stopping(), seen(code=0, hash=OLD_HASH, finished_at=at(0)))
    assert describe_all(answers(here)) == ["wake 10"]
    status = pod_status(here)
    assert status.phase == "Running"
    assert status.container_statuses is not None
    state = status.container_statuses[0].state
    assert state is not None
    assert state.waiting is not None
    assert state.waiting.reason == "ErrImagePull"
    back = relisted(here, one("Never"))
    assert describe_all(answers(back)) == [f"PullImage {IMAGE} IfNotPresent"], (
        "taken back, it starts again by the old image"
    )


def test_what_failed_for_the_old_image_delays_nothing() -> None:
    """Neither its start nor its reported reason."""
    failed = ContainerFacts(failure_reason="CreateContainerError", failure_message="odd", failed_at=at(-1))
    known = {
        "containers": {"web": failed},
        "failures": {"container/web": Failure("CreateContainerError", "odd", at(-1), 5)},
    }
    here = after_edit(one(), known)
    assert describe_all(answers(here)) == ["StartContainer web 0"]
    assert not here.facts("web").failure_reason


def test_its_hook_runs_before_the_stop() -> None:
    """As before any stop; taking back the edit meanwhile changes nothing."""
    source = one(lifecycle={"preStop": {"sleep": {"seconds": 1}}})
    here = after_edit(source, {"containers": {"web": up(hash=OLD_HASH)}})
    assert describe_all(answers(here)) == ["RunHook web/preStop/web-0"]
    here.observed.containers["web"].pre_stop = HookOutcome("web-0", succeeded=True, asked_at=at(0), ended_at=at(1))
    back = relisted(here, source)
    assert describe_all(answers(back)) == [f"PullImage {IMAGE} IfNotPresent", "StopContainer web"]


def test_nothing_is_probed_that_is_stopped_for_another_image() -> None:
    """Nor is it stopped for a failed probe."""
    source = one(livenessProbe={"tcpSocket": {"port": 80}})
    facts = up(hash=OLD_HASH, probes={ProbeKind.LIVENESS: ProbeFact(success=False)})
    (stop,) = answers(after_edit(source, {"containers": {"web": facts}}))
    assert isinstance(stop, StopContainer)
    assert stop.reason == "Container web definition changed, will be restarted"


def test_outdated_ones_come_back_whatever_they_ended_with() -> None:
    """Besides failed probes, the only exception to the restart policy."""
    spec = situation(one()).containers[0]
    assert regular_should_restart(spec, RestartPolicy.NEVER, down(0, outdated=True))
    assert not regular_should_restart(spec, RestartPolicy.NEVER, down(0))


def test_a_pod_has_no_last_phase_while_a_container_starts_again() -> None:
    """With policy Never, neither the exit by our stop nor the hook makes the pod Failed."""
    source = one("Never", lifecycle={"postStart": {"sleep": {"seconds": 1}}})
    ended = down(143).exit
    here = situation(source, containers={"web": up(attempt=1, last_exit=ended)})
    status = pod_status(here)
    assert status.phase == "Running"
    assert describe_all(answers(here)) == ["RunHook web/postStart/web-1"]


def test_other_resources_begin_the_back_off_anew() -> None:
    """A container that was OOM-killed need not wait out the back-off from its old limit."""
    source = one(resources={"limits": {"memory": "64Mi"}})
    facts = down(137, backoff=timedelta(seconds=160), backoff_at=at(-1))
    here = relisted(situation(source, containers={"web": facts}), one(resources={"limits": {"memory": "128Mi"}}))
    assert is_due(here, here.containers[0])
