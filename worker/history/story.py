"""Turns the history of a pod's workflow into lines of text with times.

The pure part of `tempolet history`: it takes Temporal's event messages, already decrypted, of all runs of one workflow,
oldest first, and returns lines. The sentences are in `sentences`; this module matches the start and end of each
activity and computes durations.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from temporalio.api.common.v1 import Payload, Payloads
from temporalio.api.enums.v1 import EventType, TimeoutType
from temporalio.api.history.v1 import HistoryEvent

from proto.temporal.failure_types import PREDECESSOR_PRESENT
from proto.temporal.pod import PodOutcome, PodStart
from worker.history import container_sentences, sentences, update_sentences
from worker.history.failures import describe_failure, failure_message
from worker.history.sentences import parse_payload
from worker.history.start_sentences import at_first
from worker.history.story_state import CompletedActivity, Line, Story, StoryState, UnderWay, seconds


@dataclass(frozen=True, slots=True)
class _Scheduled:
    """A scheduled activity: its request, when it was scheduled, and the latest attempt."""

    activity_id: str
    activity: str
    request: Any
    at: datetime
    tries: int = 1
    last_failure: str = ""


@dataclass(slots=True)
class _StoryBuilder:
    """State kept between two events."""

    state: StoryState = field(default_factory=StoryState)
    asked: dict[int, _Scheduled] = field(default_factory=dict)
    identity: str = ""
    attributes: dict[str, Any] = field(default_factory=dict)
    updates: dict[str, str] = field(default_factory=dict)
    """Update id -> name."""
    waits: dict[str, datetime] = field(default_factory=dict)
    """When each wait ends, by its timer's summary: a timer may be started again, its wait is reported once."""


def build_story(runs: Iterable[Iterable[HistoryEvent]]) -> Story:
    """Build the story from all runs of one workflow, oldest first."""
    builder = _StoryBuilder()
    lines: list[Line] = []
    ended_at = None
    for number, events in enumerate(runs, start=1):
        builder.asked.clear()
        for event in events:
            at = event.event_time.ToDatetime(tzinfo=UTC)
            first = lines[0].at if lines else at
            ended_at = at if event.event_type in ENDS else None
            lines += [Line(at, at - first, text, event.event_id, number) for text in _say(builder, event, at)]
    lines.sort(
        key=lambda line: (line.run, line.at)
    )  # an activity that completed during a workflow task is written after it
    under_way = (UnderWay(one.activity_id, _what(one), one.at) for one in builder.asked.values())
    return Story(tuple(lines), tuple(under_way), ended_at)


def _say(builder: _StoryBuilder, event: HistoryEvent, at: datetime) -> Iterator[str]:
    """Report one event; most are Temporal's own and yield nothing."""
    teller_of_kind = EVENTS.get(event.event_type)
    if teller_of_kind is not None:
        yield from teller_of_kind(builder, event, at)


def _started(builder: _StoryBuilder, event: HistoryEvent, __: datetime) -> Iterator[str]:
    attributes = event.workflow_execution_started_event_attributes
    start = _read(attributes.input, PodStart)
    if start is None:
        yield "the start of the pod cannot be read: was it encrypted with another key file?"
        return
    builder.state.settings, builder.state.pod = start.settings, start.pod
    before, builder.state.behaviour = builder.state.behaviour, start.behaviour
    begins = container_sentences.continued(builder.state, start.observed)
    if not attributes.continued_execution_run_id:
        yield sentences.pod_listed(start)
    elif begins:
        yield "its source lists the pod again: it starts over"
    elif before and before < start.behaviour:
        yield f"it continues in a new run, which follows behaviour {start.behaviour}"
    else:
        yield "the history had grown long: continued in a new run"
    if begins:
        yield from at_first(start)


def _signaled(builder: _StoryBuilder, event: HistoryEvent, _: datetime) -> Iterator[str]:
    attributes = event.workflow_execution_signaled_event_attributes
    row = sentences.SIGNALS.get(attributes.signal_name)
    if row is None:
        yield f"signal {attributes.signal_name}, which this release does not know"
        return
    signal = _read(attributes.input, row.kind)
    if signal is None:
        yield f"signal {attributes.signal_name} from {attributes.identity}, which cannot be read and is ignored"
    else:
        yield from row.say(builder.state, signal)


def _update_accepted(builder: _StoryBuilder, event: HistoryEvent, _: datetime) -> Iterator[str]:
    asked = event.workflow_execution_update_accepted_event_attributes.accepted_request
    builder.updates[asked.meta.update_id] = asked.input.name
    yield from ()


def _update_completed(builder: _StoryBuilder, event: HistoryEvent, _: datetime) -> Iterator[str]:
    attributes = event.workflow_execution_update_completed_event_attributes
    name = builder.updates.get(attributes.meta.update_id, "")
    row = update_sentences.UPDATES.get(name)
    answer = _read(attributes.outcome.success, row.kind) if row else None
    if row is None or answer is None:
        yield f"update {name}, which this release does not know or cannot read"
    else:
        yield from row.say(builder.state, answer)


def _scheduled(builder: _StoryBuilder, event: HistoryEvent, at: datetime) -> Iterator[str]:
    attributes = event.activity_task_scheduled_event_attributes
    row = sentences.ACTIVITIES.get(attributes.activity_type.name)
    request = _read(attributes.input, row.asked) if row else None
    if row and row.note and request is not None:
        row.note(builder.state, request)
    builder.asked[event.event_id] = _Scheduled(attributes.activity_id, attributes.activity_type.name, request, at)
    yield from ()


def _activity_started(builder: _StoryBuilder, event: HistoryEvent, _: datetime) -> Iterator[str]:
    attributes = event.activity_task_started_event_attributes
    asked = builder.asked.get(attributes.scheduled_event_id)
    if asked is not None:
        why = describe_failure(attributes.last_failure) if attributes.HasField("last_failure") else ""
        tried = replace(asked, tries=attributes.attempt, last_failure=why)
        builder.asked[attributes.scheduled_event_id] = tried
    yield from ()


def _activity_completed(builder: _StoryBuilder, event: HistoryEvent, at: datetime) -> Iterator[str]:
    attributes = event.activity_task_completed_event_attributes
    asked = builder.asked.pop(attributes.scheduled_event_id, None)
    row = sentences.ACTIVITIES.get(asked.activity) if asked else None
    if asked is None or row is None or asked.request is None:
        yield f"{asked.activity if asked else 'an activity'} done"
        return
    answer = _read(attributes.result, row.answer) if row.answer is not None else None
    for number, text in enumerate(
        row.say(builder.state, CompletedActivity(asked.request, answer, asked.at, at - asked.at))
    ):
        yield text + (_tries(asked) if number == 0 else "")


def _activity_failed(builder: _StoryBuilder, event: HistoryEvent, at: datetime) -> Iterator[str]:
    attributes = event.activity_task_failed_event_attributes
    asked = builder.asked.pop(attributes.scheduled_event_id, None)
    if asked is None:
        return
    if attributes.failure.application_failure_info.type == PREDECESSOR_PRESENT:
        yield f"{_what(asked)} waits: {failure_message(attributes.failure)}"
    else:
        took = seconds(at - asked.at)
        yield f"{_what(asked)} failed after {took}: {describe_failure(attributes.failure)}{_tries(asked)}"


def _activity_timed_out(builder: _StoryBuilder, event: HistoryEvent, at: datetime) -> Iterator[str]:
    attributes = event.activity_task_timed_out_event_attributes
    asked = builder.asked.pop(attributes.scheduled_event_id, None)
    if asked is not None:
        kind = TimeoutType.Name(attributes.failure.timeout_failure_info.timeout_type)
        why = kind.removeprefix("TIMEOUT_TYPE_").lower().replace("_", " ")
        yield f"{_what(asked)} timed out after {seconds(at - asked.at)} ({why}){_tries(asked)}"


def _activity_canceled(builder: _StoryBuilder, event: HistoryEvent, _: datetime) -> Iterator[str]:
    asked = builder.asked.pop(event.activity_task_canceled_event_attributes.scheduled_event_id, None)
    if asked is not None:
        yield f"{_what(asked)} was cancelled"


def _read_at_once(builder: _StoryBuilder, event: HistoryEvent, at: datetime) -> Iterator[str]:
    """Report a local activity that returned a result; one that failed is repeated as an activity and reported then."""
    details = event.marker_recorded_event_attributes.details
    about = _read(details["data"], dict[str, Any]) if "data" in details else None
    row = sentences.ACTIVITIES.get(str(about.get("activity_type"))) if about else None
    answer = _read(details["result"], row.answer) if row and "result" in details else None
    if row is not None and answer is not None:
        yield from row.say(builder.state, CompletedActivity(None, answer, at, timedelta()))


def _timer_started(builder: _StoryBuilder, event: HistoryEvent, at: datetime) -> Iterator[str]:
    wait = event.timer_started_event_attributes.start_to_fire_timeout.ToTimedelta()
    summary = _text(event.user_metadata.summary)
    if at > builder.waits.get(summary, at - wait):
        yield f"waits {seconds(wait)}: {summary}" if summary else f"waits {seconds(wait)}"
    builder.waits[summary] = at + wait


def _task_started(builder: _StoryBuilder, event: HistoryEvent, _: datetime) -> Iterator[str]:
    identity = event.workflow_task_started_event_attributes.identity
    before, builder.identity = builder.identity, identity
    if before and identity and before != identity:
        yield f"another worker took over: {identity}"


def _task_timed_out(_: _StoryBuilder, event: HistoryEvent, __: datetime) -> Iterator[str]:
    kind = TimeoutType.Name(event.workflow_task_timed_out_event_attributes.timeout_type)
    if kind == "TIMEOUT_TYPE_START_TO_CLOSE":
        yield "the worker disappeared during a workflow task; the next one continues"


def _task_failed(_: _StoryBuilder, event: HistoryEvent, __: datetime) -> Iterator[str]:
    yield f"the workflow task failed: {describe_failure(event.workflow_task_failed_event_attributes.failure)}"


def _attributes_changed(builder: _StoryBuilder, event: HistoryEvent, _: datetime) -> Iterator[str]:
    fields = event.upsert_workflow_search_attributes_event_attributes.search_attributes.indexed_fields
    before = dict(builder.attributes)
    builder.attributes |= {name: parse_payload(payload.data, Any) for name, payload in fields.items()}
    builder.state.phase = sentences.attribute(builder.attributes, "PodPhase")
    yield from sentences.attributes_changed(before, builder.attributes)


def _completed(_: _StoryBuilder, event: HistoryEvent, __: datetime) -> Iterator[str]:
    outcome = _read(event.workflow_execution_completed_event_attributes.result, PodOutcome)
    yield sentences.pod_gone(outcome)


def _cancel_requested(_: _StoryBuilder, __: HistoryEvent, ___: datetime) -> Iterator[str]:
    yield "someone asked Temporal to cancel the workflow: ignored, a pod ends when its manifest is removed"


def _ended_from_outside(_: _StoryBuilder, event: HistoryEvent, __: datetime) -> Iterator[str]:
    match event.event_type:
        case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED:
            attributes = event.workflow_execution_terminated_event_attributes
            yield f"the workflow was terminated by {attributes.identity or 'someone'}: {attributes.reason or 'no reason'}"
        case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED:
            yield f"the workflow failed: {describe_failure(event.workflow_execution_failed_event_attributes.failure)}"
        case _:
            yield f"the workflow ended: {EventType.Name(event.event_type).removeprefix('EVENT_TYPE_')}"


EVENTS: Final[Mapping[int, Callable[[_StoryBuilder, HistoryEvent, datetime], Iterator[str]]]] = {
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


def _what(asked: _Scheduled) -> str:
    row = sentences.ACTIVITIES.get(asked.activity)
    return row.what(asked.request) if row and asked.request is not None else asked.activity


def _tries(asked: _Scheduled) -> str:
    why = f", after {asked.last_failure}" if asked.last_failure else ""
    return f" (try {asked.tries}{why})" if asked.tries > 1 else ""


def _read(payloads: Payloads, kind: Any) -> Any:
    return parse_payload(payloads.payloads[0].data, kind) if payloads.payloads else None


def _text(payload: Payload) -> str:
    return str(parse_payload(payload.data, str) or "")
