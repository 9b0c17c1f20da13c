"""Does one line say why a container was stopped or restarted, how it ended, and its back-off?"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from proto.temporal import names
from proto.temporal.activities import requests
from proto.temporal.pod import ContainerFacts, NodeSettings, Observed, PodStart
from proto.temporal.signals import DeletionRequested, RuntimeChanged
from tests.worker.history.story_recorder import POD, START, STARTED, Recorder, payloads, seen

THIRTY = timedelta(seconds=30)
ONE = timedelta(seconds=1)
WHY = "ManifestRemoved: web.yaml is gone"


@pytest.fixture
def recorded() -> Recorder:
    """Record the start of a pod's history."""
    recorder = Recorder()
    recorder.begin()
    return recorder


def after(seconds: float) -> datetime:
    """Say a time by seconds since the start."""
    return START + timedelta(seconds=seconds)


def start(recorded: Recorder, attempt: int, *, sandbox: str = "s1", policy: str = "Always", own: str = "") -> None:
    """Start an instance of web now."""
    container = {"name": "web"} | ({"restartPolicy": own} if own else {})
    request = requests.StartContainer(
        POD, sandbox, attempt, "sha256:1", container, {"metadata": {}, "spec": {"restartPolicy": policy}}
    )
    made = seen(f"c{attempt}", attempt=attempt, created_at=recorded.now)
    recorded.do(names.START_CONTAINER, request, made)


def end(recorded: Recorder, attempt: int, code: int = 1, reason: str = "Error", message: str = "") -> None:
    """Find that an instance ended now."""
    ended = seen(
        f"c{attempt}", attempt=attempt, exit_code=code, reason=reason, finished_at=recorded.now, message=message
    )
    recorded.do(names.READ_POD_RUNTIME, requests.ReadPodRuntime(POD), requests.PodRuntime(containers=(ended,)))


def stop(recorded: Recorder, ended: Any, *, grace: timedelta = THIRTY, reason: str = WHY) -> None:
    """Stop web now."""
    request = requests.StopContainer(POD, "web", "c0", grace, recorded.now, reason)
    recorded.do(names.STOP_CONTAINER, request, ended, took=1)


@pytest.mark.parametrize(
    ("code", "reason", "used", "grace", "message", "text"),
    [
        pytest.param(
            0,
            "Completed",
            0.3,
            30,
            "",
            f"exit 0 Completed, after 0.30 s of 30.0 s grace; why: {WHY}",
            id="it-went-when-it-was-asked-to",
        ),
        pytest.param(
            137, "Error", 1.02, 1, "", f"exit 137 Error, by SIGKILL after its grace of 1.00 s; why: {WHY}", id="killed"
        ),
        pytest.param(
            137,
            "OOMKilled",
            0.5,
            30,
            "",
            f"exit 137 OOMKilled, after 0.50 s of 30.0 s grace; why: {WHY}",
            id="137-within-the-grace-was-not-ours",
        ),
        pytest.param(
            3,
            "Error",
            2,
            30,
            "could not\n",
            f"exit 3 Error, after 2.00 s of 30.0 s grace; why: {WHY}; termination message: could not",
            id="its-last-words",
        ),
    ],
)
def test_a_stop_in_one_line(
    recorded: Recorder, code: int, reason: str, used: float, grace: float, message: str, text: str
) -> None:
    """How it ended, the grace that it used, why, and its termination message."""
    ended = seen("c0", exit_code=code, reason=reason, finished_at=after(used), message=message)
    stop(recorded, ended, grace=timedelta(seconds=grace))
    assert recorded.texts()[1:] == [f"container web stopped: {text}"]


def test_who_asked_is_told(recorded: Recorder) -> None:
    """The source that requested the deletion."""
    recorded.signal(names.DELETION_REQUESTED, DeletionRequested("file", "ManifestRemoved", "web.yaml is gone"))
    stop(recorded, seen("c0", exit_code=143, reason="Error", finished_at=after(0.1)))
    assert recorded.texts()[-1].endswith(f"; why: {WHY} (asked by the file source)")


def test_a_container_that_ended_before_its_stop_was_not_stopped(recorded: Recorder) -> None:
    """Its own end is reported; if it was reported before, only that the stop came too late."""
    recorded.after(5)
    stop(recorded, seen("c0", exit_code=1, reason="Error", finished_at=after(2)))
    assert recorded.texts()[1:] == ["container web ended: exit 1 Error"]
    stop(recorded, seen("c0", exit_code=1, reason="Error", finished_at=after(2)))
    assert recorded.texts()[2:] == [f"container web had ended before it was stopped; why: {WHY}"]


def test_a_kill_that_was_not_ours_is_told_as_that(recorded: Recorder) -> None:
    """137 without a stop by tempolet; an OOM kill has a reason of its own."""
    end(recorded, 0, 137)
    end(recorded, 1, 137, "OOMKilled")
    assert recorded.texts()[1:] == [
        "container web ended: exit 137 Error (SIGKILL not sent by tempolet)",
        "container web ended: exit 137 OOMKilled",
    ]


def test_a_crash_loop_names_policy_end_and_back_off(recorded: Recorder) -> None:
    """At once, then after 10 and 20 s, as the core decided."""
    start(recorded, 0)
    for attempt, waited in ((1, 0), (2, 10), (3, 20)):
        recorded.after(1)
        end(recorded, attempt - 1, 3)
        recorded.after(waited)
        start(recorded, attempt)
    assert [text for text in recorded.texts() if "started" in text] == [
        "container web started (0.00 s)",
        "container web started, restart 1 (0.00 s): policy Always after exit 3 Error, without back-off",
        "container web started, restart 2 (0.00 s): policy Always after exit 3 Error, back-off 10.0 s",
        "container web started, restart 3 (0.00 s): policy Always after exit 3 Error, back-off 20.0 s",
    ]


@pytest.mark.parametrize(
    ("behaviour", "waited", "words"),
    [
        pytest.param(5, 0, "without back-off", id="it-waits-no-longer"),
        pytest.param(4, 20, "back-off 20.0 s", id="an-earlier-behaviour-waits"),
    ],
)
def test_a_restart_of_the_machine_ends_a_back_off(behaviour: int, waited: float, words: str) -> None:
    """And the next crash waits as after the first."""
    recorded = Recorder()
    recorded.begin(replace(STARTED, behaviour=behaviour))
    start(recorded, 0)
    for attempt, before in ((1, 0), (2, 10)):
        end(recorded, attempt - 1)
        recorded.after(before)
        start(recorded, attempt)
    recorded.after(1)
    recorded.signal(names.RUNTIME_CHANGED, RuntimeChanged("reboot"))
    end(recorded, 2)
    recorded.after(waited)
    start(recorded, 3, sandbox="s2")
    assert recorded.texts()[-1].endswith(f"restart 3 (0.00 s): in a new sandbox after exit 1 Error, {words}")
    if behaviour == 5:
        end(recorded, 3)
        recorded.after(10)
        start(recorded, 4, sandbox="s2")
        assert recorded.texts()[-1].endswith("back-off 10.0 s")


def test_the_container_s_own_policy_and_the_node_s_maximum_count() -> None:
    """As they did when it was decided."""
    recorded = Recorder()
    quick = NodeSettings(max_container_restart_period=timedelta(seconds=2))
    recorded.begin(PodStart("node", {"metadata": {"uid": "u-1"}}, settings=quick))
    start(recorded, 0)
    for attempt in (1, 2):
        end(recorded, attempt - 1)
        recorded.after(2)
        start(recorded, attempt, own="OnFailure")
    assert recorded.texts()[-1].endswith(": policy OnFailure after exit 1 Error, back-off 2.00 s")


def test_a_restart_after_our_own_stop_says_so(recorded: Recorder) -> None:
    """In a new sandbox, because the old one was lost."""
    start(recorded, 0)
    stop(recorded, seen("c0", exit_code=143, reason="Error", finished_at=after(0.2)), reason="its sandbox is gone")
    start(recorded, 1, sandbox="s2")
    assert recorded.texts()[-1] == (
        "container web started, restart 1 (0.00 s): in a new sandbox after exit 143 Error by our stop "
        "(its sandbox is gone), without back-off"
    )


def test_a_restart_of_what_was_lost(recorded: Recorder) -> None:
    """How it ended is not known."""
    start(recorded, 0)
    start(recorded, 1)
    assert recorded.texts()[-1] == "container web started, restart 1 (0.00 s): the previous instance was lost"


def test_a_story_that_begins_with_a_later_run_knows_what_was_earned() -> None:
    """The previous run may not be retained any more."""
    recorded = Recorder()
    facts = ContainerFacts(4, "c4", "s1", backoff=timedelta(seconds=80), backoff_at=START)
    recorded.begin(PodStart("node", {}, observed=Observed(containers={"web": facts})), continued="run-1")
    end(recorded, 4)
    recorded.after(80)
    start(recorded, 5)
    assert recorded.texts()[-1].endswith("policy Always after exit 1 Error, back-off 80.0 s")


@pytest.mark.parametrize(
    ("first", "ended", "words"),
    [
        pytest.param(0, 6, "by SIGKILL after its grace of 1.00 s", id="the-stop-answers-first"),
        pytest.param(1, 6, "by SIGKILL after its grace of 1.00 s", id="the-shortening-answers-first"),
        pytest.param(0, 5.5, "after 0.50 s of 1.00 s grace", id="it-went-within-the-shorter-grace"),
        pytest.param(0, 4, "after 4.00 s of 30.0 s grace", id="it-had-gone-before-that-was-asked"),
    ],
)
def test_two_stops_with_one_end_are_told_once(recorded: Recorder, first: int, ended: float, words: str) -> None:
    """Whichever completes first, and with the grace period that the container really had."""
    recorded.do(names.START_CONTAINER, requests.StartContainer(POD, "s1", 0, "", {"name": "web"}, {}), seen("c0"))
    end = seen("c0", exit_code=137, reason="Error", finished_at=recorded.now + timedelta(seconds=ended))
    asked = [
        recorded.ask(names.STOP_CONTAINER, requests.StopContainer(POD, "web", "c0", THIRTY, recorded.now, WHY), took=5),
        recorded.ask(names.SHORTEN_STOP, requests.ShortenStop(POD, "web", "c0", ONE, recorded.now, WHY), took=1),
    ]
    for one in (asked[first], asked[1 - first]):
        recorded.event("ACTIVITY_TASK_COMPLETED", scheduled_event_id=one, result=payloads(end))
    said, shortened = recorded.texts()[2:][:: -1 if first else 1]
    assert said == f"container web stopped: exit 137 Error, {words}; why: {WHY}"
    assert shortened == "the stop of container web was shortened to 1.00 s of grace"


RULES = {
    "restartPolicy": "Never",
    "restartPolicyRules": [
        {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}},
        {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [88]}},
    ],
}


def test_a_restart_by_a_rule_names_the_rule(recorded: Recorder) -> None:
    """Not the policy, which would have left it down."""
    for attempt in (0, 1):
        request = requests.StartContainer(POD, "s1", attempt, "", {"name": "web", **RULES}, {})
        recorded.do(names.START_CONTAINER, request, seen(f"c{attempt}", attempt=attempt))
        end(recorded, attempt, 42)
    assert ": rule Restart after exit 42 Error, without back-off" in recorded.texts()[-2]


def test_containers_that_start_again_with_one_are_told_so(recorded: Recorder) -> None:
    """Whatever their own policy, and without adding to their back-off."""
    other = replace(seen("b0", exit_code=0, reason="Completed", finished_at=START), name="init")
    for attempt in (0, 1):
        request = requests.StartContainer(POD, "s1", attempt, "", {"name": "init"}, {})
        recorded.do(names.START_CONTAINER, request, replace(other, container_id=f"b{attempt}", attempt=attempt))
        request = requests.StartContainer(POD, "s1", attempt, "", {"name": "web", **RULES}, {})
        recorded.do(names.START_CONTAINER, request, seen(f"c{attempt}", attempt=attempt))
        end(recorded, attempt, 88)
        for name, container_id in (("init", f"b{attempt}"), ("web", f"c{attempt}")):
            recorded.do(names.REMOVE_CONTAINER, requests.RemoveContainer(POD, name, container_id))
    restarts = [text for text in recorded.texts() if "restart 1" in text]
    assert restarts == [
        "container init started, restart 1 (0.00 s): with all containers, as the rule of web asks, after exit 0 Completed",
        "container web started, restart 1 (0.00 s): rule RestartAllContainers after exit 88 Error, without back-off",
    ]
