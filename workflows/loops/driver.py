"""What a loop needs from the engine that drives it.

Temporal drives it durably (`workflows/temporal_driver.py`). While Temporal is away, the worker drives it in its own process
(`worker/stand_in/`). A loop cannot tell which of them it has.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NoReturn, Protocol

from proto.pod_snapshot import PodSnapshot
from proto.temporal.node import NodeStart
from proto.temporal.pod import PodStart
from workflows.decide.actions import Action, Wake
from workflows.decide.node.actions import NodeAction
from workflows.decide.status.status import PodSummary


@dataclass(frozen=True, slots=True)
class Failed:
    """Why an action failed."""

    reason: str
    message: str


class Driver(Protocol):
    """Time, actions and waits for the loop of one pod or node."""

    @property
    def logger(self) -> "logging.Logger | logging.LoggerAdapter[Any]":
        """Where the loop logs."""
        ...

    def now(self) -> datetime:
        """Return the time, aware and in UTC."""
        ...

    async def perform(self, action: Action | NodeAction) -> Any:
        """Carry out an action; returns its answer or `Failed`. Raises asyncio.CancelledError only if the loop cancelled it."""
        ...

    async def sleep(self, wait: Wake) -> None:
        """Return when this wait is over; raises asyncio.CancelledError."""
        ...

    async def wait(self, condition: Callable[[], bool], until: Wake | None = None) -> None:
        """Return when the condition is true; raises TimeoutError at `until`, asyncio.CancelledError if the run is cancelled."""
        ...

    def notify(self) -> None:
        """Note that a condition which is waited for may have become true."""
        ...

    def is_history_long(self, signals: int) -> bool:
        """Report whether the run should continue as new because of its length, or of the signals that it received."""
        ...

    def continue_as_new(self, start: PodStart | NodeStart) -> NoReturn:
        """End this run; the next one begins with `start`."""
        ...

    def show(self, card: str) -> None:
        """Show this card to an operator."""
        ...

    def keep(self, state: Callable[[], PodStart | NodeStart]) -> None:
        """Keep the state with which another driver could go on; `state` is called only if it is kept.

        What it returns shares its `observed` with the loop, so it is valid until this method returns.
        """
        ...


class PodDriver(Driver, Protocol):
    """What the loop of a pod needs besides."""

    def converted(self, value: Any, kind: type) -> Any:
        """Convert a value that was read as JSON to its type."""
        ...

    def publish(self, line: PodSummary, snapshot: Callable[[], PodSnapshot]) -> None:
        """Publish the pod's state; `snapshot` is called only if somebody reads it."""
        ...
