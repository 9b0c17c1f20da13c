"""Which back-offs may an operator skip, and does everything else stay as without the skip?"""

from datetime import timedelta
from typing import Any

import pytest

from proto.temporal.activities.requests import PullImage
from proto.temporal.images import ImageFacts
from proto.temporal.operator import SkipBackoff
from proto.temporal.pod import Lifecycle
from tests.workflows.decide.situations import (
    IMAGE,
    KEY,
    Context,
    at,
    container,
    deletion,
    describe_all,
    down,
    pod,
    seen,
    situation,
    up,
)
from workflows.decide.keys import image_key
from workflows.decide.operator.skips import waiting_backoffs, why_not
from workflows.decide.record.fold import fold, fold_failure
from workflows.decide.record.signals import apply_signal
from workflows.decide.steps.pod_actions import pod_actions

HERE = image_key(IMAGE, "IfNotPresent")
FORTY: dict[str, Any] = {"backoff": timedelta(seconds=40), "backoff_at": at(-50)}
LOOPS = down(1, attempt=3, **FORTY)
NOT_FOUND = ImageFacts(reason="ErrImagePull", message="not found", backoff=timedelta(seconds=20), failed_at=at(-5))
AB = pod("a", "b")


@pytest.mark.parametrize(
    ("source", "known", "name", "waiting"),
    [
        pytest.param(pod(), {"containers": {"web": LOOPS}}, "", ["CrashLoopBackOff: restart 4 of web"], id="a-loop"),
        pytest.param(pod(), {"images": {HERE: NOT_FOUND}}, "", ["ErrImagePull: pull busybox:1 for web"], id="an-image"),
        pytest.param(pod(), {"containers": {"web": up()}}, "", [], id="nothing-waits"),
        pytest.param(pod(), {"containers": {"web": down(1)}}, "", [], id="the-first-restart-comes-at-once"),
        pytest.param(
            pod(restartPolicy="Never"), {"containers": {"web": LOOPS}}, "", [], id="what-stays-down-waits-for-nothing"
        ),
        pytest.param(
            AB,
            {"containers": {"a": down(1, "a", **FORTY), "b": down(1, "b", **FORTY)}},
            "b",
            ["CrashLoopBackOff: restart 1 of b"],
            id="only-the-named-one",
        ),
        pytest.param(
            AB, {"images": {HERE: NOT_FOUND}}, "", ["ErrImagePull: pull busybox:1 for a"], id="one-image-of-two-once"
        ),
        pytest.param(
            AB, {"images": {HERE: NOT_FOUND}}, "b", ["ErrImagePull: pull busybox:1 for b"], id="asked-for-by-the-other"
        ),
        pytest.param(
            pod(),
            {"containers": {"web": LOOPS}, "deletion": deletion()},
            "",
            [],
            id="a-pod-that-goes-waits-for-nothing",
        ),
        pytest.param(
            pod(init=["i"], restartPolicy="Never"),
            {"containers": {"i": down(1, "i")}, "images": {HERE: NOT_FOUND}},
            "",
            [],
            id="nothing-starts-after-a-failed-init-container",
        ),
        pytest.param(
            pod(),
            {"containers": {"web": LOOPS}, "images": {HERE: NOT_FOUND}},
            "",
            ["CrashLoopBackOff: restart 4 of web", "ErrImagePull: pull busybox:1 for web"],
            id="a-loop-and-the-image-that-it-needs-then",
        ),
    ],
)
def test_what_waits(source: dict[str, Any], known: dict[str, Any], name: str, waiting: list[str]) -> None:
    """Which waits a skip would end."""
    assert [str(one) for one in waiting_backoffs(situation(source, **known), name)] == waiting


@pytest.mark.parametrize(
    ("known", "name", "reason", "message"),
    [
        pytest.param({"containers": {"web": LOOPS}}, "", "", "", id="granted"),
        pytest.param(
            {"containers": {"web": LOOPS}},
            "api",
            "NoSuchContainer",
            "no container 'api': it has web",
            id="a-wrong-name",
        ),
        pytest.param(
            {"containers": {"web": up()}}, "web", "NoBackoff", "container web of default/web waits in no", id="up"
        ),
        pytest.param(
            {"containers": {"web": up()}}, "", "NoBackoff", "no container of default/web waits in a", id="all-up"
        ),
        pytest.param({"deletion": deletion()}, "", "NoBackoff", "the pod is terminating (ManifestRemoved)", id="going"),
        pytest.param({"lifecycle": Lifecycle.TERMINATED}, "", "NoBackoff", "the pod has finished", id="finished"),
    ],
)
def test_a_skip_of_nothing_is_refused(known: dict[str, Any], name: str, reason: str, message: str) -> None:
    """With the reason, and the valid names."""
    refusal = why_not(situation(**known), SkipBackoff("root@node-1", name))
    assert (refusal.reason if refusal else "") == reason
    assert message in (refusal.message if refusal else "")


def test_the_others_that_wait_are_named() -> None:
    """A refusal of the wrong name lists the right ones."""
    containers = {"a": up("a"), "b": down(1, "b", **FORTY)}
    refusal = why_not(situation(AB, containers=containers), SkipBackoff("root@node-1", "a"))
    assert refusal is not None
    assert "container a of default/web waits in no back-off; b does" in refusal.message


def test_a_loop_is_skipped_and_goes_on_where_it_would_have() -> None:
    """It starts now; after its next exit it waits 80 s, as if it had waited 40 s."""
    here = situation(containers={"web": down(1, attempt=3, **FORTY)})
    assert describe_all(pod_actions(here).begin) == []
    apply_signal(here, SkipBackoff("root@node-1"))
    (start,) = pod_actions(here).begin
    assert describe_all([start]) == ["StartContainer web 4"]
    fold(here, start, seen(attempt=4, created_at=at(0)))
    facts = here.observed.containers["web"]
    assert (facts.backoff, facts.skipped_at) == (timedelta(seconds=80), None)


def test_a_skip_ends_only_one_wait() -> None:
    """The next exit waits again."""
    here = situation(containers={"web": down(1, attempt=3, **FORTY)})
    apply_signal(here, SkipBackoff("root@node-1"))
    (start,) = pod_actions(here).begin
    fold(here, start, seen(attempt=4, code=1, created_at=at(0), finished_at=at(1)))
    after = pod_actions(here)
    assert (describe_all(after.begin), after.wake and after.wake.at) == ([], at(81))


def test_an_image_is_pulled_now_and_its_next_failure_waits_longer() -> None:
    """40 s after the 20 s that were skipped."""
    pull = PullImage(KEY, IMAGE, "IfNotPresent")
    source = pod(containers=[container("web")])
    here = situation(source, images={HERE: NOT_FOUND})
    apply_signal(here, SkipBackoff("root@node-1"))
    assert pod_actions(here).begin == (pull,)
    fold_failure(here, pull, "ErrImagePull", "not found")
    failed = here.observed.images[HERE]
    assert (failed.backoff, failed.skipped_at) == (timedelta(seconds=40), None)


def test_a_skip_while_the_pull_is_under_way_changes_nothing() -> None:
    """It is already being retried."""
    pull = PullImage(KEY, IMAGE, "IfNotPresent")
    early = ImageFacts(reason="ErrImagePull", backoff=timedelta(seconds=20), failed_at=at(-25))
    here = situation(pod(), Context(busy=(pull,)), images={HERE: early})
    assert waiting_backoffs(here) == []
