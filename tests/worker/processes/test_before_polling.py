"""Is everything done before the worker asks for work, in order, and is Temporal asked for each workflow once?"""

import asyncio
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.namespace.v1 import NamespaceInfo
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.api.workflowservice.v1 import (
    DescribeNamespaceResponse,
    DescribeWorkflowExecutionRequest,
    DescribeWorkflowExecutionResponse,
    ListWorkflowExecutionsResponse,
)

from tests.patience import PATIENCE
from tests.worker.host.temporal.test_takeover import handles
from tests.worker.stand_in.journal.journals import journal_in, start, workflow_id
from worker.host.temporal.first_look import FirstLook
from worker.processes.before_polling import BeforePolling, Phase
from worker.stand_in.comparing.comparing import Compared, Comparing
from worker.stand_in.comparing.looking import Looking
from worker.stand_in.journal.kept import Place
from worker.temporal.call_budget import CallBudget

__all__ = ["handles"]  # a fixture: attempts that are failed are noted

PODS = 110


class Temporal:
    """Temporal with one attempt of an earlier worker in each workflow; counts what it is asked."""

    namespace, identity = "tempolet", "worker/n/2"

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.freed: list[str] = []

    @property
    def workflow_service(self) -> Self:
        """Return itself."""
        return self

    async def describe_namespace(self, *_: Any, **__: Any) -> Any:
        """Return an id."""
        self.asked["namespace"] += 1
        return DescribeNamespaceResponse(namespace_info=NamespaceInfo(id="here"))

    async def list_workflow_executions(self, *_: Any, **__: Any) -> Any:
        """List nothing: visibility lags."""
        self.asked["list"] += 1
        return ListWorkflowExecutionsResponse()

    async def describe_workflow_execution(self, asked: DescribeWorkflowExecutionRequest, **_: Any) -> Any:
        """Describe the run that the node knows."""
        self.asked["describe"] += 1
        await asyncio.sleep(0)
        state = PendingActivityState.PENDING_ACTIVITY_STATE_STARTED
        pending = PendingActivityInfo(activity_id="probe/web", state=state, last_worker_identity="worker/n/1")
        answer = DescribeWorkflowExecutionResponse(pending_activities=[pending])
        answer.workflow_execution_info.execution.workflow_id = asked.execution.workflow_id
        answer.workflow_execution_info.execution.run_id = "run-1"
        answer.workflow_execution_info.history_length = 20
        return answer


async def test_each_workflow_is_asked_for_once(tmp_path: Path) -> None:
    """By all that is done before, with 110 pods: one list, one look at each; and each lost attempt is failed."""
    temporal, phase, done = Temporal(), Phase(), list[str]()
    with journal_in(tmp_path) as journal:
        pods = [workflow_id(f"u{number}") for number in range(PODS)]
        for number, pod in enumerate(pods):
            journal.keep(pod, start(f"u{number}"), Place("here", "run-1", 20))

        async def take_over(workflow: str, why: str) -> None:
            raise AssertionError(f"{workflow} is led: {why}")

        comparing = Comparing(Compared(journal, take_over, lambda _: None, lambda settled: done.append(f"{settled}")))

        async def replay(look: FirstLook, known: Iterable[str]) -> None:
            assert (phase.is_replaying, temporal.freed) == (True, [])
            done.append("replayed")
            for one in known:
                await look.describe(one)

        before = BeforePolling(
            node="n",
            compare=lambda look: comparing.compare(Looking(look)),
            replay=replay,
            known=lambda: pods,
            budget=CallBudget(),
            phase=phase,
        )
        async with asyncio.timeout(PATIENCE):
            taken = await before.run(temporal)  # type: ignore[arg-type]  # plays Client
    assert temporal.asked == {"namespace": 1, "list": 1, "describe": PODS + 1}
    assert done == ["False", "True", "replayed"]
    assert (taken.attempts, sorted(temporal.freed)) == (PODS + 1, sorted(["node/n", *pods]))
    assert phase == Phase()
