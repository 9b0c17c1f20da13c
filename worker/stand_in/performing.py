"""Carries out one action in this process: tries it as often as Temporal would, and says how it ended."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

from temporalio.exceptions import ApplicationError, FailureError

from activities.execution.in_process import InProcessAttempt
from proto.temporal.activities.requests import AwaitPredecessor, PullImage, RunHook, StopContainer
from proto.temporal.away import EntryKind, StoryEntry
from proto.temporal.node import PrepullImage
from worker.payloads.receiving import ReceivingConverter
from workflows.decide.actions import Action
from workflows.decide.node.actions import NodeAction
from workflows.loops.calls import action_type, retry_of
from workflows.loops.driver import Failed
from workflows.steps import ANSWER_REFUSED

ATTACHES: Final = (AwaitPredecessor, PrepullImage, PullImage, RunHook, StopContainer)
"""Actions that may last for hours: another driver attaches to the one that runs."""
CONVERTER: Final = ReceivingConverter()


class Activities(Protocol):
    """The activities of this process (`activities/execution/in_process.py`)."""

    async def run(self, attempt: InProcessAttempt, request: object) -> Any:
        """Return what the activity answers; raises FailureError."""
        ...


@dataclass(slots=True, eq=False)
class Performed:
    """An action under way."""

    action: Action | NodeAction
    attempt: InProcessAttempt | None = None
    """None: no try of it runs."""

    def must_end(self) -> bool:
        """Report whether a driver that leaves has to wait for its end."""
        row = action_type(self.action)
        return self.attempt is not None and not (row.endless or row.at_once or isinstance(self.action, ATTACHES))


@dataclass(frozen=True, slots=True)
class Ended:
    """How an action ended: with an answer, or `Failed`."""

    answer: Any
    attempt: InProcessAttempt
    """The last one."""
    last_failure: str
    """Why the one before it failed."""

    def entry(self, now: datetime) -> StoryEntry:
        """Return what is said of it in the story."""
        attempt = self.attempt
        kind = EntryKind.FAILED if isinstance(self.answer, Failed) else EntryKind.COMPLETED
        entry = StoryEntry(
            now, kind, attempt.name, attempt.key, attempts=attempt.number, last_failure=self.last_failure
        )
        if isinstance(self.answer, Failed):
            return replace(entry, reason=self.answer.reason, message=self.answer.message)
        return replace(entry, value=self.answer)


async def tried(
    performed: Performed,
    attempt: InProcessAttempt,
    activities: Activities,
    pause: Callable[[timedelta], Awaitable[None]],
) -> Ended:
    """Try an action until it has an answer or a failure that is not retried; `pause` waits at least so long before another try."""
    retry, last_failure = retry_of(performed.action), ""
    interval = retry.initial
    while True:
        performed.attempt = attempt
        try:
            answer = await activities.run(attempt, performed.action)
        except FailureError as error:
            reason = getattr(error, "type", None) or type(error).__name__
            if isinstance(error, ApplicationError) and error.non_retryable:
                return Ended(Failed(reason, error.message), attempt, last_failure)
            last_failure = f"{reason}: {error.message}"
            wanted = error.next_retry_delay if isinstance(error, ApplicationError) else None
        else:
            return Ended(answer_of(performed.action, answer), attempt, last_failure)
        performed.attempt = None
        await pause(wanted or interval)
        interval = min(interval * retry.factor, retry.longest)
        attempt = attempt.again()


def answer_of(action: Action | NodeAction, answer: Any) -> Any:
    """Return an answer as a workflow would read it; one of another type is a failure, as it is there."""
    row = action_type(action)
    try:
        return converted(answer, row.result) if row.result else None
    except Exception:  # noqa: BLE001 - pydantic raises many
        return Failed(ANSWER_REFUSED, f"the answer of {row.name} is refused: its value is of another type")


def converted(value: Any, kind: type) -> Any:
    """Convert a value by the converter that reads all payloads."""
    return CONVERTER.from_payloads(CONVERTER.to_payloads([value]), [kind])[0]
