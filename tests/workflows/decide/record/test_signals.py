"""What does a signal change, and which hints are news?"""

import copy
from datetime import timedelta
from typing import Any

import pytest

from proto.temporal.activities.requests import ReadPodRuntime, RunPodSandbox, StopContainer, StopPodSandbox
from proto.temporal.images import ImageFacts
from proto.temporal.pod import Exit, Failure
from proto.temporal.pod_inputs import Deletion
from proto.temporal.signals import DeletionRequested, PodListed, RuntimeChanged
from tests.workflows.decide.situations import (
    DEFAULT_CONTEXT,
    KEY,
    Context,
    at,
    deletion,
    describe_all,
    down,
    sandbox,
    situation,
    up,
)
from workflows.decide.containers.backoff import Backoff, next_backoff
from workflows.decide.ending.grace import DEFAULT
from workflows.decide.keys import image_key
from workflows.decide.record.signals import apply_signal
from workflows.decide.steps.pod_actions import pod_actions

LOST = RuntimeChanged("event", sandbox_lost=True)
STOPPING = Context(busy=(StopContainer(KEY, "web", "web-0", DEFAULT, at(0), ""),))
REBOOTED = RuntimeChanged("reboot")
RESTARTED = up(attempt=1, last_exit=Exit("web-0", 1, "Error"))


def exited(*containers: str, lost: bool = False) -> RuntimeChanged:
    """Build a hint with exits."""
    return RuntimeChanged("event", exited=containers, sandbox_lost=lost)


@pytest.mark.parametrize(
    ("signal", "context", "known", "news"),
    [
        pytest.param(RuntimeChanged("resync"), DEFAULT_CONTEXT, {}, True, id="one-that-names-nothing"),
        pytest.param(exited("web-0"), DEFAULT_CONTEXT, {"containers": {"web": up()}}, True, id="an-end-nobody-knew"),
        pytest.param(
            exited("web-0"), DEFAULT_CONTEXT, {"containers": {"web": down(1)}}, False, id="an-end-that-is-known"
        ),
        pytest.param(
            exited("web-0"),
            DEFAULT_CONTEXT,
            {"containers": {"web": RESTARTED}},
            False,
            id="the-end-before-the-last-start",
        ),
        pytest.param(
            exited("x"), DEFAULT_CONTEXT, {"dead_containers": {"web": ("x",)}}, False, id="the-end-of-a-dead-instance"
        ),
        pytest.param(exited("web-0"), STOPPING, {"containers": {"web": up()}}, False, id="an-end-we-will-be-told-of"),
        pytest.param(exited("web-0", "b"), STOPPING, {"containers": {"web": up()}}, True, id="one-known-and-one-not"),
        pytest.param(LOST, DEFAULT_CONTEXT, {}, True, id="the-sandbox-is-lost"),
        pytest.param(
            exited("web-0", lost=True),
            DEFAULT_CONTEXT,
            {"containers": {"web": down(1)}},
            True,
            id="a-known-end-and-that",
        ),
        pytest.param(LOST, DEFAULT_CONTEXT, {"sandbox": sandbox(ready=False)}, False, id="it-is-known-to-be-lost"),
        pytest.param(LOST, DEFAULT_CONTEXT, {"sandbox": None}, False, id="there-is-none"),
        pytest.param(LOST, Context(busy=(StopPodSandbox(KEY, "s0"),)), {}, False, id="we-are-stopping-it"),
        pytest.param(
            LOST, Context(busy=(RunPodSandbox(KEY, 0, {}),)), {"sandbox": None}, True, id="the-one-that-is-being-made"
        ),
    ],
)
def test_news(signal: RuntimeChanged, context: Context, known: dict[str, Any], news: bool) -> None:
    """Only news causes a re-read."""
    here = situation(context=context, **known)
    apply_signal(here, signal)
    assert (here.observed.runtime_stale, here.observed.signals) == (news, 1)


CRASHED = {"web": down(1, attempt=4, ended=-20, backoff=timedelta(seconds=160), backoff_at=at(-30))}
NOT_PULLED = {
    image_key("busybox:1", "IfNotPresent"): ImageFacts("", reason="ErrImagePull", backoff=DEFAULT, failed_at=at(-1))
}


@pytest.mark.parametrize(
    ("behaviour", "signal", "known", "due"),
    [
        pytest.param(5, REBOOTED, {"containers": CRASHED}, ["StartContainer web 5"], id="a-crash-loop"),
        pytest.param(5, REBOOTED, {"images": NOT_PULLED}, ["PullImage busybox:1 IfNotPresent"], id="a-pull"),
        pytest.param(4, REBOOTED, {"containers": CRASHED}, ["wake 140"], id="not-by-an-earlier-behaviour"),
        pytest.param(4, REBOOTED, {"images": NOT_PULLED}, ["wake 29"], id="nor-of-a-pull"),
        pytest.param(5, RuntimeChanged("restart"), {"containers": CRASHED}, ["wake 140"], id="not-a-new-poller"),
        pytest.param(5, RuntimeChanged("event"), {"images": NOT_PULLED}, ["wake 29"], id="not-any-other-hint"),
    ],
)
def test_a_restart_of_the_machine_ends_every_back_off(
    behaviour: int, signal: RuntimeChanged, known: dict[str, Any], due: list[str]
) -> None:
    """Restart counts stay."""
    here = situation(context=Context(behaviour=behaviour), **copy.deepcopy(known))
    apply_signal(here, signal)
    assert here.observed.runtime_stale
    here.observed.runtime_stale = False  # it was read, and tells nothing new
    plan = pod_actions(here)
    assert describe_all([*plan.begin, *plan.waits]) == due


def test_after_a_restart_of_the_machine_a_back_off_begins_anew() -> None:
    """With ten seconds, as for a container that has crashed once."""
    here = situation(containers=copy.deepcopy(CRASHED))
    apply_signal(here, REBOOTED)
    facts = here.observed.containers["web"]
    assert next_backoff(facts, here.now, timedelta(minutes=5)) == Backoff(timedelta(seconds=10), here.now)
    assert facts.attempt == 4


def test_no_hint_takes_another_s_news_back() -> None:
    """A hint without news does not cancel the re-read."""
    here = situation(runtime_stale=True, containers={"web": down(1)})
    apply_signal(here, exited("web-0"))
    assert here.observed.runtime_stale


@pytest.mark.parametrize(
    ("busy", "again"),
    [pytest.param((), False, id="no-read-under-way"), pytest.param((ReadPodRuntime(KEY),), True, id="during-a-read")],
)
def test_news_during_a_read(busy: tuple[Any, ...], again: bool) -> None:
    """The read may have missed it."""
    here = situation(context=Context(busy=busy))
    apply_signal(here, RuntimeChanged("event"))
    assert (here.observed.runtime_stale, here.observed.runtime_stale_again) == (True, again)


@pytest.mark.parametrize(
    ("asked", "known", "then"),
    [
        pytest.param(None, None, deletion(grace=30, asked=9), id="the-pod-s-own-grace"),
        pytest.param(5, None, deletion(grace=5, asked=9), id="what-is-asked-for"),
        pytest.param(0, None, deletion(grace=1, asked=9), id="never-below-a-second"),
        pytest.param(5, deletion(grace=30), deletion(grace=5, again=9), id="a-second-wish-shortens-from-when-it-comes"),
        pytest.param(0, deletion(grace=30), deletion(grace=1, again=9), id="by-force-leaves-a-second"),
        pytest.param(90, deletion(grace=30), deletion(grace=30), id="and-never-lengthens"),
        pytest.param(25, deletion(grace=30), deletion(grace=30), id="shorter-but-over-later-changes-nothing"),
        pytest.param(None, deletion(grace=30), deletion(grace=30), id="the-same-once-more-changes-nothing"),
    ],
)
def test_deletion(asked: float | None, known: Any, then: Deletion) -> None:
    """The pod is deleted with this grace period, nine seconds after an earlier deletion if there was one."""
    here = situation(context=Context(now=at(9)), deletion=known)
    wish = None if asked is None else timedelta(seconds=asked)
    apply_signal(here, DeletionRequested("file", "ManifestRemoved", "web.yaml is gone", wish))
    assert here.observed.deletion == then


@pytest.mark.parametrize(
    ("known", "stale"),
    [
        pytest.param({}, False, id="everything-went-well"),
        pytest.param({"failures": {"container/web": Failure("X", "y", at(-1))}}, True, id="something-failed"),
        pytest.param({"sandbox": None}, True, id="no-sandbox-is-known"),
        pytest.param(
            {"deletion": deletion(), "failures": {"sandbox": Failure("X", "y", at(-1))}}, False, id="a-second-one"
        ),
    ],
)
def test_a_deletion_looks_for_what_may_be_half_made(known: dict[str, Any], stale: bool) -> None:
    """Once; and earlier failures don't delay the undo."""
    here = situation(**known)
    apply_signal(here, DeletionRequested("file", "ManifestRemoved"))
    assert here.observed.runtime_stale is stale
    assert bool(here.observed.failures) is ("deletion" in known)


@pytest.mark.parametrize(
    ("signals", "again"),
    [
        pytest.param([PodListed("file")], False, id="listed-while-it-is-wanted"),
        pytest.param([DeletionRequested("file", "x"), PodListed("file")], True, id="listed-while-it-goes"),
        pytest.param(
            [DeletionRequested("file", "x"), PodListed("file"), DeletionRequested("file", "x")],
            False,
            id="and-taken-back-once-more",
        ),
    ],
)
def test_listed_again(signals: list[Any], again: bool) -> None:
    """A deleted pod that its source lists again starts over when it is gone."""
    here = situation()
    for signal in signals:
        apply_signal(here, signal)
    assert here.observed.listed_again is again


@pytest.mark.parametrize(
    ("first", "second", "goes"),
    [
        pytest.param(
            PodListed("file", sequence=2), DeletionRequested("file", "x", sequence=1), False, id="late-deletion"
        ),
        pytest.param(PodListed("file", sequence=1), DeletionRequested("file", "x", sequence=2), True, id="in-order"),
        pytest.param(PodListed("file", sequence=2), DeletionRequested("api", "x", sequence=1), True, id="other-source"),
        pytest.param(PodListed("file", sequence=2), DeletionRequested("cli", "x"), True, id="a-source-without-count"),
    ],
)
def test_a_wish_older_than_one_already_heard_is_not_followed(
    first: PodListed, second: DeletionRequested, goes: bool
) -> None:
    """A deletion whose call timed out and arrives after a newer listing does not stop the pod."""
    asked = situation()
    apply_signal(asked, first)
    apply_signal(asked, second)
    assert (asked.observed.deletion is not None) is goes
