"""What moves a pod between sync, terminating and terminated, and what does not?"""

import re
from itertools import product
from typing import Any

import pytest

from proto.temporal.activities.requests import RunPodSandbox, StopContainer
from proto.temporal.pod import Failure, Lifecycle
from proto.temporal.pod_inputs import Ended, Eviction
from tests.workflows.decide.situations import (
    DEFAULT_CONTEXT,
    KEY,
    READ,
    Context,
    at,
    container,
    deletion,
    done,
    down,
    pod,
    sandbox,
    situation,
    starting,
    up,
)
from workflows.decide.ending.grace import DEFAULT
from workflows.decide.lifecycle.lifecycle import TRANSITIONS, Event, after, happened, next_event
from workflows.decide.record.fold import fold_failure
from workflows.decide.steps.pod_actions import pod_actions

SYNC, TERMINATING, TERMINATED = Lifecycle.SYNC, Lifecycle.TERMINATING, Lifecycle.TERMINATED
STOPPED = sandbox(ready=False, stopped=True)
STOPPING = Context(busy=(StopContainer(KEY, "web", "web-0", DEFAULT, at(0), "ManifestRemoved"),))
MAKING = Context(busy=(RunPodSandbox(KEY, 0, {}),))
LIMITED = pod(restartPolicy="Never", activeDeadlineSeconds=60)
"""Active for exactly this long."""
NEVER, ON_FAILURE = pod(restartPolicy="Never"), pod(restartPolicy="OnFailure")


@pytest.mark.parametrize(
    ("state", "event", "then"),
    [
        pytest.param(SYNC, Event.DELETION_REQUESTED, TERMINATING, id="a-deleted-pod-goes"),
        pytest.param(SYNC, Event.POD_FINISHED, TERMINATING, id="a-finished-pod-goes"),
        pytest.param(SYNC, Event.DEADLINE_EXCEEDED, TERMINATING, id="a-pod-that-was-active-too-long-goes"),
        pytest.param(SYNC, Event.EVICTED, TERMINATING, id="a-pod-that-its-node-ends-goes"),
        pytest.param(TERMINATING, Event.LAST_CONTAINER_EXITED, TERMINATED, id="and-has-gone-when-nothing-runs"),
    ],
)
def test_table(state: Lifecycle, event: Event, then: Lifecycle) -> None:
    """Every pair of the table."""
    assert after(state, event) is then


def test_every_other_pair_is_an_error_that_names_both() -> None:
    """No state is left by an event that is not in the table."""
    absent = [pair for pair in product(Lifecycle, Event) if pair not in TRANSITIONS]
    assert len(absent) == len(Lifecycle) * len(Event) - len(TRANSITIONS)
    for state, event in absent:
        with pytest.raises(LookupError, match=re.escape(f"a pod in state {state} knows no {event}")):
            after(state, event)


@pytest.mark.parametrize(
    ("source", "context", "known", "event"),
    [
        pytest.param(pod(), DEFAULT_CONTEXT, {"containers": {"web": up()}}, None, id="a-running-pod"),
        pytest.param(pod(), DEFAULT_CONTEXT, {"sandbox": None}, None, id="a-pod-that-is-not-up-yet"),
        pytest.param(pod(), DEFAULT_CONTEXT, {"deletion": deletion()}, Event.DELETION_REQUESTED, id="deleted"),
        pytest.param(pod(), DEFAULT_CONTEXT, {"containers": {"web": down(1)}}, None, id="always-never-finishes"),
        pytest.param(
            NEVER, DEFAULT_CONTEXT, {"containers": {"web": down(1)}}, Event.POD_FINISHED, id="never-and-failed"
        ),
        pytest.param(
            NEVER, DEFAULT_CONTEXT, {"containers": {"web": down(0)}}, Event.POD_FINISHED, id="never-and-succeeded"
        ),
        pytest.param(
            ON_FAILURE, DEFAULT_CONTEXT, {"containers": {"web": down(0)}}, Event.POD_FINISHED, id="on-failure-succeeded"
        ),
        pytest.param(ON_FAILURE, DEFAULT_CONTEXT, {"containers": {"web": down(1)}}, None, id="on-failure-and-failed"),
        pytest.param(
            pod("a", "b", restartPolicy="Never"),
            DEFAULT_CONTEXT,
            {"containers": {"a": down(0, "a"), "b": up("b")}},
            None,
            id="one-of-two-still-runs",
        ),
        pytest.param(
            pod("a", "b", restartPolicy="Never"),
            DEFAULT_CONTEXT,
            {"containers": {"a": down(0, "a")}},
            None,
            id="one-never-started",
        ),
        pytest.param(
            pod(init=["i"], restartPolicy="Never"),
            DEFAULT_CONTEXT,
            {"containers": {"i": down(1, "i")}},
            Event.POD_FINISHED,
            id="never-and-a-failed-init-container",
        ),
        pytest.param(
            pod(init=["i"], restartPolicy="Never"),
            DEFAULT_CONTEXT,
            {"containers": {"i": done("i")}},
            None,
            id="initialized-only",
        ),
        pytest.param(
            NEVER,
            DEFAULT_CONTEXT,
            {"containers": {"web": up()}, "sandbox": STOPPED},
            None,
            id="never-and-its-sandbox-is-lost-while-a-container-runs-on",
        ),
        pytest.param(
            pod("a", "b", restartPolicy="Never"),
            DEFAULT_CONTEXT,
            {"containers": {"a": down(137, "a")}, "sandbox": STOPPED},
            Event.POD_FINISHED,
            id="never-and-its-sandbox-is-lost-for-good",
        ),
        pytest.param(
            LIMITED, DEFAULT_CONTEXT, {"containers": {"web": up()}}, Event.DEADLINE_EXCEEDED, id="active-for-too-long"
        ),
        pytest.param(LIMITED, MAKING, {"sandbox": None}, Event.DEADLINE_EXCEEDED, id="too-long-without-a-sandbox"),
        pytest.param(
            LIMITED,
            DEFAULT_CONTEXT,
            {"containers": {"web": up()}, "deletion": deletion()},
            Event.DELETION_REQUESTED,
            id="deleted-before-anything-else",
        ),
        pytest.param(
            LIMITED, DEFAULT_CONTEXT, {"containers": {"web": down(0)}}, Event.POD_FINISHED, id="finished-before-late"
        ),
        pytest.param(
            pod(init=["+s"], restartPolicy="Never"),
            DEFAULT_CONTEXT,
            {"containers": {"s": up("s"), "web": down(0)}},
            Event.POD_FINISHED,
            id="a-sidecar-keeps-no-pod-alive",
        ),
        pytest.param(
            pod(init=["+s", "i"], restartPolicy="Never"),
            DEFAULT_CONTEXT,
            {"containers": {"s": up("s"), "i": down(1, "i")}},
            Event.POD_FINISHED,
            id="nor-a-pod-whose-initialization-has-failed",
        ),
        pytest.param(
            pod(init=["+s"], restartPolicy="Never"),
            DEFAULT_CONTEXT,
            {"containers": {"s": down(1, "s"), "web": up()}},
            None,
            id="and-a-failed-sidecar-fails-no-pod",
        ),
        pytest.param(
            pod(init=["+s"], restartPolicy="Never"),
            Context(busy=(starting("s", 1),)),
            {"containers": {"s": down(1, "s"), "web": down(0)}},
            None,
            id="not-while-a-sidecar-is-being-started",
        ),
        pytest.param(
            pod(
                "a",
                "b",
                containers=[container("a", restartPolicy="Never"), container("b", restartPolicy="OnFailure")],
            ),
            DEFAULT_CONTEXT,
            {"containers": {"a": down(3, "a"), "b": down(0, "b")}},
            Event.POD_FINISHED,
            id="policies-of-their-own-end-a-pod-that-always-restarts",
        ),
        pytest.param(NEVER, MAKING, {"containers": {"web": down(0)}}, None, id="not-while-a-sandbox-is-being-made"),
    ],
)
def test_events_in_sync(source: dict[str, Any], context: Context, known: dict[str, Any], event: Event | None) -> None:
    """The events that end a pod's sync."""
    assert next_event(situation(source, context, **known)) is event


GOING: dict[str, Any] = {"lifecycle": TERMINATING, "deletion": deletion()}


@pytest.mark.parametrize(
    ("context", "known", "event"),
    [
        pytest.param(
            DEFAULT_CONTEXT,
            {"sandbox": STOPPED},
            Event.LAST_CONTAINER_EXITED,
            id="nothing-runs-and-the-network-is-back",
        ),
        pytest.param(DEFAULT_CONTEXT, {"sandbox": None}, Event.LAST_CONTAINER_EXITED, id="there-was-never-anything"),
        pytest.param(DEFAULT_CONTEXT, {"sandbox": sandbox()}, None, id="the-sandbox-is-still-up"),
        pytest.param(
            DEFAULT_CONTEXT, {"sandbox": STOPPED, "containers": {"web": up()}}, None, id="a-container-still-runs"
        ),
        pytest.param(STOPPING, {"sandbox": STOPPED}, None, id="a-container-is-being-stopped"),
        pytest.param(MAKING, {"sandbox": None}, None, id="a-sandbox-is-being-made"),
        pytest.param(
            DEFAULT_CONTEXT, {"sandbox": None, "runtime_stale": True}, None, id="the-runtime-may-hold-what-nobody-knows"
        ),
    ],
)
def test_events_in_terminating(context: Context, known: dict[str, Any], event: Event | None) -> None:
    """When a terminating pod is terminated."""
    assert next_event(situation(context=context, **GOING, **known)) is event


@pytest.mark.parametrize(
    ("known", "doubt"),
    [
        pytest.param({"containers": {"web": up()}}, False, id="everything-went-well"),
        pytest.param({"failures": {"container/web": Failure("X", "y", at(-1))}}, True, id="something-failed"),
        pytest.param({"sandbox": None}, True, id="no-sandbox-is-known"),
        pytest.param({"runtime_stale": True}, True, id="the-runtime-was-not-read-since-its-history-was-lost"),
    ],
)
def test_a_deadline_is_written_down(known: dict[str, Any], doubt: bool) -> None:
    """With the kubelet's message; failed actions may have left something, which is looked for."""
    here = situation(LIMITED, waiting_for="", **known)
    happened(here, Event.DEADLINE_EXCEEDED)
    observed = here.observed
    said = "Pod was active on the node longer than the specified deadline"
    assert observed.eviction == Eviction(at(0), "DeadlineExceeded", said)
    assert (observed.lifecycle, observed.deletion, observed.failures) == (TERMINATING, None, {})
    assert (observed.starts_in_doubt, observed.runtime_stale) == (doubt, doubt)


def test_a_terminated_pod_knows_no_event() -> None:
    """The deletion of a finished pod is carried out without another state."""
    assert next_event(situation(lifecycle=TERMINATED, deletion=deletion(), sandbox=STOPPED)) is None


def test_a_pod_that_finishes_remembers_when() -> None:
    """Remaining stops have their grace period from then on."""
    here = situation(pod(init=["+s"], restartPolicy="Never"), containers={"s": up("s"), "web": down(0)})
    happened(here, Event.POD_FINISHED)
    assert (here.observed.lifecycle, here.observed.finished_at) == (TERMINATING, at(0))
    assert not here.observed.runtime_stale


def test_a_sidecar_whose_start_failed_is_looked_for_when_the_pod_finishes() -> None:
    """It may be running nevertheless."""
    failed = {"container/s": Failure("DeadlineExceeded", "no answer", at(-1))}
    here = situation(pod(init=["+s"], restartPolicy="Never"), containers={"web": down(0)}, failures=failed)
    happened(here, Event.POD_FINISHED)
    assert (here.observed.runtime_stale, here.observed.starts_in_doubt) == (True, True)


@pytest.mark.parametrize(
    "wish",
    [
        pytest.param({"deletion": deletion()}, id="deleted"),
        pytest.param({"eviction": Eviction(at(0), "Evicted", "too much")}, id="evicted"),
        pytest.param({"ended": Ended("Failed")}, id="ended-in-the-api"),
    ],
)
def test_a_start_that_fails_in_the_same_task_as_a_wish(wish: dict[str, Any]) -> None:
    """A container that may have started nevertheless is looked for: else it would be killed with its sandbox, without its grace period."""
    here = situation(**wish)
    fold_failure(here, starting(), "DeadlineExceeded", "no answer")
    while event := next_event(here):
        happened(here, event)
    assert pod_actions(here).begin == (READ,)
