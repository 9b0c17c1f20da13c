"""What does a pod's history say of an outage of Temporal?"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from proto.temporal import names
from proto.temporal.activities import requests
from proto.temporal.away import EntryKind, HandedBack, StoryEntry, WhileAway
from proto.temporal.hooks import Hook, HookEnded
from proto.temporal.pod import ContainerFacts, ContainerState, Observed, PodOutcome, ProbeKind
from proto.temporal.pod_inputs import HandBack
from proto.temporal.signals import DeletionRequested, ProbeVerdict
from tests.worker.history.story_recorder import (
    LISTED,
    POD,
    RUN_SANDBOX,
    START,
    START_WEB,
    STARTED,
    Recorder,
    payloads,
    seen,
)
from worker.commands.show.history import rows
from worker.history.story import build_story
from worker.history.while_away import AWAY_STILL, Untold

SINCE = START + timedelta(seconds=60)
UNTIL = SINCE + timedelta(seconds=130)
OUTAGE = "while Temporal was away (2 min 10 s):"


def after(seconds: float) -> datetime:
    """Return a time in the outage."""
    return SINCE + timedelta(seconds=seconds)


def part(first: int, *entries: StoryEntry, **more: Any) -> WhileAway:
    """Write a part of the story."""
    return WhileAway(1, first, entries, **{"since": SINCE, "until": UNTIL, **more})


def wait(seconds: float) -> StoryEntry:
    """Write an entry."""
    return StoryEntry(after(seconds), EntryKind.WAITED, f"wait {seconds:.0f}", value=10)


HANDED_BACK = HandedBack(1, SINCE, UNTIL, Observed(), LISTED)


@pytest.fixture
def recorded() -> Recorder:
    """Record the start of a pod's history; the node's signals come after the outage."""
    recorder = Recorder()
    recorder.begin()
    recorder.after(200)
    return recorder


def test_entries_are_told_with_their_own_times(recorded: Recorder) -> None:
    """Under one line, by the sentences of events."""
    scheduled = StoryEntry(after(5), EntryKind.SCHEDULED, names.START_CONTAINER, "start/web", START_WEB)
    completed = StoryEntry(after(6), EntryKind.COMPLETED, names.START_CONTAINER, "start/web", seen())
    recorded.signal(names.WHILE_AWAY, part(0, scheduled, completed))
    recorded.signal(names.HANDED_BACK, replace(HANDED_BACK, entries=2))
    lines = build_story([recorded.events]).lines
    assert [(line.at, line.text, line.while_away) for line in lines[1:]] == [
        (SINCE, OUTAGE, False),
        (after(6), "container web started (1.00 s)", True),
    ]
    assert rows(lines[1:], wide=False)[-1].endswith("   container web started (1.00 s)")


def test_an_activity_that_began_before_ends_while_it_is_away() -> None:
    """It is found by its key, and no longer under way."""
    recorded = Recorder()
    recorded.begin()
    recorded.ask(names.PULL_IMAGE, requests.PullImage(POD, "busybox:9", "Always"))
    recorded.after(200)
    failed = StoryEntry(
        after(1), EntryKind.FAILED, names.PULL_IMAGE, "a", reason="ErrImagePull", message="not found", attempts=2
    )
    recorded.signal(names.WHILE_AWAY, part(0, failed))
    story = build_story([recorded.events])
    assert story.lines[-1].text.startswith("image busybox:9 (Always) failed after ")
    assert story.lines[-1].text.endswith(": ErrImagePull: not found (try 2)")
    assert story.under_way == ()


def test_an_entry_that_was_sent_twice_is_told_once(recorded: Recorder) -> None:
    """The worker ended before it knew that the signal had arrived; meanwhile the journal had grown."""
    recorded.signal(names.WHILE_AWAY, part(4, wait(1), wait(2)))
    recorded.signal(names.WHILE_AWAY, part(4, wait(1), wait(2), wait(3)))
    recorded.signal(names.WHILE_AWAY, part(5, wait(2)))
    assert recorded.texts()[1:] == [OUTAGE, *(f"waits 10.0 s: wait {one}" for one in (1, 2, 3))]


def test_a_second_attempt_tells_no_entry_again(recorded: Recorder) -> None:
    """It has the next epoch, because the node led the pod on in between."""
    recorded.signal(names.WHILE_AWAY, part(4, wait(1), wait(2)))
    recorded.signal(names.WHILE_AWAY, replace(part(4, wait(1), wait(2), wait(3)), epoch=3))
    assert recorded.texts()[1:] == [OUTAGE, *(f"waits 10.0 s: wait {one}" for one in (1, 2, 3))]


def test_positions_that_begin_anew_are_told(recorded: Recorder) -> None:
    """The node has lost its journal since the last outage."""
    recorded.signal(names.WHILE_AWAY, part(1, wait(1)))
    recorded.signal(names.WHILE_AWAY, replace(part(1, wait(140)), epoch=3))
    assert recorded.texts()[1:] == [OUTAGE, "waits 10.0 s: wait 1", "waits 10.0 s: wait 140"]


def test_a_second_attempt_to_hand_back_has_its_own_line(recorded: Recorder) -> None:
    """Temporal went away again before it had the whole story."""
    recorded.signal(names.WHILE_AWAY, part(0, wait(1)))
    recorded.signal(names.WHILE_AWAY, part(1, wait(140), until=after(150)))
    assert recorded.texts()[3:] == ["while Temporal was away (2 min 30 s):", "waits 10.0 s: wait 140"]


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        pytest.param([part(0, wait(1), left_out=3)], "3 more entries had no room in this history", id="left-out"),
        pytest.param([part(0, wait(1)), part(3, wait(2))], "2 entries are missing here", id="a-lost-part"),
        pytest.param(
            [{"epoch": "?"}], "a part of what happened while Temporal was away, which cannot be read", id="bad"
        ),
        pytest.param(
            [part(0, StoryEntry(SINCE, EntryKind.SIGNALLED, names.POD_LISTED, value=7))],
            "signal PodListed from the node, which cannot be read and is ignored",
            id="bad-value",
        ),
        pytest.param([part(0, wait(1), since=None)], "while Temporal was away:", id="no-duration"),
    ],
)
def test_what_is_missing_is_told(recorded: Recorder, parts: list[Any], said: str) -> None:
    """A reader knows that the story is not whole."""
    for one in parts:
        recorded.signal(names.WHILE_AWAY, one)
    assert said in recorded.texts()


def test_an_outage_in_which_nothing_happened_is_told_once(recorded: Recorder) -> None:
    """Nothing of an idle pod has a sentence: it was read, and shown as before."""
    read = StoryEntry(after(1), EntryKind.COMPLETED, names.READ_POD_RUNTIME, value=requests.PodRuntime())
    recorded.signal(names.WHILE_AWAY, part(0, read))
    for _ in range(2):
        recorded.signal(names.HANDED_BACK, replace(HANDED_BACK, entries=1))
    assert recorded.texts()[1:] == ["while Temporal was away (2 min 10 s) nothing happened"]


@pytest.mark.parametrize(
    ("continued", "said"),
    [
        pytest.param("r0", "Temporal is back: the pod goes on in a new run", id="taken-by-the-run"),
        pytest.param(
            "",
            "Temporal is back: the pod goes on in a new run, because the run before could not take it back",
            id="not-taken-by-the-run",
        ),
    ],
)
def test_the_run_after_an_outage(recorded: Recorder, continued: str, said: str) -> None:
    """It is no long history; a later run with the same hand-back is one."""
    recorded.begin(replace(STARTED, observed=Observed(), handed_back=HandBack(SINCE, UNTIL, 3)), continued)
    recorded.begin(
        replace(STARTED, observed=Observed(directories=True), handed_back=HandBack(SINCE, UNTIL, 3)), continued or "r1"
    )
    recorded.event("WORKFLOW_EXECUTION_COMPLETED", result=None)
    assert recorded.texts()[1:3] == [said, "the history had grown long: continued in a new run"]


def test_a_pod_that_was_born_while_it_was_away() -> None:
    """Its first run begins with the story."""
    recorder = Recorder()
    recorder.begin()
    recorder.signal(names.WHILE_AWAY, part(0, wait(1)))
    recorder.begin(replace(STARTED, observed=Observed(), handed_back=HandBack(SINCE, UNTIL, 1)), "r0")
    recorder.event("WORKFLOW_EXECUTION_COMPLETED")
    assert recorder.texts() == [
        "manifest hello.yaml listed (UID u-1)",
        OUTAGE,
        "waits 10.0 s: wait 1",
        "Temporal is back: the pod goes on in a new run",
        "the pod is gone",
    ]


def test_what_only_the_journal_has_is_told_after_the_history(recorded: Recorder) -> None:
    """What was handed back meanwhile is not told twice; the lines belong to no run."""
    recorded.signal(names.WHILE_AWAY, part(4, wait(1), wait(2)))
    more = part(4, wait(1), wait(2), wait(300), until=None, since=after(1))
    lines = build_story([recorded.events], Untold((more,))).lines
    assert [(line.text, line.run) for line in lines[1:]] == [
        (OUTAGE, 1),
        ("waits 10.0 s: wait 1", 1),
        ("waits 10.0 s: wait 2", 1),
        (AWAY_STILL, 0),
        ("waits 10.0 s: wait 300", 0),
    ]
    assert lines[-1].since_start == after(300) - lines[0].at
    assert "-/-" in rows(lines, wide=True)[-1]


def entries_of(name: str, request: Any, answer: Any, begun: float = 1.0) -> tuple[StoryEntry, StoryEntry]:
    """Write the entries of an action that the node has done."""
    return (
        StoryEntry(after(begun), EntryKind.SCHEDULED, name, "a", request),
        StoryEntry(after(begun + 1), EntryKind.COMPLETED, name, "a", answer),
    )


HOOK = requests.RunHook(POD, "web", "c1", Hook.POST_START, {})
MADE = requests.PodSandbox("s1", 0, ("10.0.0.1",))


@pytest.mark.parametrize(
    ("name", "request_", "first", "second", "said"),
    [
        pytest.param(names.START_CONTAINER, START_WEB, seen(), seen(), "container web started", id="a-start"),
        pytest.param(
            *(names.RUN_POD_SANDBOX, RUN_SANDBOX, MADE, replace(MADE, adopted=True), "sandbox attempt 0"),
            id="a-sandbox-that-the-second-try-finds",
        ),
        pytest.param(
            *(names.RUN_HOOK, HOOK, HookEnded(succeeded=True), HookEnded(succeeded=True)),
            "postStart of web done",
            id="a-hook",
        ),
    ],
)
def test_what_was_under_way_when_it_went_away_is_told_once(
    name: str, request_: Any, first: Any, second: Any, said: str
) -> None:
    """Both learn the end: the workflow gets the worker's answer once Temporal is back, and the story has it, too."""
    recorder = Recorder()
    recorder.begin()
    recorder.do(name, request_, first, took=300)
    recorder.signal(names.WHILE_AWAY, part(0, *entries_of(name, request_, second)))
    assert [text.startswith(said) for text in recorder.texts()].count(True) == 1


def test_the_same_action_at_another_time_is_told_again(recorded: Recorder) -> None:
    """A hook before a start that failed runs again before the next try; a hook of an instance runs once."""
    end, before = HookEnded(succeeded=True), replace(HOOK, hook=Hook.PRE_START, container_id="")
    start, failure = entries_of(names.START_CONTAINER, START_WEB, None, begun=4)
    failed = replace(failure, kind=EntryKind.FAILED, reason="CreateContainerError")
    for hook in (before, HOOK):
        recorded.signal(names.WHILE_AWAY, part(0, *entries_of(names.RUN_HOOK, hook, end), start, failed))
        recorded.do(names.RUN_HOOK, hook, end)
    told = sorted(text.split()[0] for text in recorded.texts() if " done" in text)
    assert told == ["postStart", "preStart", "preStart"]


def test_a_hook_before_a_start_is_told_once_although_the_node_gets_its_answer_again(recorded: Recorder) -> None:
    """The history has its end, and Temporal went away before anything was decided: the registry answers the node."""
    hook = replace(HOOK, hook=Hook.PRE_START, container_id="", sandbox_id="s1", reason="before its start")
    recorded.do(names.RUN_HOOK, hook, HookEnded(succeeded=True), took=1)
    recorded.after(200)
    recorded.signal(names.WHILE_AWAY, part(0, *entries_of(names.RUN_HOOK, hook, HookEnded(succeeded=True), begun=150)))
    assert len([text for text in recorded.texts() if text.startswith("preStart of web before its start done")]) == 1


def test_a_hook_whose_stop_was_asked_for_twice_is_told_once(recorded: Recorder) -> None:
    """Workflow and node have decided the same stop, each at its own time."""
    hook = replace(HOOK, hook=Hook.PRE_STOP, asked_at=after(0), reason="its probe failed")
    recorded.do(names.RUN_HOOK, hook, HookEnded(succeeded=True))
    again = entries_of(names.RUN_HOOK, replace(hook, asked_at=after(1)), HookEnded(succeeded=True))
    recorded.signal(names.WHILE_AWAY, part(0, *again))
    assert len([text for text in recorded.texts() if text.startswith("preStop of web done")]) == 1


def test_a_restart_is_told_with_its_reason_if_the_end_of_the_new_instance_is_told_before_it() -> None:
    """The run has read the new end; the story of the outage has the start."""
    recorder = Recorder()
    recorder.begin()
    ends: dict[str, Any] = {"exit_code": 7, "reason": "Error"}
    recorder.do(names.START_CONTAINER, START_WEB, seen(finished_at=START, **ends))
    second = seen("c2", attempt=1, finished_at=after(2), **ends)
    recorder.do(names.READ_POD_RUNTIME, requests.ReadPodRuntime(POD), requests.PodRuntime(containers=(second,)))
    recorder.after(200)
    recorder.signal(
        names.WHILE_AWAY, part(0, *entries_of(names.START_CONTAINER, replace(START_WEB, attempt=1), second, begun=0))
    )
    told = [text for text in recorder.texts() if text.startswith("container web started, restart 1 ")]
    assert [text.partition(": ")[2] for text in told] == ["policy Always after exit 7 Error, without back-off"]


def test_an_answer_whose_request_was_lost_is_told_by_its_name(recorded: Recorder) -> None:
    """The disk took no entry of its begin."""
    completed = StoryEntry(after(6), EntryKind.COMPLETED, names.START_CONTAINER, "start/web", seen())
    recorded.signal(names.WHILE_AWAY, part(0, completed))
    assert recorded.texts()[2:] == ["StartContainer done"]


def test_a_deletion_that_is_told_anew_after_each_switch_is_told_once(recorded: Recorder) -> None:
    """Every sender repeats what it has said to another driver; another grace is another request."""
    deletion = DeletionRequested("file", "ManifestRemoved", "gone")
    told = StoryEntry(after(1), EntryKind.SIGNALLED, names.DELETION_REQUESTED, value=deletion)
    recorded.signal(names.WHILE_AWAY, part(0, told))
    recorded.signal(names.DELETION_REQUESTED, deletion)
    recorded.signal(names.DELETION_REQUESTED, replace(deletion, grace=timedelta()))
    assert recorded.texts()[2:] == [
        "deletion requested by file: ManifestRemoved: gone",
        "deletion requested by file: ManifestRemoved: gone, grace 0.00 s",
    ]


def test_a_pod_that_came_while_it_was_away_is_told_from_its_beginning() -> None:
    """Its run is started with the state after the story: the back-off in it is of a restart that is told first."""
    facts = ContainerFacts(1, "c2", "s1", backoff=timedelta(seconds=10), backoff_at=after(9))
    recorder = Recorder()
    recorder.after(200)
    recorder.begin(replace(STARTED, observed=Observed(started_at=SINCE, containers={"web": facts})))
    recorder.signal(names.WHILE_AWAY, part(0))
    first = entries_of(names.START_CONTAINER, START_WEB, seen(exit_code=1, finished_at=after(5)))
    second = entries_of(names.START_CONTAINER, replace(START_WEB, attempt=1), seen("c2", attempt=1), begun=6)
    recorder.signal(names.WHILE_AWAY, part(0, *first, *second))
    lines = build_story([recorder.events]).lines
    assert [(line.at, line.since_start) for line in lines[:2]] == [(SINCE, timedelta())] * 2
    assert lines[-1].text.endswith(": policy Always after exit 1, without back-off")


def test_what_the_run_finds_when_temporal_is_back_is_told_by_the_story() -> None:
    """It reads that a container has ended, before it is told that the node stopped it, and why."""
    recorder = Recorder()
    recorder.begin()
    recorder.do(names.START_CONTAINER, START_WEB, seen())
    recorder.after(200)
    end = seen(exit_code=0, reason="Completed", finished_at=after(9))
    recorder.do(names.READ_POD_RUNTIME, requests.ReadPodRuntime(POD), requests.PodRuntime(containers=(end,)))
    stop = requests.StopContainer(POD, "web", "c1", timedelta(seconds=5), after(8), "its probe failed")
    recorder.signal(names.WHILE_AWAY, part(0, *entries_of(names.STOP_CONTAINER, stop, end, begun=8)))
    told = [text for text in recorder.texts() if text.startswith("container web ")]
    assert told[1:] == ["container web stopped: exit 0 Completed, after 1.00 s of 5.00 s grace; why: its probe failed"]


def read(container: requests.RuntimeContainer, at: float) -> StoryEntry:
    """Write the entry of a look into the runtime."""
    return StoryEntry(
        after(at), EntryKind.COMPLETED, names.READ_POD_RUNTIME, value=requests.PodRuntime((), (container,))
    )


def test_a_start_that_only_the_run_knew_that_had_taken_the_pod_back_is_told() -> None:
    """Temporal goes away again before the hand-back has its answer: the node finds the container, and did not start it."""
    recorder = Recorder()
    recorder.begin()
    recorder.do(names.RUN_POD_SANDBOX, RUN_SANDBOX, MADE)
    recorder.do(names.START_CONTAINER, START_WEB, seen(exit_code=7, reason="Error", finished_at=START))
    recorder.after(200)
    recorder.ask(names.START_CONTAINER, replace(START_WEB, attempt=1))
    recorder.signal(names.WHILE_AWAY, part(0, read(seen("c2", attempt=1), 100), read(seen("c2", attempt=1), 101)))
    told = [text for text in recorder.texts() if "started, restart" in text]
    assert told == [
        "container web started, restart 1 (found in the runtime): policy Always after exit 7 Error, without back-off"
    ]


def test_a_start_that_is_under_way_is_told_by_its_answer() -> None:
    """Whatever the runtime shows meanwhile; one that has failed is told if the container runs all the same."""
    recorder = Recorder()
    recorder.begin()
    recorder.do(names.RUN_POD_SANDBOX, RUN_SANDBOX, MADE)
    begun, ended = entries_of(names.START_CONTAINER, START_WEB, seen())
    recorder.after(200)
    recorder.signal(names.WHILE_AWAY, part(0, begun, read(seen(), 1.5), ended, read(seen(), 3)))
    again, failed = entries_of(names.START_CONTAINER, replace(START_WEB, attempt=1), None, begun=5)
    failed = replace(failed, kind=EntryKind.FAILED, reason="RunContainerError")
    recorder.signal(names.WHILE_AWAY, part(4, again, failed, read(seen("c2", attempt=1), 7)))
    told = [text.partition(":")[0] for text in recorder.texts() if text.startswith("container web started")]
    assert told == ["container web started (1.00 s)", "container web started, restart 1 (found in the runtime)"]


@pytest.mark.parametrize(
    "container",
    [
        pytest.param(replace(seen("c2"), state=ContainerState.CREATED), id="it-was-only-made"),
        pytest.param(replace(seen("c2"), sandbox_id="s0"), id="in-a-sandbox-of-which-the-history-tells-nothing"),
        pytest.param(seen(), id="it-was-told"),
    ],
)
def test_what_the_runtime_shows_is_no_start(container: requests.RuntimeContainer) -> None:
    """Of a pod whose history begins later, or of what has not begun."""
    recorder = Recorder()
    recorder.begin()
    recorder.do(names.RUN_POD_SANDBOX, RUN_SANDBOX, MADE)
    recorder.do(names.START_CONTAINER, START_WEB, seen())
    before = recorder.texts()
    recorder.do(names.READ_POD_RUNTIME, requests.ReadPodRuntime(POD), requests.PodRuntime((), (container,)))
    assert recorder.texts() == before


def test_a_verdict_that_is_told_anew_is_told_once(recorded: Recorder) -> None:
    """Whoever probes repeats it after a switch; another verdict is another sentence."""
    verdict = ProbeVerdict("web", "c1", ProbeKind.LIVENESS, success=False, sequence=1)
    told = StoryEntry(after(1), EntryKind.SIGNALLED, names.PROBE_VERDICT, value=verdict)
    recorded.signal(names.WHILE_AWAY, part(0, told, replace(told, at=after(2))))
    recorded.signal(names.PROBE_VERDICT, replace(verdict, success=True, sequence=2))
    assert recorded.texts()[2:] == [
        "container web failed its liveness probe",
        "container web passed its liveness probe",
    ]


def test_a_run_that_replaces_one_that_was_ended_is_no_new_pod(recorded: Recorder) -> None:
    """It waits for the story; the pod was listed long before."""
    recorded.event("WORKFLOW_EXECUTION_TERMINATED", reason="TerminateIfRunning")
    recorded.begin(replace(STARTED, observed=Observed(directories=True)))
    assert recorded.texts()[2:] == ["another run goes on with the pod"]


def test_a_pod_whose_run_ended_as_temporal_went_away_is_gone_once(recorded: Recorder) -> None:
    """The node leads it on from its last state, and another run takes it back. A pod that is listed again ends again."""
    gone = PodOutcome("Succeeded", "ManifestRemoved", 0)
    last = replace(STARTED, observed=Observed(cleaned=True))
    for start in (last, STARTED):
        recorded.event("WORKFLOW_EXECUTION_COMPLETED", result=payloads(gone))
        recorded.begin(start)
    recorded.event("WORKFLOW_EXECUTION_COMPLETED", result=payloads(gone))
    told = "the pod is gone: Succeeded, restarts 0 (ManifestRemoved)"
    ends = [text for text in recorded.texts() if "gone" in text]
    assert ends == [told, "the run ends: the pod was gone already", told]
