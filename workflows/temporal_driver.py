"""Drives the loops (`loops/`) by Temporal: each action is an activity, each wait a timer, and the history grows.

A run ends and continues as new before its history is too long to be replayed in time.
"""

import logging
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, Final, NoReturn

from temporalio import workflow

from proto.pod_snapshot import PodSnapshot
from proto.temporal.node import NodeStart
from proto.temporal.pod import PodStart
from workflows.decide.actions import Action, Wake
from workflows.decide.node.actions import NodeAction
from workflows.decide.status.status import PodSummary
from workflows.extern import KEEP_STATE, PUBLISH, Decided, extern
from workflows.search_attributes import announce, announced
from workflows.steps import SUMMARY_LIMIT, carry_out

SIGNALS_PER_RUN: Final = 2000
"""Temporal rejects signals beyond 10,000 in one run."""
EVENTS_PER_RUN: Final = 500
"""So that replays end within the timeout of a workflow task (3 s). A worker that starts replays every pod that has news, eight
at a time on one interpreter, and 1,000 events take 0.4 s of CPU. With runs of 4,000 events the tasks took 14 s and were lost
two times out of three."""


class TemporalDriver:
    """The driver of a loop inside a workflow."""

    logger: "logging.Logger | logging.LoggerAdapter[Any]" = workflow.logger
    """Logs nothing in a replay."""

    def __init__(self, *, encrypted: bool, short_run: bool = False) -> None:
        """Take what the run's behaviour says: whether a stranger's answer is a failure, and whether runs end at EVENTS_PER_RUN."""
        self._encrypted = encrypted
        self._short_run = short_run

    def now(self) -> datetime:
        """Return the time of the workflow task."""
        return workflow.now()

    async def perform(self, action: Action | NodeAction) -> Any:
        """Carry out an action as an activity."""
        return await carry_out(action, encrypted=self._encrypted)

    async def sleep(self, wait: Wake) -> None:
        """Wait on a timer, which the UI shows with its reason."""
        await workflow.sleep(time_left(wait), summary=wait.summary[:SUMMARY_LIMIT])

    async def wait(self, condition: Callable[[], bool], until: Wake | None = None) -> None:
        """Wait for a condition, with a timer if there is a limit."""
        timeout, summary = (time_left(until), until.summary) if until else (None, None)
        await workflow.wait_condition(condition, timeout=timeout, timeout_summary=summary)

    def notify(self) -> None:
        """Do nothing: the SDK evaluates conditions after each event."""

    def is_history_long(self, signals: int) -> bool:
        """Report whether this run's history is long enough for continue-as-new."""
        info = workflow.info()
        if self._short_run and info.get_current_history_length() >= EVENTS_PER_RUN:
            return True
        return info.is_continue_as_new_suggested() or signals >= SIGNALS_PER_RUN

    def continue_as_new(self, start: PodStart | NodeStart) -> NoReturn:
        """Continue as new; raises Temporal's exception for that."""
        workflow.continue_as_new(start)

    def show(self, card: str) -> None:
        """Set the card, which the UI queries; it is not in the history."""
        workflow.set_current_details(card)

    def keep(self, state: Callable[[], PodStart | NodeStart], waits: Iterable[Wake], under_way: Iterable[str]) -> None:
        """Offer the state to the worker, with the place in the history at which it was decided."""
        if keep := extern(KEEP_STATE):
            info = workflow.info()
            wakes_at = min((one.at for one in waits), default=None)
            length = info.get_current_history_length()
            decided = Decided(info.run_id, length, wakes_at, tuple(under_way), workflow.now())
            keep(info.workflow_id, decided, state())


class TemporalPodDriver(TemporalDriver):
    """The driver of a pod's loop inside its workflow."""

    def __init__(self, *, encrypted: bool, short_run: bool) -> None:
        super().__init__(encrypted=encrypted, short_run=short_run)
        self._announced = announced()

    def converted(self, value: Any, kind: type) -> Any:
        """Convert a value by the converter that reads all payloads."""
        convert = workflow.payload_converter()
        return convert.from_payload(convert.to_payload(value), kind)

    def publish(self, line: PodSummary, snapshot: Callable[[], PodSnapshot]) -> None:
        """Write the snapshot to the node's cache, and upsert the search attributes that changed."""
        if write := extern(PUBLISH):
            write(snapshot())
        self._announced = announce(line, self._announced)


def time_left(wake: Wake) -> timedelta:
    """Return the duration of a timer for this wait."""
    return max(wake.at - workflow.now(), timedelta(milliseconds=1))
