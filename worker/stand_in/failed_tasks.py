"""Finds the workflows whose tasks fail again and again, because their code does not replay, for example.

The SDK does not say which run a failure belongs to. But after each failure it forgets the run, so the next try begins the run's code
from its first event. Temporal is asked about a run that has begun so several times: it knows how many tasks in a row
have failed. A cache that was too small, or a query, makes runs begin again, too; then Temporal says that none has failed.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any, Final

from temporalio import workflow
from temporalio.worker import (
    ExecuteWorkflowInput,
    Interceptor,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)

from worker.stand_in.hand_back.returns import FAILED_TASKS

STEP: Final = 1.0
"""Seconds between two looks at what has begun in this process."""
FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 30.0
"""Seconds between two questions about one workflow."""
MOST: Final = 1024
"""Workflows that are remembered."""


class FailedTasks:
    """Watches the runs of one worker."""

    def __init__(self, ask: Callable[[str], Awaitable[int | None]], tell: Callable[[str, int], None]) -> None:
        """Take who knows how many tasks of a workflow have failed in a row (None: no answer), and who wants to know it."""
        self._ask, self._tell = ask, tell
        self._lock = threading.Lock()
        """For what follows."""
        self._begun: dict[str, tuple[str, int]] = {}
        """By workflow: its run, and how often that has begun here."""
        self._asked: dict[str, tuple[float, float]] = {}
        """By workflow: when it may be asked about again, and the pause after that."""

    @property
    def interceptor(self) -> Interceptor:
        """What the Temporal worker puts around each run."""
        return _Counting(self)

    def begun(self, workflow_id: str, run_id: str) -> None:
        """Count that the code of a run begins; any thread may call it."""
        with self._lock:
            known, number = self._begun.pop(workflow_id, (run_id, 0))
            if known != run_id:
                self._asked.pop(workflow_id, None)
                number = 0
            self._begun[workflow_id] = run_id, number + 1
            if len(self._begun) > MOST:
                del self._begun[next(iter(self._begun))]

    async def watch(self) -> None:
        """Ask about runs that have begun too often, until cancelled."""
        while True:
            await self.look(monotonic())
            await asyncio.sleep(STEP)

    async def look(self, now: float) -> None:
        """Ask about each run that has begun too often, unless it was just asked about."""
        for workflow_id in self._suspects(now):
            failed = await self._ask(workflow_id)
            if failed is None:
                continue
            self._tell(workflow_id, failed)
            if not failed:
                with self._lock:
                    self._begun.pop(workflow_id, None)
                    self._asked.pop(workflow_id, None)

    def _suspects(self, now: float) -> list[str]:
        with self._lock:
            self._asked = {one: at for one, at in self._asked.items() if one in self._begun}
            often = [one for one, (_, number) in self._begun.items() if number >= FAILED_TASKS]
            found = [one for one in often if self._asked.get(one, (now, 0.0))[0] <= now]
            for one in found:
                _, pause = self._asked.get(one, (now, FIRST_PAUSE))
                self._asked[one] = now + pause, min(pause * 2, LONGEST_PAUSE)
            return found


class _Counting(Interceptor):
    def __init__(self, failed: FailedTasks) -> None:
        self._failed = failed

    def workflow_interceptor_class(self, input: WorkflowInterceptorClassInput) -> type[WorkflowInboundInterceptor]:  # noqa: A002, ARG002 - the SDK's names
        failed = self._failed

        class Run(WorkflowInboundInterceptor):
            async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:  # noqa: A002 - the SDK's name
                info = workflow.info()
                failed.begun(info.workflow_id, info.run_id)
                return await super().execute_workflow(input)

        return Run
