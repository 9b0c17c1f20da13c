"""Which pods may an operator evict, and what happens to evicted ones?"""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from proto.kubernetes.priority import is_critical
from proto.temporal.operator import EvictPod
from proto.temporal.pod import Failure, Lifecycle, PodJson
from proto.temporal.pod_inputs import Eviction
from proto.temporal.signals import StorageExceeded
from tests.workflows.decide.situations import Context, at, deletion, down, pod, sandbox, situation, starting, up
from workflows.decide.ending.grace import effective_grace
from workflows.decide.eviction import preemption
from workflows.decide.explain.explain import why_done
from workflows.decide.lifecycle.lifecycle import Event, happened, next_event
from workflows.decide.operator.evictions import evicted, why_no_eviction
from workflows.decide.record.signals import apply_signal
from workflows.decide.status.conditions import DISRUPTION_TARGET
from workflows.decide.status.status import pod_status, pod_summary
from workflows.decide.versions import EVICTED_MAY_SUCCEED

WEB: dict[str, Any] = {"containers": {"web": up()}}
DONE: dict[str, Any] = {"containers": {"web": down(0)}}
NEVER = pod(restartPolicy="Never")
GONE: dict[str, Any] = {"sandbox": sandbox(ready=False, stopped=True), "lifecycle": Lifecycle.TERMINATED}
PRESSED = Eviction(at(-9), "Evicted", "low on memory", timedelta(seconds=1), disrupts=True)
TOO_LONG = Eviction(at(-9), "DeadlineExceeded", "too long")


def asked(grace: float | None = None, reason: str = "Evicted", message: str = "low on memory") -> EvictPod:
    """Build a request for an eviction."""
    return EvictPod("root@node-1", reason, message, None if grace is None else timedelta(seconds=grace))


@pytest.mark.parametrize(
    ("spec", "critical"),
    [
        pytest.param({}, False, id="any-pod"),
        pytest.param({"priority": 1_000_000_000}, False, id="the-highest-of-users"),
        pytest.param({"priority": 1_999_999_999}, False, id="just-below-the-system-s"),
        pytest.param({"priority": 2_000_000_000}, True, id="the-system-s"),
        pytest.param({"priority": 2_000_001_000}, True, id="the-node-s"),
        pytest.param({"priorityClassName": "system-node-critical"}, True, id="by-its-class-of-the-node"),
        pytest.param({"priorityClassName": "system-cluster-critical"}, True, id="by-its-class-of-the-cluster"),
        pytest.param({"priorityClassName": "mine"}, False, id="another-class"),
    ],
)
def test_who_is_of_the_system(spec: dict[str, Any], critical: bool) -> None:
    """By priority, as in TestIsCriticalPod, or by class."""
    assert is_critical(pod(**spec)) is critical


@pytest.mark.parametrize(
    ("source", "known", "wish", "reason"),
    [
        pytest.param(pod(), WEB, asked(), "", id="a-pod-that-runs"),
        pytest.param(pod(), {"sandbox": None}, asked(), "", id="a-pod-that-has-not-begun"),
        pytest.param(pod(), DONE, asked(), "", id="a-pod-between-two-restarts"),
        pytest.param(pod(priority=2_000_000_000), WEB, asked(), "Critical", id="a-pod-of-the-system"),
        pytest.param(
            pod(priority=2_000_000_000),
            WEB,
            replace(asked(), shutdown=True),
            "",
            id="a-pod-of-the-system-whose-machine-goes-down",
        ),
        pytest.param(
            pod(priority=2_000_000_000),
            WEB,
            replace(asked(), preempted_for="kube-system/vital"),
            "",
            id="a-pod-of-the-system-for-a-higher-one",
        ),
        pytest.param(NEVER, DONE, asked(), "Finished", id="nothing-of-it-will-run"),
        pytest.param(pod(), DONE | GONE, asked(), "Finished", id="a-pod-that-is-down"),
        pytest.param(pod(), WEB | {"deletion": deletion()}, asked(), "Going", id="a-pod-that-is-deleted"),
        pytest.param(pod(), WEB | {"eviction": PRESSED}, asked(), "Going", id="a-pod-that-is-evicted"),
        pytest.param(
            pod(),
            WEB | {"eviction": TOO_LONG, "lifecycle": Lifecycle.TERMINATING},
            asked(),
            "Going",
            id="a-pod-that-was-active-too-long",
        ),
        pytest.param(pod(), WEB, asked(reason=""), "Invalid", id="without-a-reason"),
        pytest.param(pod(), WEB, asked(reason="low on memory"), "Invalid", id="a-reason-of-several-words"),
        pytest.param(pod(), WEB, asked(reason="R" * 254), "Invalid", id="a-long-reason"),
        pytest.param(pod(), WEB, asked(message="x" * 4097), "Invalid", id="a-long-message"),
    ],
)
def test_who_is_evicted(source: dict[str, Any], known: dict[str, Any], wish: EvictPod, reason: str) -> None:
    """Those that have not finished; a refused eviction changes nothing."""
    here = situation(source, **known)
    before = here.observed.eviction
    refusal = why_no_eviction(here, wish)
    apply_signal(here, wish)
    assert (refusal.reason if refusal else "") == reason
    assert (here.observed.eviction is before) is bool(reason)


@pytest.mark.parametrize(
    ("own", "grace", "left"),
    [
        pytest.param(30, None, 30, id="the-pod-s-own"),
        pytest.param(30, 5, 5, id="shorter"),
        pytest.param(30, 90, 30, id="never-longer-than-its-own"),
        pytest.param(30, 0, 1, id="never-below-a-second"),
        pytest.param(0, None, 1, id="a-pod-without-grace-has-a-second-too"),
    ],
)
def test_its_grace(own: int, grace: float | None, left: float) -> None:
    """As in soft evictions and node shutdown: the requested one, or the pod's own if that is shorter."""
    here = situation(pod(terminationGracePeriodSeconds=own), **WEB)
    told = evicted(here, asked(grace))
    apply_signal(here, asked(grace))
    assert (told.grace, told.kills_at) == (timedelta(seconds=left), at(left))
    assert effective_grace(here).over_at == at(left)


def test_who_asked_is_the_message_where_there_is_none() -> None:
    """The status at least names a person."""
    assert evicted(situation(**WEB), asked(message="")).message == "The pod was evicted by root@node-1"


def test_it_goes_and_has_failed() -> None:
    """Not before its last container has exited; then permanently, with reason, message and the condition."""
    here = situation(pod(), containers={"web": up()})
    apply_signal(here, asked())
    event = next_event(here)
    assert event is Event.EVICTED
    happened(here, event)
    assert here.observed.lifecycle is Lifecycle.TERMINATING
    going = pod_status(here)
    assert (going.phase, going.reason) == ("Running", None)
    assert DISRUPTION_TARGET not in [one.type for one in going.conditions or ()]
    assert pod_summary(here, going).reason == "Evicted"
    here.observed.containers["web"] = down(0)
    ended = pod_status(here)
    assert (ended.phase, ended.reason, ended.message) == ("Failed", "Evicted", "low on memory")
    target = (ended.conditions or [])[0]
    assert (target.type, target.status, target.reason, target.message, target.last_transition_time) == (
        *(DISRUPTION_TARGET, "True", "TerminationByKubelet", "low on memory"),
        at(0),
    )


def test_a_choice_of_the_node_is_kept_with_its_reason() -> None:
    """For history and explain, and for the pod's event."""
    here = situation(pod(), **WEB)
    chosen = EvictPod("", "Evicted", "low", timedelta(seconds=1), why="it uses most", annotations={"a": "b"})
    assert evicted(here, chosen).why == "it uses most"
    apply_signal(here, chosen)
    assert here.observed.eviction == Eviction(
        here.now, "Evicted", "low", timedelta(seconds=1), disrupts=True, why="it uses most", annotations={"a": "b"}
    )


def test_a_preempted_pod_says_so() -> None:
    """The condition has words of its own, unlike for an eviction (preemption.go evictPodsToFreeRequests)."""
    here = situation(pod(terminationGracePeriodSeconds=20), **WEB)
    preempted = EvictPod(
        "", preemption.REASON, preemption.MESSAGE, why="it is small", preempted_for="kube-system/vital"
    )
    assert evicted(here, preempted).grace == timedelta(seconds=20)
    apply_signal(here, preempted)
    here.observed.containers["web"] = down(0)
    ended = pod_status(here)
    assert (ended.phase, ended.reason, ended.message) == (
        "Failed",
        "Preempting",
        "Preempted in order to admit critical pod",
    )
    target = (ended.conditions or [])[0]
    assert (target.type, target.reason, target.message) == (
        *(DISRUPTION_TARGET, "TerminationByKubelet"),
        "Pod was preempted by Kubelet to accommodate a critical pod.",
    )
    assert why_done(here) == "Preempting (Preempted in order to admit critical pod; this pod because it is small)"


@pytest.mark.parametrize(
    ("context", "signal", "expected"),
    [
        pytest.param(Context(from_api=True), asked(), "Succeeded", id="a-pod-of-the-api"),
        pytest.param(
            Context(from_api=True), replace(asked(), shutdown=True), "Succeeded", id="one-whose-machine-goes-down"
        ),
        pytest.param(
            Context(from_api=True),
            StorageExceeded("local-storage", "data", 2 << 20),
            "Succeeded",
            id="one-that-fills-a-disk",
        ),
        pytest.param(Context(), asked(), "Failed", id="one-of-a-manifest"),
        pytest.param(
            Context(from_api=True, behaviour=EVICTED_MAY_SUCCEED - 1),
            asked(),
            "Failed",
            id="one-of-an-earlier-behaviour",
        ),
    ],
)
def test_who_has_succeeded_if_its_containers_have(
    context: Context, signal: EvictPod | StorageExceeded, expected: str
) -> None:
    """Its container exits with 0 when it is stopped."""
    here = situation(pod(volumes=[{"name": "data", "emptyDir": {"sizeLimit": "1Mi"}}]), context, **WEB)
    apply_signal(here, signal)
    happened(here, Event.EVICTED)
    here.observed.containers["web"] = down(0)
    assert pod_status(here).phase == expected
    assert pod_summary(here, pod_status(here)).reason == "Evicted"  # what `tempolet pods` shows tells it all the same


@pytest.mark.parametrize(
    ("source", "event"),
    [
        pytest.param(pod(activeDeadlineSeconds=5), Event.DEADLINE_EXCEEDED, id="active-too-long"),
        pytest.param(
            pod(securityContext={"sysctls": [{"name": "kernel.sem", "value": "1"}]}), Event.REJECTED, id="not-admitted"
        ),
    ],
)
def test_who_has_failed_whatever_its_containers_exit_with(source: PodJson, event: Event) -> None:
    """As ShouldEvict of the kubelet's deadline asks for, and as its rejectPod writes."""
    here = situation(source, Context(from_api=True), sandbox=None)
    happened(here, event)
    here.observed.containers["web"], here.observed.starts_in_doubt = down(0), False
    assert pod_status(here).phase == "Failed"


def test_a_deadline_is_no_disruption() -> None:
    """It is the pod's own limit."""
    ended = pod_status(situation(NEVER, **DONE, **GONE, eviction=TOO_LONG))
    assert (ended.phase, ended.reason) == ("Failed", "DeadlineExceeded")
    assert DISRUPTION_TARGET not in [one.type for one in ended.conditions or ()]


def test_an_eviction_comes_before_an_end() -> None:
    """Its containers exit at the same moment: the pod is Failed nevertheless."""
    here = situation(NEVER, containers={"web": up()})
    apply_signal(here, asked())
    here.observed.containers["web"] = down(0)
    assert next_event(here) is Event.EVICTED
    assert pod_status(here).phase == "Failed"


@pytest.mark.parametrize(
    ("context", "known"),
    [
        pytest.param(Context(), {"failures": {"sandbox": Failure("X", "x", at(-1))}}, id="a-step-had-failed"),
        pytest.param(Context(busy=(starting(),)), {"sandbox": None}, id="nothing-is-known-yet"),
    ],
)
def test_what_may_be_half_made_is_looked_for(context: Context, known: dict[str, Any]) -> None:
    """As for a deletion: unfinished work is looked for before it is undone."""
    here = situation(pod(), context, **known)
    apply_signal(here, asked())
    assert (here.observed.runtime_stale, here.observed.starts_in_doubt, here.observed.failures) == (True, True, {})
