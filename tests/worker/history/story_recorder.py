"""Writes a pod's history as Temporal would, for the tests of the sentences."""

import functools
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import TypeAdapter
from temporalio.api.common.v1 import Payload, Payloads
from temporalio.api.enums.v1 import EventType
from temporalio.api.failure.v1 import ApplicationFailureInfo, Failure
from temporalio.api.history.v1 import HistoryEvent

from proto.temporal.activities import requests
from proto.temporal.pod import ContainerState, PodJson, PodKey, PodStart
from worker.history.story import build_story
from workflows.decide.versions import CURRENT

START = datetime(2026, 11, 21, 12, 4, 1, 120_000, tzinfo=UTC)
POD = PodKey("default", "web", "u-1")
LISTED: PodJson = {"metadata": {"uid": "u-1"}, "spec": {"containers": [{"name": "web", "image": "busybox:1"}]}}
STARTED = PodStart("node", LISTED, path="/manifests/hello.yaml", behaviour=CURRENT)


@functools.cache
def adapter(kind: Any) -> TypeAdapter[Any]:
    """Build the adapter of a type once: it takes longer than many conversions."""
    return TypeAdapter(kind)


def payload(value: Any) -> Payload:
    """Write a payload as the converter does."""
    kind: Any = type(value)
    return Payload(metadata={"encoding": b"json/plain"}, data=adapter(kind).dump_json(value))


def payloads(value: Any) -> Payloads:
    """Write one as an argument list."""
    return Payloads(payloads=[payload(value)])


@dataclass
class Recorder:
    """Writes events as Temporal would, a step of time before each."""

    events: list[HistoryEvent] = field(default_factory=list)
    now: datetime = START

    def event(self, kind: str, **attributes: Any) -> HistoryEvent:
        """Add one event now."""
        fields: dict[str, Any] = {f"{kind.lower()}_event_attributes": attributes}
        kind_number = EventType.Value(f"EVENT_TYPE_{kind}")
        added = HistoryEvent(event_id=len(self.events) + 1, event_type=kind_number, **fields)
        added.event_time.FromDatetime(self.now)
        self.events.append(added)
        return added

    def after(self, took: float) -> None:
        """Let time pass."""
        self.now += timedelta(seconds=took)

    def begin(self, start: PodStart = STARTED, continued: str = "") -> None:
        """Start the workflow."""
        self.event("WORKFLOW_EXECUTION_STARTED", input=payloads(start), continued_execution_run_id=continued)

    def signal(self, name: str, signal: Any) -> None:
        """Signal it."""
        self.event("WORKFLOW_EXECUTION_SIGNALED", signal_name=name, input=payloads(signal))

    def ask(self, name: str, request: Any, took: float = 0.0, attempt: int = 1, why: Failure | None = None) -> int:
        """Schedule and start an activity; gives what its end refers to."""
        asked = self.event(
            "ACTIVITY_TASK_SCHEDULED", activity_id="a", activity_type={"name": name}, input=payloads(request)
        ).event_id
        self.after(took)
        self.event("ACTIVITY_TASK_STARTED", scheduled_event_id=asked, attempt=attempt, last_failure=why)
        return asked

    def do(self, name: str, request: Any, answer: Any = None, took: float = 0.0, **more: Any) -> None:
        """Carry an activity out."""
        asked = self.ask(name, request, took, **more)
        self.event("ACTIVITY_TASK_COMPLETED", scheduled_event_id=asked, result=payloads(answer))

    def update(self, name: str, answer: Any) -> None:
        """Update it, with an answer."""
        meta = {"update_id": "u", "identity": "someone"}
        self.event("WORKFLOW_EXECUTION_UPDATE_ACCEPTED", accepted_request={"meta": meta, "input": {"name": name}})
        self.event("WORKFLOW_EXECUTION_UPDATE_COMPLETED", meta=meta, outcome={"success": payloads(answer)})

    def texts(self) -> list[str]:
        """Tell what was recorded."""
        return [line.text for line in build_story([self.events]).lines]


def seen(container_id: str = "c1", *, attempt: int = 0, exit_code: int | None = None, **more: Any) -> Any:
    """Write one container as the runtime reports it."""
    state = ContainerState.RUNNING if exit_code is None else ContainerState.EXITED
    return requests.RuntimeContainer("web", container_id, "s1", attempt, state, exit_code=exit_code, **more)


START_WEB = requests.StartContainer(POD, "s1", 0, "sha256:1", {"name": "web"}, {})
RUN_SANDBOX = requests.RunPodSandbox(POD, 0, {})


def failure(message: str, reason: str) -> Failure:
    """Write a failure as the codec keeps it: the message in the encoded attributes."""
    return Failure(
        message="Encoded failure",
        encoded_attributes=payload({"message": message, "stack_trace": ""}),
        application_failure_info=ApplicationFailureInfo(type=reason),
    )
