"""Does at least one recorded life contain each activity, signal and update, so that the replay tests cover it?"""

import dataclasses
import functools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from temporalio import workflow
from temporalio.api.history.v1 import HistoryEvent

from proto.temporal import names
from proto.temporal.pod import PodStart
from proto.temporal.pod_inputs import FirstSight
from proto.temporal.signals import StatusGiven
from worker.commands.replay import read_history
from worker.history.sentences.table import parse_payload
from workflows.loops.calls import ALL_ACTIONS
from workflows.node import NodeWorkflow
from workflows.pod import PodWorkflow

PATHS = sorted(Path(__file__).parent.glob("*histories/*.json"))
DEFINITIONS = [workflow._Definition.must_from_class(one) for one in (PodWorkflow, NodeWorkflow)]
ASKED = sorted(call.name for call in ALL_ACTIONS.values())
TOLD = sorted({name for one in DEFINITIONS for name in (*one.signals, *one.updates) if name})
PARTS = [
    (shape, field.name)
    for shape in (FirstSight, StatusGiven)
    for field in dataclasses.fields(shape)
    if field.name != "sender"  # is not the API's
]


@functools.cache
def recorded() -> tuple[HistoryEvent, ...]:
    """Return every event of every recorded life."""
    return tuple(event for path in PATHS for event in read_history(path).events)


@functools.cache
def words() -> frozenset[str]:
    """Return every activity (local or not), signal and update in the histories."""
    return frozenset(word for event in recorded() for word in words_of(event))


def words_of(event: HistoryEvent) -> Iterator[str]:
    """Return the activity, signal or update of an event."""
    match event.WhichOneof("attributes"):
        case "activity_task_scheduled_event_attributes":
            yield event.activity_task_scheduled_event_attributes.activity_type.name
        case "marker_recorded_event_attributes":
            details = event.marker_recorded_event_attributes.details["data"]
            yield json.loads(details.payloads[0].data)["activity_type"]
        case "workflow_execution_signaled_event_attributes":
            yield event.workflow_execution_signaled_event_attributes.signal_name
        case "workflow_execution_update_accepted_event_attributes":
            yield event.workflow_execution_update_accepted_event_attributes.accepted_request.input.name


@pytest.mark.parametrize("word", [*ASKED, *TOLD])
def test_every_word_is_in_a_recorded_life(word: str) -> None:
    """If one is missing: add a life with it to `record_histories`, and `make record`."""
    assert word in words()


@functools.cache
def shapes() -> tuple[FirstSight | StatusGiven, ...]:
    """Return the parts of the API's status that workflows were started with or signalled."""
    return tuple(shape for event in recorded() for shape in shapes_of(event))


def shapes_of(event: HistoryEvent) -> Iterator[FirstSight | StatusGiven]:
    """Return these parts of one event."""
    started, signaled = (
        event.workflow_execution_started_event_attributes,
        event.workflow_execution_signaled_event_attributes,
    )
    if started.workflow_type.name == names.POD_WORKFLOW:
        start: PodStart | None = parse_payload(started.input.payloads[0].data, PodStart)
        if start and start.first_sight:
            yield start.first_sight
    if signaled.signal_name == names.STATUS_GIVEN:
        yield parse_payload(signaled.input.payloads[0].data, StatusGiven)


@pytest.mark.parametrize(("shape", "part"), PARTS, ids=[f"{shape.__name__}.{part}" for shape, part in PARTS])
def test_every_part_of_what_the_api_tells_is_in_a_recorded_life(shape: type, part: str) -> None:
    """A pod of the API starts with its earlier status; each part of that was set at least once."""
    assert any(getattr(one, part) for one in shapes() if isinstance(one, shape))
