"""Does a pod's history report each event once, with its time?"""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload, Payloads
from temporalio.api.enums.v1 import TimeoutType
from temporalio.api.failure.v1 import Failure, TimeoutFailureInfo

from proto.temporal import names
from proto.temporal.activities import requests
from proto.temporal.pod import ContainerFacts, Observed, PodOutcome, PodStart, Sandbox
from proto.temporal.signals import DeletionRequested, PodListed
from tests.worker.history.story_recorder import (
    LISTED,
    POD,
    RUN_SANDBOX,
    START,
    START_WEB,
    STARTED,
    Recorder,
    failure,
    payload,
    payloads,
    seen,
)
from worker.history.sentences.story_state import Story, seconds
from worker.history.story import build_story


@pytest.fixture
def recorded() -> Recorder:
    """Record the start of a pod's history."""
    recorder = Recorder()
    recorder.begin()
    return recorder


def test_a_life_from_listing_to_running(recorded: Recorder) -> None:
    """The story of a plain pod, with seconds since its first line."""
    recorded.event("WORKFLOW_TASK_STARTED", identity="worker/1")
    recorded.do(names.MAKE_POD_DIRECTORIES, requests.MakePodDirectories(POD, ("web",)), took=0.004)
    recorded.do(
        names.PULL_IMAGE,
        requests.PullImage(POD, "busybox:1", "IfNotPresent"),
        requests.PulledImage("sha256:1", present=True),
        took=0.01,
    )
    recorded.do(names.RUN_POD_SANDBOX, RUN_SANDBOX, requests.PodSandbox("s1", 0, ("10.88.0.5",)), took=0.09)
    recorded.do(names.START_CONTAINER, START_WEB, seen(), took=0.03)
    story = build_story([recorded.events])
    assert [(line.since_start.total_seconds(), line.text) for line in story.lines] == [
        (0.0, "manifest hello.yaml listed (UID u-1)"),
        (0.004, "directories created (0.00 s)"),
        (0.014, "image busybox:1 present (0.01 s)"),
        (0.104, "sandbox attempt 0 ready in 0.09 s, 10.88.0.5"),
        (0.134, "container web started (0.03 s)"),
    ]
    assert story.under_way == ()
    assert story.lines[0].at == START


def test_an_end_is_told_once(recorded: Recorder) -> None:
    """The runtime is read repeatedly; the container ended once."""
    ended = seen(
        exit_code=1, reason="Error", started_at=START, finished_at=START + timedelta(seconds=3.2), message="boom\n"
    )
    read = requests.ReadPodRuntime(POD)
    for _ in range(2):
        recorded.do(names.READ_POD_RUNTIME, read, requests.PodRuntime(containers=(ended,)))
    assert recorded.texts()[1:] == ["container web ended: exit 1 Error after 3.20 s: boom"]


def test_ends_are_told_in_their_order(recorded: Recorder) -> None:
    """Two dead instances found by one read of the runtime."""
    first = seen("c1", exit_code=1, finished_at=START)
    second = seen("c2", attempt=1, exit_code=2, finished_at=START + timedelta(seconds=1))
    recorded.do(names.READ_POD_RUNTIME, requests.ReadPodRuntime(POD), requests.PodRuntime(containers=(second, first)))
    assert recorded.texts()[1:] == ["container web ended: exit 1", "container web ended: exit 2"]


def test_a_sandbox_that_was_ready_is_lost(recorded: Recorder) -> None:
    """Found by a read of the runtime; an older sandbox that never was ready is not reported."""
    recorded.do(names.RUN_POD_SANDBOX, RUN_SANDBOX, requests.PodSandbox("s1", 0))
    gone = Sandbox("s1", 0, ready=False)
    old = Sandbox("s0", 0, ready=False)
    for _ in range(2):
        recorded.do(names.READ_POD_RUNTIME, requests.ReadPodRuntime(POD), requests.PodRuntime(sandboxes=(gone, old)))
    assert recorded.texts()[2:] == ["sandbox attempt 0 is no longer ready"]


def test_a_pod_that_its_source_takes_back(recorded: Recorder) -> None:
    """Listed while it goes: that is news."""
    recorded.signal(names.DELETION_REQUESTED, DeletionRequested("file", "ManifestRemoved"))
    recorded.signal(names.POD_LISTED, PodListed("file", sequence=2))
    assert recorded.texts()[1:] == ["deletion requested by file: ManifestRemoved", "listed again by file"]


def test_a_pod_that_has_finished_takes_no_edit_over(recorded: Recorder) -> None:
    """Each edit is compared with the last one that was applied."""
    first = {**LISTED, "spec": {**LISTED["spec"], "activeDeadlineSeconds": 60}}
    second = {**LISTED, "spec": {**LISTED["spec"], "activeDeadlineSeconds": 30}}
    recorded.signal(names.POD_LISTED, PodListed("file", pod=first, in_place=True))
    recorded.event(
        "UPSERT_WORKFLOW_SEARCH_ATTRIBUTES",
        search_attributes={"indexed_fields": {"PodPhase": payload("Succeeded")}},
    )
    recorded.signal(names.POD_LISTED, PodListed("file", pod=second, in_place=True))
    assert recorded.texts()[1:] == [
        "manifest changed: activeDeadlineSeconds set to 60",
        "pod Succeeded",
        "manifest changed: activeDeadlineSeconds from 60 to 30; ignored, because the pod has finished",
    ]


def test_a_failure_carries_its_reason_and_message(recorded: Recorder) -> None:
    """Kubernetes' reason, and the runtime's message."""
    asked = recorded.ask(names.PULL_IMAGE, requests.PullImage(POD, "busybox:9", "Always"), took=2)
    recorded.event(
        "ACTIVITY_TASK_FAILED", scheduled_event_id=asked, failure=failure("busybox:9: not found", "ErrImagePull")
    )
    assert recorded.texts()[1:] == ["image busybox:9 (Always) failed after 2.00 s: ErrImagePull: busybox:9: not found"]


def test_a_predecessor_that_is_still_there_is_no_failure(recorded: Recorder) -> None:
    """An edited manifest's new pod waits for the old one."""
    asked = recorded.ask(names.RUN_POD_SANDBOX, RUN_SANDBOX)
    recorded.event(
        "ACTIVITY_TASK_FAILED", scheduled_event_id=asked, failure=failure("u-0 is still here", "PredecessorPresent")
    )
    assert recorded.texts()[1:] == ["sandbox attempt 0 waits: u-0 is still here"]


def test_a_sandbox_that_we_stopped_is_not_lost(recorded: Recorder) -> None:
    """Only what the runtime did by itself is news."""
    recorded.do(names.RUN_POD_SANDBOX, RUN_SANDBOX, requests.PodSandbox("s1", 0))
    recorded.do(names.STOP_POD_SANDBOX, requests.StopPodSandbox(POD, "s1"))
    seen_now = requests.PodRuntime(sandboxes=(Sandbox("s1", 0, ready=False),))
    recorded.do(names.READ_POD_RUNTIME, requests.ReadPodRuntime(POD), seen_now)
    assert recorded.texts()[2:] == ["sandbox stopped (0.00 s)"]


def test_tries_are_told(recorded: Recorder) -> None:
    """While the runtime is down Temporal retries; the history says how often and why."""
    why = failure("no container runtime answers", "RuntimeUnavailable")
    recorded.do(names.RUN_POD_SANDBOX, RUN_SANDBOX, requests.PodSandbox("s1", 0), took=60, attempt=7, why=why)
    assert recorded.texts()[1:] == [
        "sandbox attempt 0 ready in 60.0 s (try 7, after RuntimeUnavailable: no container runtime answers)"
    ]


def test_an_activity_without_answer(recorded: Recorder) -> None:
    """The line names the timeout."""
    asked = recorded.ask(names.RUN_POD_SANDBOX, RUN_SANDBOX, took=10)
    kind = TimeoutFailureInfo(timeout_type=TimeoutType.TIMEOUT_TYPE_HEARTBEAT)
    recorded.event("ACTIVITY_TASK_TIMED_OUT", scheduled_event_id=asked, failure=Failure(timeout_failure_info=kind))
    assert recorded.texts()[1:] == ["sandbox attempt 0 timed out after 10.0 s (heartbeat)"]


def test_what_is_under_way_is_told_apart(recorded: Recorder) -> None:
    """An activity that has not completed is not a line yet."""
    recorded.event(
        "ACTIVITY_TASK_SCHEDULED",
        activity_id="image/busybox:1",
        activity_type={"name": names.PULL_IMAGE},
        input=payloads(requests.PullImage(POD, "busybox:1", "Always")),
    )
    story = build_story([recorded.events])
    assert [(one.activity_id, one.what) for one in story.under_way] == [("image/busybox:1", "image busybox:1 (Always)")]
    assert len(story.lines) == 1


def test_a_wait_is_told_once(recorded: Recorder) -> None:
    """A timer may be started again, also alternating with another one; the same wait is not reported until it is over."""
    for summary, after in (("web", 0), ("web", 2), ("db", 0), ("web", 1), ("db", 1), ("db", 11)):
        recorded.after(after)
        timer = recorded.event("TIMER_STARTED", timer_id="1")
        timer.timer_started_event_attributes.start_to_fire_timeout.FromTimedelta(timedelta(seconds=10))
        timer.user_metadata.summary.CopyFrom(payload(summary))
    assert recorded.texts()[1:] == ["waits 10.0 s: web", "waits 10.0 s: db", "waits 10.0 s: db"]


def test_phase_and_readiness_are_told_when_they_change(recorded: Recorder) -> None:
    """From the search attributes, which are not encrypted."""
    for fields in (
        {"PodPhase": "Running", "PodReady": "True", "PodReason": ""},
        {"PodReady": "False", "PodReason": "CrashLoopBackOff"},
        {"PodRestarts": 3},
        {"PodReason": "Error"},
        {"PodReason": ""},
    ):
        indexed = {name: payload(value) for name, value in fields.items()}
        recorded.event("UPSERT_WORKFLOW_SEARCH_ATTRIBUTES", search_attributes={"indexed_fields": indexed})
    assert recorded.texts()[1:] == ["pod Running, ready", "pod not ready (CrashLoopBackOff)", "pod shows Error"]


def test_another_worker_takes_over(recorded: Recorder) -> None:
    """The first worker is no news, the next one is."""
    for identity in ("worker/1", "worker/1", "worker/2"):
        recorded.event("WORKFLOW_TASK_STARTED", identity=identity)
    assert recorded.texts()[1:] == ["another worker took over: worker/2"]


@pytest.mark.parametrize(
    ("kind", "attributes", "text"),
    [
        pytest.param(
            "WORKFLOW_EXECUTION_COMPLETED",
            {"result": payloads(PodOutcome("Failed", "ManifestRemoved", 3, "hello.yaml is gone"))},
            "the pod is gone: Failed, restarts 3 (ManifestRemoved: hello.yaml is gone)",
            id="gone",
        ),
        pytest.param("WORKFLOW_EXECUTION_COMPLETED", {}, "the pod is gone", id="gone-without-a-word"),
        pytest.param(
            "WORKFLOW_EXECUTION_TERMINATED",
            {"identity": "someone@ui", "reason": "why not"},
            "the workflow was terminated by someone@ui: why not",
            id="terminated",
        ),
        pytest.param(
            "WORKFLOW_EXECUTION_CANCEL_REQUESTED",
            {},
            "someone asked Temporal to cancel the workflow: ignored",
            id="cancel",
        ),
        pytest.param(
            "WORKFLOW_TASK_FAILED", {"failure": Failure(message="boom")}, "the workflow task failed: boom", id="task"
        ),
        pytest.param(
            "WORKFLOW_TASK_TIMED_OUT",
            {"timeout_type": TimeoutType.TIMEOUT_TYPE_START_TO_CLOSE},
            "the worker disappeared during a workflow task",
            id="worker-killed",
        ),
    ],
)
def test_how_it_ends(recorded: Recorder, kind: str, attributes: dict[str, Any], text: str) -> None:
    """Also if it was terminated from outside."""
    recorded.event(kind, **attributes)
    assert len(recorded.texts()) == 2
    assert (build_story([recorded.events]).ended_at == START) is ("gone" in text or "terminated" in text)
    assert recorded.texts()[1].startswith(text)


def test_all_runs_are_one_story(recorded: Recorder) -> None:
    """Continue-as-new is one line, the seconds continue, and an end is not reported again."""
    ended = requests.PodRuntime(containers=(seen(exit_code=1),))
    recorded.do(names.READ_POD_RUNTIME, requests.ReadPodRuntime(POD), ended)
    second = Recorder(now=START + timedelta(hours=2))
    second.begin(PodStart("node", {}, observed=Observed(directories=True)), continued="run-1")
    second.do(names.READ_POD_RUNTIME, requests.ReadPodRuntime(POD), ended)
    story: Story = build_story([recorded.events, second.events])
    last = story.lines[-1]
    assert (last.text, last.run, last.since_start) == (
        "the history had grown long: continued in a new run",
        2,
        timedelta(hours=2),
    )
    assert len(story.lines) == 3


@pytest.mark.parametrize(
    "observed",
    [
        pytest.param(None, id="without-state"),
        pytest.param(Observed(started_at=START, heard={"file": 3}), id="with-what-was-heard"),
        pytest.param(Observed(containers={"web": ContainerFacts(attempt=1)}), id="with-restart-counts"),
    ],
)
def test_a_pod_that_came_back_begins_anew(observed: Observed | None) -> None:
    """Its source listed it again while it was terminating."""
    again = Recorder()
    again.begin(replace(STARTED, observed=observed), continued="run-1")
    recorded = Recorder()
    recorded.begin()
    assert (
        build_story([recorded.events, again.events]).lines[-1].text == "its source lists the pod again: it starts over"
    )


def test_a_history_without_its_key_is_still_told() -> None:
    """Times and kinds are shown even if no payload can be decrypted."""
    sealed = Payloads(payloads=[Payload(metadata={"encoding": b"binary/encrypted"}, data=b"\x00\x01")])
    recorded = Recorder()
    recorded.event("WORKFLOW_EXECUTION_STARTED", input=sealed)
    asked = recorded.event(
        "ACTIVITY_TASK_SCHEDULED", activity_type={"name": names.RUN_POD_SANDBOX}, input=sealed
    ).event_id
    recorded.event("ACTIVITY_TASK_COMPLETED", scheduled_event_id=asked, result=sealed)
    assert recorded.texts() == [
        "the start of the pod cannot be read: was it encrypted with another key file?",
        "RunPodSandbox done",
    ]


@pytest.mark.parametrize(
    ("duration", "said"),
    [
        pytest.param(timedelta(milliseconds=4), "0.00 s", id="milliseconds"),
        pytest.param(timedelta(seconds=9.994), "9.99 s", id="seconds"),
        pytest.param(timedelta(seconds=61), "61.0 s", id="a-minute"),
        pytest.param(timedelta(seconds=150), "2 min 30 s", id="minutes"),
        pytest.param(timedelta(hours=25), "25 h 0 min", id="hours"),
    ],
)
def test_durations(duration: timedelta, said: str) -> None:
    """As many digits as a reader can use."""
    assert seconds(duration) == said
