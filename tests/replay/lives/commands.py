"""Compares the commands of a replay with those of the recorded run, including their content.

Temporal's own replay compares only the kind and the id of a command. It ignores an activity's input, a timer's duration, search
attributes, an Update's result and the next run's input; here these are compared with the history's events. Ignored is what may
differ without a different outcome (timeouts, retries, summaries for the UI), and what a history does not keep (a local
activity's input).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Final

from temporalio.api.common.v1 import Payload
from temporalio.api.history.v1 import HistoryEvent
from temporalio.bridge.proto.workflow_commands import WorkflowCommand

EMPTY: Final[tuple[Any, ...]] = (None, "", "PT0S", 0, False, [])
"""Values that a new field may have in old payloads: payloads may only gain fields."""
_MISSING: Final = object()


@dataclass(frozen=True, slots=True)
class Step:
    """One command, as issued or as recorded."""

    kind: str
    name: str = ""
    """Distinguishes commands of the same kind; empty: by order."""
    content: tuple[bytes | float | str, ...] = ()
    """Payloads' data, times in seconds, types."""


def given(command: WorkflowCommand) -> Step | None:
    """Read a command; None if the history does not keep its content."""
    match command.WhichOneof("variant"):
        case "schedule_activity":
            asked = command.schedule_activity
            return Step("activity", asked.activity_id, (asked.activity_type, *_data(asked.arguments)))
        case "start_timer":
            timer = command.start_timer
            return Step("timer", str(timer.seq), (timer.start_to_fire_timeout.ToMicroseconds() / 1e6,))
        case "upsert_workflow_search_attributes":
            return Step(
                "attributes", "", _told(command.upsert_workflow_search_attributes.search_attributes.indexed_fields)
            )
        case "continue_as_new_workflow_execution":
            return Step("continued", "", _data(command.continue_as_new_workflow_execution.arguments))
        case "complete_workflow_execution":
            return Step("completed", "", _data([command.complete_workflow_execution.result]))
        case "update_response" if command.update_response.HasField("completed"):
            return Step("update", "", _data([command.update_response.completed]))
    return None


def recorded(event: HistoryEvent) -> Step | None:
    """Read an event; None if no command caused it."""
    match event.WhichOneof("attributes"):
        case "activity_task_scheduled_event_attributes":
            asked = event.activity_task_scheduled_event_attributes
            return Step("activity", asked.activity_id, (asked.activity_type.name, *_data(asked.input.payloads)))
        case "timer_started_event_attributes":
            timer = event.timer_started_event_attributes
            return Step("timer", timer.timer_id, (timer.start_to_fire_timeout.ToMicroseconds() / 1e6,))
        case "upsert_workflow_search_attributes_event_attributes":
            told = event.upsert_workflow_search_attributes_event_attributes.search_attributes.indexed_fields
            return Step("attributes", "", _told(told))
        case "workflow_execution_continued_as_new_event_attributes":
            inputs = event.workflow_execution_continued_as_new_event_attributes.input.payloads
            return Step("continued", "", _data(inputs))
        case "workflow_execution_completed_event_attributes":
            return Step("completed", "", _data(event.workflow_execution_completed_event_attributes.result.payloads))
        case "workflow_execution_update_completed_event_attributes":
            outcome = event.workflow_execution_update_completed_event_attributes.outcome
            return Step("update", "", _data(outcome.success.payloads)) if outcome.HasField("success") else None
    return None


def differences(events: Sequence[HistoryEvent], said: Sequence[Step]) -> Iterator[str]:
    """Describe the differences between a replay's commands and the recorded run.

    A command that was cancelled within its workflow task has left no event, so commands may be skipped.
    """
    left: dict[str, list[Step]] = {}
    for step in said:
        left.setdefault(step.kind, []).append(step)
    for event in events:
        was = recorded(event)
        if was is None:
            continue
        candidates = [step for step in left.get(was.kind, ()) if step.name == was.name]
        same = next((step for step in candidates if not otherwise(was, step)), None)
        found = same or next(iter(candidates), None)
        if found is None:
            yield f"event {event.event_id}: no {was.kind} {was.name}".rstrip()
            continue
        del left[was.kind][: left[was.kind].index(found) + 1]
        if same is None:
            yield f"event {event.event_id}: {was.kind} {was.name}: {otherwise(was, found)}"


def otherwise(was: Step, now: Step) -> str:
    """Describe how two commands differ; empty if they do not."""
    for before, after in zip_longest(was.content, now.content, fillvalue=_MISSING):
        if before != after and (told := _differs("", _read(before), _read(after))):
            return told
    return ""


def _differs(path: str, before: Any, after: Any) -> str:
    if isinstance(before, dict) and isinstance(after, dict):
        for name in {**before, **after}:
            if name not in before and _is_empty(after[name]):
                continue
            found = _differs(f"{path}.{name}", before.get(name, _MISSING), after.get(name, _MISSING))
            if found:
                return found
        return ""
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        each = (
            _differs(f"{path}[{at}]", one, other) for at, (one, other) in enumerate(zip(before, after, strict=True))
        )
        return next((one for one in each if one), "")
    return "" if before == after else f"{path or 'content'} was {_short(before)} and is {_short(after)}"


def _is_empty(value: Any) -> bool:
    """Report whether a value says nothing: so does an object of such values."""
    if isinstance(value, dict):
        return all(_is_empty(one) for one in value.values())
    return any(value == one and type(value) is type(one) for one in EMPTY)


def _short(value: Any) -> str:
    text = "nothing" if value is _MISSING else json.dumps(value, default=str)
    return text if len(text) <= 120 else f"{text[:119]}…"


def _read(content: Any) -> Any:
    try:
        return json.loads(content) if isinstance(content, bytes) else content
    except ValueError:
        return content.decode(errors="replace")


def _data(payloads: Sequence[Payload]) -> tuple[bytes, ...]:
    return tuple(one.data for one in payloads)


def _told(fields: Mapping[str, Payload]) -> tuple[bytes, ...]:
    return (json.dumps({name: one.data.decode() for name, one in sorted(fields.items())}).encode(),)
