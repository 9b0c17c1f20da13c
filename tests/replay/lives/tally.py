"""Counts by name what happens in the recorded lives."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

from temporalio.api.history.v1 import HistoryEvent, WorkflowExecutionSignaledEventAttributes

from proto.temporal.names import MOUNT_VOLUMES, REMOVE_POD_DIRECTORIES, RUNTIME_CHANGED
from proto.temporal.signals import REBOOT
from tests.replay.lives.archive import RecordedRun

LEFT_OUT: Final = "a volume that nothing uses is left out"
ONE_MORE: Final = "one more volume is mounted"
SIGNALS_PER_RUN: Final = 2000
"""As in `workflows.temporal_driver`: a run with this many signals continues as new for that reason."""


def tally(runs: Iterable[RecordedRun]) -> Counter[str]:
    """Count over all runs."""
    return Counter(word for run in runs for word in words(run))


def words(run: RecordedRun) -> Iterator[str]:
    """Return the names of what happened in a run."""
    asked: dict[int, str] = {}
    for event in run.history.events:
        yield from of_event(event, asked)
    yield from _of_ends(run)
    yield from _of_volumes(run)


def of_event(event: HistoryEvent, asked: dict[int, str]) -> Iterator[str]:
    """Return the names of what an event tells; `asked` holds the activities of the run's events before it."""
    yield from _of_activity(event, asked)
    match event.WhichOneof("attributes"):
        case "workflow_execution_signaled_event_attributes":
            yield from _of_signal(event.workflow_execution_signaled_event_attributes)
        case "workflow_execution_update_accepted_event_attributes":
            accepted = event.workflow_execution_update_accepted_event_attributes.accepted_request
            yield f"update {accepted.input.name}"
        case "workflow_execution_cancel_requested_event_attributes":
            yield "cancel of the workflow"
        case "timer_fired_event_attributes":
            yield "timer fired"
        case "timer_canceled_event_attributes":
            yield "timer canceled"


def _of_signal(signalled: WorkflowExecutionSignaledEventAttributes) -> Iterator[str]:
    """Return the name of a signal, and of a hint that the machine was restarted."""
    yield f"signal {signalled.signal_name}"
    if signalled.signal_name == RUNTIME_CHANGED:
        said = [json.loads(one.data) for one in signalled.input.payloads]
        if said and isinstance(said[0], dict) and said[0].get("source") == REBOOT:
            yield "restart of the machine"


def _of_activity(event: HistoryEvent, asked: dict[int, str]) -> Iterator[str]:
    """Return the name of an activity's outcome; local activities are found by their markers."""
    match event.WhichOneof("attributes"):
        case "activity_task_scheduled_event_attributes":
            asked[event.event_id] = event.activity_task_scheduled_event_attributes.activity_type.name
            yield f"activity {asked[event.event_id]}"
        case "activity_task_started_event_attributes":
            started = event.activity_task_started_event_attributes
            if started.attempt > 1:
                yield f"{asked[started.scheduled_event_id]} tried again"
        case "activity_task_completed_event_attributes":
            done = event.activity_task_completed_event_attributes
            yield f"{asked[done.scheduled_event_id]} answered"
        case "activity_task_failed_event_attributes":
            failed = event.activity_task_failed_event_attributes
            yield f"{asked[failed.scheduled_event_id]} failed"
            yield f"failure {failed.failure.application_failure_info.type}"
        case "activity_task_cancel_requested_event_attributes":
            given_up = event.activity_task_cancel_requested_event_attributes
            yield f"{asked[given_up.scheduled_event_id]} given up"
        case "marker_recorded_event_attributes":
            marker = event.marker_recorded_event_attributes
            kind = json.loads(marker.details["data"].payloads[0].data)["activity_type"]
            yield f"activity {kind}"
            yield f"{kind} {'failed' if marker.HasField('failure') else 'answered'} at once"


def _of_ends(run: RecordedRun) -> Iterator[str]:
    """Return the names of a run's start and end."""
    first, last = run.history.events[0], run.history.events[-1]
    start = json.loads(first.workflow_execution_started_event_attributes.input.payloads[0].data)
    if "source" in start:
        yield f"source {start['source']}"
    if seen := start.get("first_sight"):
        yield from (f"first sight {name}" for name, value in seen.items() if value)
    match last.WhichOneof("attributes"):
        case "workflow_execution_continued_as_new_event_attributes":
            yield f"continued as new {_why_continued(run)}"
            if _carried(last)["behaviour"] > start["behaviour"]:
                yield "behaviour raised"
        case "workflow_execution_completed_event_attributes":
            outcome = json.loads(last.workflow_execution_completed_event_attributes.result.payloads[0].data)
            yield f"ended {outcome['phase']}"
            if (outcome["phase"], outcome["reason"]) == ("Succeeded", "Evicted"):
                yield "evicted and succeeded"
        case "workflow_execution_terminated_event_attributes":
            yield "history lost"


def _of_volumes(run: RecordedRun) -> Iterator[str]:
    """Return whether a run mounted not all volumes of its pod, and whether it mounted one more beside a sandbox whose volumes it had mounted."""
    start = json.loads(run.history.events[0].workflow_execution_started_event_attributes.input.payloads[0].data)
    there = len(((start.get("pod") or {}).get("spec") or {}).get("volumes") or ())
    before: dict[int, int] = {}
    for event in run.history.events:
        asked = event.activity_task_scheduled_event_attributes
        if asked.activity_type.name != MOUNT_VOLUMES:
            continue
        mount = json.loads(asked.input.payloads[0].data)
        if mount.get("refresh") is not None:
            continue
        count, attempt = len(mount["volumes"]), mount["sandbox_attempt"]
        if count < there:
            yield LEFT_OUT
        if count > before.setdefault(attempt, count):
            yield ONE_MORE
        before[attempt] = count


def _carried(last: HistoryEvent) -> dict[str, Any]:
    """Read the input of the next run."""
    given = last.workflow_execution_continued_as_new_event_attributes.input.payloads[0]
    carried: dict[str, Any] = json.loads(given.data)
    return carried


def _why_continued(run: RecordedRun) -> str:
    """Return why a run was continued: when a pod was listed again, it was cleaned up first, and the next run has no state."""
    events, last = run.history.events, run.history.events[-1]
    carried = _carried(last)["observed"]
    removed = any(
        event.activity_task_scheduled_event_attributes.activity_type.name == REMOVE_POD_DIRECTORIES for event in events
    )
    if removed and carried["lifecycle"] == "sync" and not carried["cleaned"]:
        return "for the pod is listed again"
    signals = sum(event.HasField("workflow_execution_signaled_event_attributes") for event in events)
    return "by signals" if signals >= SIGNALS_PER_RUN else "by events"
