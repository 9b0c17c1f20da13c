"""Turns the history of a pod's workflow into lines of text with times.

The pure part of `tempolet history`: it takes Temporal's event messages, already decrypted, of all runs of one workflow,
oldest first, and returns lines. The sentences are in `sentences`, told by `facts`; this module reads the events and matches the
start and end of each activity.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from temporalio.api.common.v1 import Payload, Payloads
from temporalio.api.enums.v1 import EventType, TimeoutType
from temporalio.api.history.v1 import HistoryEvent

from proto.temporal import names
from proto.temporal.away import HandedBack, WhileAway
from proto.temporal.pod import PodOutcome, PodStart
from worker.history import facts, while_away
from worker.history.failures import describe_failure, failure_message
from worker.history.sentences import container_sentences, table
from worker.history.sentences.start_sentences import at_first, never_was_here, pod_listed, taken_back
from worker.history.sentences.story_state import Line, Story, UnderWay, seconds
from worker.history.sentences.table import parse_payload
from worker.history.story_builder import Dated, Saying, StoryBuilder

ANNOUNCED: Final = 2
"""The event of the signal with which a run is started that waits for a story."""


def build_story(runs: Iterable[Iterable[HistoryEvent]], untold: while_away.Untold | None = None) -> Story:
    """Build the story from all runs of one workflow, oldest first, and from what only the node's journal has."""
    builder = StoryBuilder()
    placed: list[tuple[int, datetime, Line]] = []
    ended_at = None
    for number, events in enumerate(runs, start=1):
        builder.asked.clear()
        builder.told_by_node.clear()
        for event in while_away.in_order(events, _part_of_story):
            at = event.event_time.ToDatetime(tzinfo=UTC)
            ended_at = at if event.event_type in ENDS else None
            for saying in _say(builder, event, at):
                line = _line(saying, event, placed[0][2].at if placed else None, number)
                placed.append((number, at, line))
    # an activity that completed during a workflow task is written after it
    placed.sort(key=lambda one: one[:2])
    lines = [line for *_, line in placed]
    for one in while_away.untold(builder, untold, datetime.now(UTC)) if untold else ():
        since = one.at - (lines[0].at if lines else one.at)
        lines.append(Line(one.at, since, one.text, run=0, while_away=one.is_entry))
    under_way = (UnderWay(one.activity_id, one.what, one.at) for one in builder.asked.values())
    return Story(tuple(lines), tuple(under_way), ended_at)


def _line(saying: Saying, event: HistoryEvent, began: datetime | None, run: int) -> Line:
    """Write a line; what happened while Temporal was away has its own time, and the place of the signal that told it.

    `began`: the time of the first line.
    """
    dated = (
        Dated(event.event_time.ToDatetime(tzinfo=UTC), saying, is_entry=False) if isinstance(saying, str) else saying
    )
    since = dated.at - (began or dated.at)
    return Line(dated.at, since, dated.text, event.event_id, run, while_away=dated.is_entry)


def _say(builder: StoryBuilder, event: HistoryEvent, at: datetime) -> Iterator[Saying]:
    """Report one event; most are Temporal's own and yield nothing."""
    teller_of_kind = EVENTS.get(event.event_type)
    if teller_of_kind is not None:
        yield from teller_of_kind(builder, event, at)


def _started(builder: StoryBuilder, event: HistoryEvent, at: datetime) -> Iterator[Saying]:
    attributes = event.workflow_execution_started_event_attributes
    start = _read(attributes.input, PodStart)
    if start is None:
        yield "the start of the pod cannot be read: was it encrypted with another key file?"
        return
    builder.state.settings, builder.state.pod = start.settings, start.pod
    before, builder.state.behaviour = builder.state.behaviour, start.behaviour
    builder.containers_before = {name: replace(one) for name, one in builder.state.containers.items()}
    begins = container_sentences.continued(builder.state, start.observed)
    builder.gone = "" if begins else builder.gone
    handed_before, builder.handed_back = builder.handed_back, start.handed_back
    is_continued = bool(attributes.continued_execution_run_id)
    if before and start.handed_back not in (None, handed_before):
        yield taken_back(by_the_run_before=is_continued)
    elif not is_continued and before and not begins:
        yield "another run goes on with the pod"
    elif not is_continued:
        yield from _listed(start, at)
    elif begins:
        yield "its source lists the pod again: it starts over"
    elif before and before < start.behaviour:
        yield f"it continues in a new run, which follows behaviour {start.behaviour}"
    else:
        yield "the history had grown long: continued in a new run"
    if begins:
        builder.state.never_was_here = never_was_here(start)
        yield from at_first(start)


def _part_of_story(event: HistoryEvent) -> WhileAway | None:
    """Read the part of an outage's story that a signal brings; None of another event."""
    attributes = event.workflow_execution_signaled_event_attributes
    part = _read(attributes.input, WhileAway) if attributes.signal_name == names.WHILE_AWAY else None
    return part if isinstance(part, WhileAway) else None


def _listed(start: PodStart, at: datetime) -> Iterator[Saying]:
    """Report how the pod came to this node; one that came while Temporal was away was there before its workflow."""
    began = start.observed.started_at if start.observed else None
    yield Dated(began, pod_listed(start), is_entry=False) if began and began < at else pod_listed(start)


def _signaled(builder: StoryBuilder, event: HistoryEvent, at: datetime) -> Iterator[Saying]:
    attributes = event.workflow_execution_signaled_event_attributes
    read = partial(_read, attributes.input)
    match attributes.signal_name:
        case names.WHILE_AWAY:
            part = read(WhileAway)
            if part and event.event_id == ANNOUNCED:  # the run's input has what the containers are after the story
                builder.state.containers = builder.containers_before
            yield from while_away.told(builder, part, at)
        case names.HANDED_BACK:
            yield from while_away.handed_back(builder, read(HandedBack))
        case name:
            yield from facts.signalled(builder.state, name, attributes.identity, read)


def _update_accepted(builder: StoryBuilder, event: HistoryEvent, _: datetime) -> Iterator[Saying]:
    asked = event.workflow_execution_update_accepted_event_attributes.accepted_request
    builder.updates[asked.meta.update_id] = asked.input.name
    yield from ()


def _update_completed(builder: StoryBuilder, event: HistoryEvent, _: datetime) -> Iterator[Saying]:
    attributes = event.workflow_execution_update_completed_event_attributes
    name = builder.updates.get(attributes.meta.update_id, "")
    yield from facts.updated(builder.state, name, partial(_read, attributes.outcome.success))


def _scheduled(builder: StoryBuilder, event: HistoryEvent, at: datetime) -> Iterator[Saying]:
    attributes = event.activity_task_scheduled_event_attributes
    read = partial(_read, attributes.input)
    activity_id, activity = attributes.activity_id, attributes.activity_type.name
    builder.asked[event.event_id] = facts.scheduled(builder.state, activity_id, activity, read, at=at)
    yield from ()


def _activity_started(builder: StoryBuilder, event: HistoryEvent, _: datetime) -> Iterator[Saying]:
    attributes = event.activity_task_started_event_attributes
    asked = builder.asked.get(attributes.scheduled_event_id)
    if asked is not None:
        why = describe_failure(attributes.last_failure) if attributes.HasField("last_failure") else ""
        tried = replace(asked, tries=attributes.attempt, last_failure=why)
        builder.asked[attributes.scheduled_event_id] = tried
    yield from ()


def _activity_completed(builder: StoryBuilder, event: HistoryEvent, at: datetime) -> Iterator[Saying]:
    attributes = event.activity_task_completed_event_attributes
    if attributes.scheduled_event_id in builder.told_by_node:
        return
    asked = builder.asked.pop(attributes.scheduled_event_id, None)
    yield from facts.completed(builder.state, asked, partial(_read, attributes.result), at)


def _activity_failed(builder: StoryBuilder, event: HistoryEvent, at: datetime) -> Iterator[Saying]:
    attributes = event.activity_task_failed_event_attributes
    asked = builder.asked.pop(attributes.scheduled_event_id, None)
    if asked is not None:
        kind = attributes.failure.application_failure_info.type
        failed = facts.FailedActivity(kind, failure_message(attributes.failure))
        yield from facts.failed(builder.state, asked, failed, at)


def _activity_timed_out(builder: StoryBuilder, event: HistoryEvent, at: datetime) -> Iterator[Saying]:
    attributes = event.activity_task_timed_out_event_attributes
    asked = builder.asked.pop(attributes.scheduled_event_id, None)
    if asked is not None:
        kind = TimeoutType.Name(attributes.failure.timeout_failure_info.timeout_type)
        why = kind.removeprefix("TIMEOUT_TYPE_").lower().replace("_", " ")
        yield f"{asked.what} timed out after {seconds(at - asked.at)} ({why}){asked.counted_tries}"


def _activity_canceled(builder: StoryBuilder, event: HistoryEvent, _: datetime) -> Iterator[Saying]:
    asked = builder.asked.pop(event.activity_task_canceled_event_attributes.scheduled_event_id, None)
    if asked is not None:
        yield from facts.cancelled(asked)


def _read_at_once(builder: StoryBuilder, event: HistoryEvent, at: datetime) -> Iterator[Saying]:
    """Report a local activity that returned a result; one that failed is repeated as an activity and reported then."""
    details = event.marker_recorded_event_attributes.details
    about = _read(details["data"], dict[str, Any]) if "data" in details else None
    if about and "result" in details:
        read = partial(_read, details["result"])
        yield from facts.read_at_once(builder.state, str(about.get("activity_type")), read, at)


def _timer_started(builder: StoryBuilder, event: HistoryEvent, at: datetime) -> Iterator[Saying]:
    wait = event.timer_started_event_attributes.start_to_fire_timeout.ToTimedelta()
    yield from builder.waits.begun(_text(event.user_metadata.summary), wait, at)


def _task_started(builder: StoryBuilder, event: HistoryEvent, _: datetime) -> Iterator[Saying]:
    identity = event.workflow_task_started_event_attributes.identity
    before, builder.identity = builder.identity, identity
    if before and identity and before != identity:
        yield f"another worker took over: {identity}"


def _task_timed_out(_: StoryBuilder, event: HistoryEvent, __: datetime) -> Iterator[Saying]:
    kind = TimeoutType.Name(event.workflow_task_timed_out_event_attributes.timeout_type)
    if kind == "TIMEOUT_TYPE_START_TO_CLOSE":
        yield "the worker disappeared during a workflow task; the next one continues"


def _task_failed(_: StoryBuilder, event: HistoryEvent, __: datetime) -> Iterator[Saying]:
    yield f"the workflow task failed: {describe_failure(event.workflow_task_failed_event_attributes.failure)}"


def _attributes_changed(builder: StoryBuilder, event: HistoryEvent, _: datetime) -> Iterator[Saying]:
    fields = event.upsert_workflow_search_attributes_event_attributes.search_attributes.indexed_fields
    changed = {name: parse_payload(payload.data, Any) for name, payload in fields.items()}
    yield from facts.published(builder.state, builder.attributes, changed)


def _completed(builder: StoryBuilder, event: HistoryEvent, _: datetime) -> Iterator[Saying]:
    """Report the pod's end once: a run that takes back a pod whose run had ended in the outage ends like that one."""
    text = table.pod_gone(_read(event.workflow_execution_completed_event_attributes.result, PodOutcome))
    yield "the run ends: the pod was gone already" if builder.gone == text else text
    builder.gone = text


def _cancel_requested(_: StoryBuilder, __: HistoryEvent, ___: datetime) -> Iterator[Saying]:
    yield "someone asked Temporal to cancel the workflow: ignored, a pod ends when its manifest is removed"


def _ended_from_outside(_: StoryBuilder, event: HistoryEvent, __: datetime) -> Iterator[Saying]:
    match event.event_type:
        case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED:
            attributes = event.workflow_execution_terminated_event_attributes
            yield f"the workflow was terminated by {attributes.identity or 'someone'}: {attributes.reason or 'no reason'}"
        case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED:
            yield f"the workflow failed: {describe_failure(event.workflow_execution_failed_event_attributes.failure)}"
        case _:
            yield f"the workflow ended: {EventType.Name(event.event_type).removeprefix('EVENT_TYPE_')}"


EVENTS: Final[Mapping[int, Callable[[StoryBuilder, HistoryEvent, datetime], Iterator[Saying]]]] = {
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED: _started,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED: _signaled,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED: _update_accepted,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_COMPLETED: _update_completed,
    EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED: _scheduled,
    EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED: _activity_started,
    EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED: _activity_completed,
    EventType.EVENT_TYPE_ACTIVITY_TASK_FAILED: _activity_failed,
    EventType.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT: _activity_timed_out,
    EventType.EVENT_TYPE_ACTIVITY_TASK_CANCELED: _activity_canceled,
    EventType.EVENT_TYPE_MARKER_RECORDED: _read_at_once,
    EventType.EVENT_TYPE_TIMER_STARTED: _timer_started,
    EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED: _task_started,
    EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT: _task_timed_out,
    EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED: _task_failed,
    EventType.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES: _attributes_changed,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED: _completed,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED: _ended_from_outside,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED: _ended_from_outside,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED: _ended_from_outside,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT: _ended_from_outside,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED: _cancel_requested,
}
"""Event types that yield a sentence; all others are Temporal's own."""


ENDS: Final = frozenset(kind for kind, say in EVENTS.items() if say in {_completed, _ended_from_outside})
"""No event follows one of these types. Continue-as-new is not one of them."""


def _read(payloads: Payloads, kind: Any) -> Any:
    return parse_payload(payloads.payloads[0].data, kind) if payloads.payloads else None


def _text(payload: Payload) -> str:
    return str(parse_payload(payload.data, str) or "")
