"""How does an action's result change the observed state, and what is never overwritten?"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from proto.temporal.activities.requests import (
    AwaitPredecessor,
    DeletePodObject,
    MakePodDirectories,
    PodSandbox,
    ProbeContainer,
    PulledImage,
    PullImage,
    RemoveContainer,
    RemovePodDirectories,
    RemovePodSandbox,
    RunPodSandbox,
    RuntimeContainer,
    StartContainer,
    StopPodSandbox,
)
from proto.temporal.failure_types import CONFIG_ERROR
from proto.temporal.pod import ContainerFacts, ContainerState, Exit, Failure, Lifecycle, Observed
from proto.temporal.signals import RuntimeChanged
from tests.workflows.decide.situations import (
    IMAGE,
    KEY,
    READ,
    UNKNOWN,
    Context,
    at,
    container,
    down,
    pod,
    read,
    seen,
    situation,
    starting,
    stopping,
    up,
)
from workflows.decide.actions import Action
from workflows.decide.record.fold import Answer, fold, fold_failure
from workflows.decide.record.signals import apply_signal
from workflows.decide.steps.pod_actions import pod_actions
from workflows.decide.versions import LOOKS_FOR_STARTS

MADE = PodSandbox("s1", 1, ("10.88.0.6",), at(0))
SIMPLE: list[tuple[str, Action, Answer, Callable[[Observed], Any], Any]] = [
    ("directories-are-made", MakePodDirectories(KEY, ()), None, lambda known: known.directories, True),
    ("the-predecessor-is-gone", AwaitPredecessor(KEY), None, lambda known: known.waiting_for, ""),
    ("only-then-the-pod-is-active", AwaitPredecessor(KEY), None, lambda known: known.started_at, at(0)),
    (
        "a-sandbox-is-made",
        RunPodSandbox(KEY, 1, {}),
        MADE,
        lambda known: known.sandbox and known.sandbox.sandbox_id,
        "s1",
    ),
    ("the-one-before-is-old", RunPodSandbox(KEY, 1, {}), MADE, lambda known: known.old_sandboxes, ("s0",)),
    ("the-next-attempt-is-higher", RunPodSandbox(KEY, 1, {}), MADE, lambda known: known.next_sandbox_attempt, 2),
    (
        "a-sandbox-made-as-asked-is-all-there-is",
        RunPodSandbox(KEY, 1, {}),
        MADE,
        lambda known: known.runtime_stale,
        False,
    ),
    ("a-taken-attempt-asks-for-a-read", RunPodSandbox(KEY, 0, {}), MADE, lambda known: known.runtime_stale, True),
    (
        "a-sandbox-that-was-there-asks-for-a-read",
        RunPodSandbox(KEY, 1, {}),
        PodSandbox("s1", 1, adopted=True),
        lambda known: known.runtime_stale,
        True,
    ),
    (
        "a-sandbox-is-stopped",
        StopPodSandbox(KEY, "s0"),
        None,
        lambda known: known.sandbox and known.sandbox.stopped,
        True,
    ),
    (
        "a-stopped-one-is-not-ready",
        StopPodSandbox(KEY, "s0"),
        None,
        lambda known: known.sandbox and known.sandbox.ready,
        False,
    ),
    (
        "another-one-is-stopped",
        StopPodSandbox(KEY, "old"),
        None,
        lambda known: known.sandbox and known.sandbox.ready,
        True,
    ),
    ("the-sandbox-is-removed", RemovePodSandbox(KEY, "s0"), None, lambda known: known.sandbox, None),
    ("an-old-one-is-removed", RemovePodSandbox(KEY, "old"), None, lambda known: known.old_sandboxes, ()),
    (
        "a-dead-instance-is-removed",
        RemoveContainer(KEY, "web", "web-0"),
        None,
        lambda known: known.dead_containers["web"],
        ("web-1",),
    ),
    ("so-is-the-object", DeletePodObject(KEY, {}), None, lambda known: known.object_deleted, True),
    ("the-last-trace-is-gone", RemovePodDirectories(KEY, "Burstable"), None, lambda known: known.cleaned, True),
]


@pytest.mark.parametrize(
    ("action", "answer", "look", "expected"), [pytest.param(*row[1:], id=row[0]) for row in SIMPLE]
)
def test_answers(action: Action, answer: Answer, look: Callable[[Observed], Any], expected: Any) -> None:
    """Each result changes one fact."""
    dead = {"web": ("web-0", "web-1")}
    known: dict[str, Any] = {"directories": False, "waiting_for": "uid-0", "dead_containers": dead, "old_sandboxes": ()}
    here = situation(**known)
    if action == RemovePodSandbox(KEY, "old"):
        here.observed.old_sandboxes = ("old",)
    fold(here, action, answer)
    assert look(here.observed) == expected


def test_an_image_is_there() -> None:
    """With its digest; earlier failures are cleared."""
    here = situation(images={}, failures={f"image/{IMAGE} Always": Failure("ErrImagePull", "no", at(-9))})
    fold(here, PullImage(KEY, IMAGE, "Always"), PulledImage("sha256:2"))
    image = here.observed.images[f"{IMAGE} Always"]
    assert (image.image_ref, image.pulled, image.reason, here.observed.failures) == ("sha256:2", True, "", {})


# --- instances


def test_a_new_instance() -> None:
    """The previous exit becomes the last state, its container is kept for removal, and the next restart backs off for ten seconds."""
    here = situation(containers={"web": down(3, ended=-2)})
    fold(here, starting(attempt=1), seen(attempt=1))
    facts = here.observed.containers["web"]
    assert (facts.container_id, facts.attempt, facts.state, facts.exit) == ("web-1", 1, ContainerState.RUNNING, None)
    assert facts.last_exit == Exit("web-0", 3, "Error", "", at(-60), at(-2))
    assert (facts.backoff, facts.backoff_at) == (timedelta(seconds=10), at(0))
    assert here.observed.dead_containers["web"] == ("web-0",)
    assert not here.observed.runtime_stale


@pytest.mark.parametrize(
    ("code", "done_in", "next_start"),
    [pytest.param(0, "s0", ["web"], id="success"), pytest.param(3, "", ["first"], id="failure")],
)
def test_an_end_that_comes_with_its_start(code: int, done_in: str, next_start: list[str]) -> None:
    """It is recorded as if it had been read, no re-read follows, and the late hint of it is no news."""
    here = situation(pod(init=["first"]))
    (asked,) = pod_actions(here).begin
    assert isinstance(asked, StartContainer)
    assert asked.end_within
    fold(here, asked, seen("first", code=code))
    facts = here.observed.containers["first"]
    assert facts.exit == Exit("first-0", code, "Completed" if code == 0 else "Error", "", at(0), at(0))
    assert facts.done_in_sandbox == done_in
    apply_signal(here, RuntimeChanged("event", exited=("first-0",)))
    begun = [one.container["name"] for one in pod_actions(here).begin if isinstance(one, StartContainer)]
    assert (here.observed.runtime_stale, begun) == (False, next_start)


def test_the_first_instance_earns_nothing() -> None:
    """It was no restart."""
    here = situation()
    fold(here, starting(), seen())
    assert here.observed.containers["web"].backoff is None
    assert here.observed.dead_containers.get("web", ()) == ()


def test_an_instance_of_another_attempt_asks_for_a_read() -> None:
    """The runtime has instances that are unknown to us."""
    here = situation()
    fold(here, starting(attempt=0), seen(attempt=4))
    assert (here.observed.containers["web"].attempt, here.observed.runtime_stale) == (4, True)


def test_an_instance_that_ended_at_once() -> None:
    """Its exit came with the result."""
    here = situation(pod(init=["i"]))
    fold(here, starting("i"), seen("i", code=0))
    facts = here.observed.containers["i"]
    assert (facts.exit, facts.done_in_sandbox) == (Exit("i-0", 0, "Completed", "", at(0), at(0)), "s0")


def test_a_dead_instance_of_a_lost_sandbox_goes_with_that() -> None:
    """It is not removed separately."""
    here = situation(containers={"web": down(137, sandbox_id="old")})
    fold(here, starting(attempt=1), seen(attempt=1))
    assert here.observed.dead_containers.get("web", ()) == ()


def test_what_failed_before_is_forgotten() -> None:
    """A running container has no waiting reason."""
    facts = ContainerFacts(failure_reason="CreateContainerError", failure_message="no", failed_at=at(-9))
    here = situation(
        containers={"web": facts}, failures={"container/web": Failure("CreateContainerError", "no", at(-9))}
    )
    fold(here, starting(), seen())
    assert (here.observed.failures, facts.failure_reason, facts.failed_at) == ({}, "", None)


def test_an_image_of_policy_always_is_asked_for_again_before_each_start() -> None:
    """It may have changed."""
    source = pod(containers=[container("web", imagePullPolicy="Always")])
    here = situation(source, containers={"web": up()})
    read(here, seen(code=1))
    assert not here.observed.images[f"{IMAGE} Always"].pulled


@pytest.mark.parametrize(
    ("answer", "end"),
    [
        pytest.param(seen(code=143), (143, "Error"), id="by-signal"),
        pytest.param(seen(code=0), (0, "Completed"), id="well"),
        pytest.param(seen(code=137, reason="OOMKilled"), (137, "OOMKilled"), id="with-the-runtime-s-reason"),
        pytest.param(seen(state=ContainerState.EXITED), (137, UNKNOWN), id="nobody-knows-how"),
        pytest.param(None, (137, UNKNOWN), id="without-an-answer"),
    ],
)
def test_a_stopped_container(answer: RuntimeContainer | None, end: tuple[int, str]) -> None:
    """Its exit, and that we stopped it."""
    here = situation(containers={"web": up()})
    fold(here, stopping(), answer)
    facts = here.observed.containers["web"]
    assert facts.exit is not None
    assert (facts.exit.exit_code, facts.exit.reason, facts.stop_reason) == (*end, "ManifestRemoved")


# --- failures


@pytest.mark.parametrize(
    ("behaviour", "reason", "looks"),
    [
        pytest.param(LOOKS_FOR_STARTS, "DeadlineExceeded", True, id="its-answer-may-be-lost"),
        pytest.param(LOOKS_FOR_STARTS, CONFIG_ERROR, False, id="it-came-to-no-container"),
        pytest.param(LOOKS_FOR_STARTS - 1, "DeadlineExceeded", False, id="earlier-behaviours"),
    ],
)
def test_a_failed_start_may_have_created_its_container(behaviour: int, reason: str, looks: bool) -> None:
    """The runtime is re-read before anything else is decided; the start is retried after its delay as before."""
    here = situation(pod(), Context(behaviour=behaviour))
    fold_failure(here, starting(), reason, "no answer")
    assert (here.observed.runtime_stale, here.observed.starts_in_doubt) == (looks, looks)
    read(here)
    assert not here.observed.starts_in_doubt
    assert here.observed.failures["container/web"].reason == reason


@pytest.mark.parametrize(
    ("action", "subject"),
    [
        pytest.param(RunPodSandbox(KEY, 0, {}), "sandbox", id="sandbox"),
        pytest.param(MakePodDirectories(KEY, ()), "directories", id="directories"),
        pytest.param(starting(), "container/web", id="start"),
        pytest.param(stopping(), "container/web", id="stop"),
        pytest.param(RemoveContainer(KEY, "web", "web-0"), "remove-container/web-0", id="remove"),
        pytest.param(READ, "runtime", id="read"),
    ],
)
def test_a_failure_is_remembered_by_what_it_is_about(action: Action, subject: str) -> None:
    """With its reason, time and count; a success clears it."""
    here = situation()
    fold_failure(here, action, "Reason", "first")
    fold_failure(here, action, "Reason", "second")
    assert here.observed.failures[subject] == Failure("Reason", "second", at(0), tries=2)


def test_a_predecessor_is_no_failure() -> None:
    """It is waited for."""
    here = situation(sandbox=None)
    fold_failure(here, RunPodSandbox(KEY, 0, {}), "PredecessorPresent", "uid-0 is there")
    assert (here.observed.failures, here.observed.waiting_for) == ({}, "uid-0 is there")


def test_a_start_that_failed() -> None:
    """The container shows the reason, its attempt is not used up, and its image is pulled again."""
    here = situation()
    fold_failure(here, starting(attempt=2), "CreateContainerError", "no such device")
    facts = here.observed.containers["web"]
    assert (facts.attempt, facts.failure_reason, facts.failed_at) == (2, "CreateContainerError", at(0))
    assert not here.observed.images[f"{IMAGE} IfNotPresent"].pulled


@pytest.mark.parametrize(
    ("lifecycle", "stale"),
    [
        pytest.param(Lifecycle.SYNC, False, id="in-sync-the-next-try-finds-it"),
        pytest.param(Lifecycle.TERMINATING, True, id="while-it-goes-it-is-looked-for"),
    ],
)
def test_what_may_be_half_made(lifecycle: Lifecycle, stale: bool) -> None:
    """A failed sandbox may exist."""
    here = situation(lifecycle=lifecycle, sandbox=None)
    fold_failure(here, RunPodSandbox(KEY, 0, {}), "DeadlineExceeded", "no answer")
    assert here.observed.runtime_stale is stale


def test_a_container_that_ended_unseen_is_read_and_then_probed_again() -> None:
    """A workflow that was reset would else ask for its probes again and again, or its next instance would wait for them."""
    here = situation(pod(), containers={"web": up()})
    asked = ProbeContainer(KEY, "web", "web-0", {"name": "web"})
    fold_failure(here, asked, "ContainerEnded", "container web has ended")
    assert here.observed.runtime_stale
    assert "probe/web" in here.observed.failures
    fold(here, starting(attempt=1), seen(attempt=1))
    assert "probe/web" not in here.observed.failures
