"""Does a replay see the times that the workflow saw when it was led?

Where neither a workflow task nor the one before it has commands, and the next one follows with nothing between them, the SDK replays it
together with that next one (temporalio/sdk-rust#1606): it takes it for a heartbeat of a local activity. An Update that a validator rejects leaves such a
history if anything arrives during its workflow task; without that, Temporal drops the task. The histories here are written by hand.
"""

from datetime import UTC, datetime, timedelta

import pytest
from temporalio import workflow
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner

from tests.replay.lives.replaying import quiet_runtime

START = datetime(2030, 1, 1, tzinfo=UTC)
SIGNALS = 2
seen: list[int] = []
"""At how many seconds after its start the workflow of this module saw each signal."""


@workflow.defn
class SeesSignals:
    """Notes when it sees signals, and ends after the last."""

    def __init__(self) -> None:
        self.heard = 0

    @workflow.run
    async def run(self) -> None:
        """Wait for the signals."""
        for number in range(SIGNALS):
            await workflow.wait_condition(lambda number=number: self.heard > number)  # type: ignore[misc]  # mypy cannot infer it
            seen.append(round((workflow.now() - START).total_seconds()))

    @workflow.signal
    def signalled(self) -> None:
        """Count it."""
        self.heard += 1

    @workflow.update
    def updated(self) -> None:
        """Change nothing."""


class HandWritten:
    """A history that grows by whole workflow tasks."""

    def __init__(self) -> None:
        self.events: list[HistoryEvent] = []
        started = self.add(0, EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED)
        told = started.workflow_execution_started_event_attributes
        told.workflow_type.name = SeesSignals.__name__
        told.original_execution_run_id = "run"
        told.task_queue.name = "by-hand"  # without one the SDK waits for ever
        self.task(0)

    def add(self, second: int, kind: EventType.ValueType) -> HistoryEvent:
        """Append an event."""
        event = HistoryEvent(event_id=len(self.events) + 1, event_type=kind)
        event.event_time.FromDatetime(START + timedelta(seconds=second))
        self.events.append(event)
        return event

    def task(self, second: int) -> int:
        """Append a workflow task that completed; returns the number of its first event."""
        scheduled = self.add(second, EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED)
        scheduled.workflow_task_scheduled_event_attributes.SetInParent()
        first = scheduled.event_id
        started = self.add(second, EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED)
        started.workflow_task_started_event_attributes.scheduled_event_id = first
        completed = self.add(second, EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED)
        completed.workflow_task_completed_event_attributes.scheduled_event_id = first
        completed.workflow_task_completed_event_attributes.started_event_id = first + 1
        return first

    def signal(self, second: int) -> None:
        """Append a signal and its workflow task."""
        signalled = self.add(second, EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED)
        signalled.workflow_execution_signaled_event_attributes.signal_name = "signalled"
        self.task(second)

    def end(self, second: int) -> None:
        """Append the end of the workflow."""
        ended = self.add(second, EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED)
        ended.workflow_execution_completed_event_attributes.SetInParent()

    def accepted_update(self, second: int) -> None:
        """Append an Update that was accepted and completed in its workflow task."""
        scheduled = self.task(second)
        accepted = self.add(second, EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED)
        told = accepted.workflow_execution_update_accepted_event_attributes
        told.protocol_instance_id = told.accepted_request.meta.update_id = "update"
        told.accepted_request_message_id = "update/request"
        told.accepted_request_sequencing_event_id = scheduled
        told.accepted_request.input.name = "updated"
        completed = self.add(second, EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_COMPLETED)
        completed.workflow_execution_update_completed_event_attributes.meta.update_id = "update"
        completed.workflow_execution_update_completed_event_attributes.accepted_event_id = accepted.event_id
        completed.workflow_execution_update_completed_event_attributes.outcome.success.SetInParent()

    def rejected_update(self, second: int) -> None:
        """Append what is left of an Update that was rejected."""
        self.task(second)


@pytest.mark.parametrize(
    "between",
    [
        pytest.param("nothing", id="nothing-between-the-signals"),
        pytest.param("accepted_update", id="an-update-that-was-accepted"),
        pytest.param(
            "rejected_update",
            id="an-update-that-was-rejected",
            marks=pytest.mark.xfail(strict=True, reason="temporalio/sdk-rust#1606: two workflow tasks replay as one"),
        ),
    ],
)
async def test_a_signal_is_seen_at_the_time_of_its_own_workflow_task(between: str) -> None:
    """The workflow task of the first signal has no commands, whatever comes next."""
    history = HandWritten()
    history.signal(10)
    if between != "nothing":
        getattr(history, between)(20)
    history.signal(30)
    history.end(30)
    seen.clear()
    replayer = Replayer(workflows=[SeesSignals], workflow_runner=UnsandboxedWorkflowRunner(), runtime=quiet_runtime())
    await replayer.replay_workflow(WorkflowHistory("by-hand", history.events))
    assert seen == [10, 30]
