"""Holds back what Temporal's runs do while it is not known whether Temporal has all of their histories.

Shut when a connection to Temporal was lost: whatever answers next may be an older database, whose runs would do again what they have done. A
workflow task cannot be made to wait, so its effects are: activities wait at the gate, and what a run says of itself is held back. Once it
is settled what Temporal has, both go on. A run whose pod the node leads by then is judged by its ticket, and has no effect.
"""

import asyncio
import threading
from collections.abc import Callable
from typing import Any, Final

from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from activities.execution.attempt import current_attempt

MOST_HELD: Final = 4096
"""What is said of workflows; the rest is dropped, and said again with their next decisions."""


class Fence:
    """The fence of one worker; `say` may be called in any thread, the rest on the event loop."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()
        self._lock = threading.Lock()
        self._is_shut = False
        self._held: dict[tuple[str, str], Callable[[], None]] = {}

    @property
    def is_shut(self) -> bool:
        """Whether effects are held back."""
        return self._is_shut

    def shut(self) -> None:
        """Hold back."""
        with self._lock:
            self._is_shut = True
        self._open.clear()

    def open(self) -> None:
        """Let everything go on, and say what was held back."""
        with self._lock:
            self._is_shut, held, self._held = False, self._held, {}
        for say in held.values():
            say()
        self._open.set()

    def say(self, workflow_id: str, what: str, say: Callable[[], None]) -> None:
        """Say something of a workflow, at once or later; what is newer replaces what is held."""
        with self._lock:
            if self._is_shut:
                self._held.pop((workflow_id, what), None)
                if len(self._held) < MOST_HELD:
                    self._held[workflow_id, what] = say
                return
        say()

    def interceptor(self) -> Interceptor:
        """Return what goes around all activities that Temporal sends."""
        return _Waiting(self._open)


class _Waiting(Interceptor):
    def __init__(self, opened: asyncio.Event) -> None:
        self._opened = opened

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002 - the SDK's name
        """Wrap every activity."""
        opened = self._opened

        class Waiting(ActivityInboundInterceptor):
            async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 - the SDK's name
                if not current_attempt().is_local:  # those only read
                    await opened.wait()
                return await super().execute_activity(input)

        return Waiting(next)
